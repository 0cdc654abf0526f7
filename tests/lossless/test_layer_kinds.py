"""Speculation with models whose layers keep states, or a window, gives the models' own tokens.

The models have random weights: what they say means nothing, so every choice is far from sure, and a
draft is right only where a test knows the answer.
"""

import exactness
import pytest
from layer_kinds import LAYER_KINDS, write_layer_kind
from quiet_loading import quiet_target
from real_prompts import RealPrompt
from scripted_drafters import AdversarialDrafter, OracleDrafter, RandomDrafter

from speclsp.backends.kv_states import KvStates
from speclsp.backends.llama.context import LlamaTarget
from speclsp.decoding.sampling import SamplingParams
from speclsp.decoding.speculate import Generation
from speclsp.drafting.drafter import DraftContext, Drafter
from tests.support.margins import RecordingSampler

pytestmark = pytest.mark.real

N_PREDICT = 24
EPSILON = 0.01
"""Above the largest logit difference between batch shapes, 0.002 with these weights in F32."""
SEEDS = (1, 2)
SNAPSHOTS = {"lfm2", "qwen35"}
STATES = {*SNAPSHOTS, "mamba", "granitehybrid"}


@pytest.fixture(scope="module", params=LAYER_KINDS)
def kind(request):
    return str(request.param)


@pytest.fixture(scope="module")
def target(kind, tmp_path_factory):
    path = write_layer_kind(tmp_path_factory.mktemp(kind) / f"{kind}.gguf", kind)
    loaded = quiet_target(path, fit=False, ctx_size=1024)
    yield loaded
    loaded.close()


def params(mode: str, seed: int) -> SamplingParams:
    temperature = 0.0 if mode == "greedy" else 0.8
    return SamplingParams(temperature=temperature, top_k=40, top_p=0.95, min_p=0.0, seed=seed)


def run(
    target: LlamaTarget, prompt: tuple[int, ...], drafter: Drafter | None, sampler: RecordingSampler
) -> Generation:
    return exactness.run(target, DraftContext(prompt=prompt), drafter, sampler, N_PREDICT)


def assert_same(tokens: tuple[int, ...], own: Generation, margins: list[float]) -> None:
    """Equal up to the first choice, if any, that was nearly even."""
    same = [a == b for a, b in zip(tokens, own.tokens, strict=True)]
    if all(same):
        return
    place = same.index(False)
    assert 2.0 * margins[place] < EPSILON, f"token {place}, margin {margins[place]:.5f}"


@pytest.mark.parametrize("mode", ["greedy", "seeded"])
def test_speculation_gives_the_models_own_tokens(kind, mode, target, prompts):
    drafted: dict[str, int] = {}
    accepted = 0
    for seed, prompt in zip(SEEDS, prompts[:: len(prompts) // len(SEEDS)], strict=False):
        tokens = prompt.tokens[-300:]
        target.truncate(0)
        alone = RecordingSampler(params(mode, seed))
        own = run(target, tokens, None, alone)
        drafters: dict[str, Drafter] = {
            "oracle": OracleDrafter(own.tokens, N_PREDICT),
            "adversarial": AdversarialDrafter(own.tokens, target.n_vocab),
            "random": RandomDrafter(target.n_vocab, seed=seed),
        }
        for name, drafter in drafters.items():
            generation = run(target, tokens, drafter, RecordingSampler(params(mode, seed)))
            assert generation.drafter_failures == ()
            assert_same(generation.tokens, own, alone.margins)
            assert list(target.cached) == [*tokens, *generation.tokens][: len(target.cached)]
            drafted[name] = drafted.get(name, 0) + generation.stats.n_drafted
            accepted += generation.stats.n_accepted
            if name == "oracle" and generation.tokens == own.tokens:
                longest = min(target.max_draft, N_PREDICT - 1)
                assert generation.stats.n_target_passes == -(-N_PREDICT // (longest + 1))
    assert min(drafted.values()) > 0
    assert accepted > N_PREDICT


def test_a_draft_is_as_long_as_can_be_taken_back(kind, target):
    assert target.supports_rollback == (kind not in STATES)
    assert target.evaluates_again == (kind in STATES - SNAPSHOTS)
    assert target.max_draft == (15 if kind in SNAPSHOTS else 127)
    assert (target.n_branches == 1) == (kind in STATES)


def keys(prompt: RealPrompt, middle: int, typed: list[int]) -> list[tuple[int, ...]]:
    """The prompts of keys in a row: each adds a token behind the middle token."""
    start = prompt.tokens.index(middle)
    before = prompt.tokens[max(0, start - 250) : start + 1]
    return [(*before, *typed[:n_typed]) for n_typed in range(len(typed) + 1)]


@pytest.mark.parametrize("drafts", [False, True], ids=["alone", "drafted"])
def test_a_key_evaluates_what_was_typed_and_not_the_prompt(kind, target, prompts, drafts):
    target.truncate(0)
    typed = list(prompts[3].tokens[:6])
    texts: list[tuple[int, ...]] = []
    evaluated: list[int] = []
    for prompt in keys(prompts[0], target.model.fim_middle, typed):
        before = target.n_evaluated
        drafter = RandomDrafter(target.n_vocab, seed=len(prompt)) if drafts else None
        generation = run(target, prompt, drafter, RecordingSampler(params("greedy", 0)))
        texts.append(generation.tokens)
        evaluated.append(target.n_evaluated - before - N_PREDICT)
        if drafts:
            evaluated[-1] -= generation.stats.n_drafted
    n_prompt = len(keys(prompts[0], target.model.fim_middle, [])[0])
    assert evaluated[0] >= n_prompt - 1
    # A wrong draft has the tokens before it, the prompt's last ones at most, evaluated again.
    assert max(evaluated[1:]) <= (len(typed) + 2 * N_PREDICT if drafts else len(typed) + 1)
    for prompt, tokens in zip(keys(prompts[0], target.model.fim_middle, typed), texts, strict=True):
        target.truncate(0)
        alone = RecordingSampler(params("greedy", 0))
        assert_same(tokens, run(target, prompt, None, alone), alone.margins)


def test_prompts_of_other_formats_are_gone_back_to_from_the_third_on(kind, target, prompts):
    target.truncate(0)
    shared = tuple(token for token in prompts[1].tokens if token != target.model.fim_middle)[:200]
    evaluated = []
    for end in (11, 12, 13, 14):
        before = target.n_evaluated
        run(target, (*shared, end), None, RecordingSampler(params("greedy", 0)))
        evaluated.append(target.n_evaluated - before - N_PREDICT)
    assert max(evaluated[2:]) <= 2
    assert evaluated[1] <= (len(shared) if kind in STATES else 2)


def test_a_cancelled_decode_leaves_a_prompt_that_can_be_gone_on_with(kind, target, prompts):
    prompt = keys(prompts[2], target.model.fim_middle, [5, 6])[-1]
    target.truncate(0)
    alone = RecordingSampler(params("greedy", 0))
    own = run(target, prompt, None, alone)
    target.truncate(0)
    n_calls = 0

    def interrupted():
        nonlocal n_calls
        n_calls += 1
        if n_calls == 6:
            target.set_interrupt(lambda: True)
            while target._interrupt._text[0] == b"\0":
                pass

    cut = exactness.run(
        target,
        DraftContext(prompt=prompt),
        RandomDrafter(target.n_vocab, seed=3),
        RecordingSampler(params("greedy", 0)),
        N_PREDICT,
        interrupted=interrupted,
    )
    target.set_interrupt(None)
    assert cut.finish_reason == "cancelled"
    assert 0 < len(cut.tokens) < N_PREDICT
    before = target.n_evaluated
    again = run(target, prompt, None, RecordingSampler(params("greedy", 0)))
    assert_same(again.tokens, own, alone.margins)
    assert target.n_evaluated - before <= N_PREDICT + 8


def test_two_documents_in_turns_evaluate_their_prompts_once(kind, target, prompts):
    target.truncate(0)
    states = KvStates(target, 1 << 26)
    middle = target.model.fim_middle
    documents = [keys(prompt, middle, [3, 4, 5]) for prompt in (prompts[0], prompts[4])]
    texts: dict[tuple[int, ...], tuple[int, ...]] = {}
    evaluated = []
    for n_typed in range(4):
        for document in documents:
            prompt = document[n_typed]
            before = target.n_evaluated
            states.prepare(prompt)
            drafter = AdversarialDrafter([7] * N_PREDICT, target.n_vocab)
            generation = run(target, prompt, drafter, RecordingSampler(params("greedy", 0)))
            texts[prompt] = generation.tokens
            evaluated.append(target.n_evaluated - before - generation.stats.n_drafted)
    assert min(evaluated[:2]) >= 200
    assert max(evaluated[2:]) <= 3 * N_PREDICT
    for prompt, tokens in texts.items():
        target.truncate(0)
        alone = RecordingSampler(params("greedy", 0))
        assert_same(tokens, run(target, prompt, None, alone), alone.margins)
