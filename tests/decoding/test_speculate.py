"""The loop: its output is the target's own, whatever is drafted, and its books are right."""

from collections.abc import Callable, Sequence

import exactness
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_drafters import (
    AdversarialDrafter,
    EmptyDrafter,
    OracleDrafter,
    RandomDrafter,
    ScriptedDrafter,
)
from scripted_proposers import TreeProposer, adversarial_trees, oracle_trees, random_trees, tree_of
from scripted_target import ScriptedTarget, hashing

from speclsp.common_ends import common_head
from speclsp.decoding.sampling import GreedySampler, SamplingParams, make_sampler
from speclsp.decoding.speculate import Generation, generate
from speclsp.decoding.target import Logits
from speclsp.decoding.verify import draft_limit
from speclsp.drafting.drafter import NO_TREE, Draft, DraftContext, Drafter
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.errors import DecodeError, DecodeInterruptedError, EngineError, NoRoomError
from speclsp.reporting.gain import measured_speedup
from speclsp.seam.request import FinishReason

N_VOCAB = 7
PROMPT = [1, 2, 3, 4, 5, 6, 1, 2]


def target(**sizes: int) -> ScriptedTarget:
    return ScriptedTarget(hashing(N_VOCAB, order=2), N_VOCAB, **{"n_ubatch": 4, **sizes})


def tick() -> Callable[[], float]:
    """A clock that advances by a millisecond per look."""
    looks = iter(range(1, 10**9))
    return lambda: next(looks) / 1000.0


def nth(n: int, emitted: list[int] | None = None) -> Callable[[int], bool]:
    """A stop rule that holds at the ``n``-th token; ``emitted`` gets what it was asked of."""
    asked = [] if emitted is None else emitted
    return lambda token: asked.append(token) or len(asked) == n


def run(
    model: ScriptedTarget,
    drafter: Drafter | Proposer | None = None,
    *,
    prompt: Sequence[int] = PROMPT,
    n_predict: int = 20,
    temperature: float = 0.0,
    stop: Callable[[int], bool] = lambda token: False,
    interrupted: Callable[[], FinishReason | None] = lambda: None,
) -> Generation:
    sampler = make_sampler(
        SamplingParams(temperature=temperature, top_k=5, top_p=0.95, min_p=0.01, seed=4)
    )
    return generate(
        model,
        DraftContext(prompt=prompt),
        drafter=drafter,
        sampler=sampler,
        n_predict=n_predict,
        stop=stop,
        interrupted=interrupted,
        clock=tick(),
    )


def check_books(
    model: ScriptedTarget, prompt: Sequence[int], generation: Generation, n_reused: int
) -> None:
    """The invariants that hold after every request that was not interrupted."""
    tokens, stats = generation.tokens, generation.stats
    everything = [*prompt, *tokens]
    cached = list(model.cached)
    assert cached == everything[: len(cached)]
    assert len(cached) >= len(everything) - 1
    assert stats.n_prompt == len(prompt)
    assert stats.n_prompt_evaluated == len(prompt) - n_reused
    assert stats.n_predicted == len(tokens)
    assert stats.n_target_passes == stats.n_decode_passes + 1
    # Each pass adds one token of the target's own, but for a stop inside the accepted draft.
    own = stats.n_predicted - stats.n_accepted
    assert own == stats.n_target_passes or (
        own == stats.n_target_passes - 1 and generation.finish_reason == "stop"
    )
    assert 0 <= stats.n_single_passes <= stats.n_decode_passes
    drafters = stats.drafters.values()
    assert stats.n_drafted == sum(d.n_drafted for d in drafters)
    assert stats.n_accepted == sum(d.n_accepted for d in drafters)
    assert stats.n_draft_passes == sum(d.n_drafts for d in drafters)
    # What ended the text inside a draft counts as the target's own.
    n_steps = stats.n_decode_passes - stats.n_single_passes
    n_right = stats.n_predicted - stats.n_prefill_predicted - stats.n_single_passes - n_steps
    assert 0 <= n_right <= stats.n_tried <= n_right + n_steps
    assert stats.n_tried <= stats.n_draft_depths <= stats.n_drafted
    for drafter in drafters:
        assert sum(drafter.n_drafted_at) == drafter.n_drafted
        assert sum(drafter.n_accepted_at) == drafter.n_accepted
        assert drafter.n_accept_calls == drafter.n_drafts
        assert drafter.n_accepted_drafts <= drafter.n_drafts <= drafter.n_draft_calls
        assert drafter.n_begin_calls == 1


answers = st.lists(
    st.one_of(
        st.lists(st.integers(-1, N_VOCAB), max_size=6).map(lambda t: Draft(tuple(t))),
        st.integers(0, 40).map(lambda n: Draft((3,) * n)),
        st.just(RuntimeError("a drafter's own fault")),
    ),
    max_size=30,
)


def drafters(output: Sequence[int]) -> st.SearchStrategy[Drafter | Proposer]:
    right, n_vocab = st.just(output), st.just(N_VOCAB)
    seeds, n_drafts, shares = (
        st.integers(0, 99),
        st.integers(1, 12),
        st.sampled_from([0.0, 0.5, 0.9]),
    )
    scripted = st.builds(ScriptedDrafter, answers)
    adversarial = st.builds(AdversarialDrafter, right, n_vocab, n_drafts)
    return st.one_of(
        st.builds(OracleDrafter, right, n_drafts),
        adversarial,
        st.builds(RandomDrafter, n_vocab, seeds, n_drafts),
        st.builds(EmptyDrafter),
        scripted,
        st.tuples(scripted, adversarial).map(DraftMerger),
        st.builds(random_trees, n_vocab, seeds, n_drafts, shares),
        st.builds(oracle_trees, right, n_vocab, seeds, n_drafts, shares),
        st.builds(adversarial_trees, right, n_vocab),
    )


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_drafter_leaves_the_output_as_it_is(data):
    n_ubatch = data.draw(st.integers(1, 9), "n_ubatch")
    sizes = {
        "n_ubatch": n_ubatch,
        "n_batch": data.draw(st.integers(n_ubatch, 20), "n_batch"),
        "n_ctx": data.draw(st.integers(12, 60), "n_ctx"),
        "n_branches": data.draw(st.sampled_from([1, 2, 5, 16]), "n_branches"),
    }
    tokens = st.integers(0, N_VOCAB - 1)
    prompt = data.draw(st.lists(tokens, min_size=1, max_size=11), "prompt")
    stop_at = data.draw(st.one_of(st.none(), tokens), "stop_at")

    asked = {
        "prompt": prompt,
        "n_predict": data.draw(st.integers(1, 40), "n_predict"),
        "temperature": data.draw(st.sampled_from([0.0, 0.7, 1.5]), "temperature"),
        "stop": lambda token: token == stop_at,
    }
    reference = run(target(**sizes), **asked)
    model = target(**sizes)
    before = data.draw(st.lists(tokens, max_size=10), "before")
    before += data.draw(st.sampled_from([[], prompt[: len(prompt) // 2], prompt]), "again")
    for token in (prompt[:3] + before)[: sizes["n_ctx"] - 1]:
        model.decode([token], 0)
    n_reused = min(common_head(model.cached, prompt), len(prompt) - 1)
    n_before = model.n_tokens_evaluated
    drafter = data.draw(drafters(reference.tokens), "drafter")
    generation = run(model, drafter, **asked)
    assert generation.tokens == reference.tokens
    assert generation.finish_reason == reference.finish_reason
    assert len(generation.tokens) <= min(asked["n_predict"], sizes["n_ctx"] - len(prompt))
    check_books(model, prompt, generation, n_reused)
    stats = generation.stats
    assert model.n_tokens_evaluated - n_before == (
        stats.n_prompt_evaluated + stats.n_decode_passes + stats.n_drafted
    )


def test_an_oracle_saves_passes_and_its_first_draft_rides_in_the_prefill():
    reference = run(target())
    model = target()
    generation = run(model, OracleDrafter(reference.tokens, n_draft=4))
    assert generation.tokens == reference.tokens
    stats = generation.stats
    # 20 tokens, five per pass; the prompt's 8 tokens are three chunks, the last with the draft.
    assert (stats.n_target_passes, stats.n_decode_passes) == (4, 3)
    assert model.n_decodes == 6
    assert (stats.n_drafted, stats.n_accepted) == (16, 16)
    assert stats.drafters["oracle"].n_accepted_at == (4, 4, 4, 4)
    assert stats.n_single_passes == 0
    assert stats.n_prefill_predicted == 5


def test_a_tree_is_walked_down_the_branch_that_the_target_takes():
    output = run(target()).tokens
    first, a, b, c = output[:4]
    wrong_a, wrong_b, wrong_c = ((token + 1) % N_VOCAB for token in (a, b, c))
    tree = tree_of(
        [(-1, wrong_a), (0, b), (-1, a), (2, wrong_b), (2, b), (4, wrong_c), (3, c), (1, c)]
    )
    proposer = TreeProposer(lambda generated: tree if generated == [first] else tree_of([]))
    model = target()
    generation = run(model, proposer, n_predict=20)
    assert generation.tokens == output
    assert proposer.paths == [(2, 4)]
    stats = generation.stats
    # a and b are right, c is tried in vain; the tree of 8 nodes is three deep.
    assert (stats.n_drafted, stats.n_accepted, stats.n_tried) == (8, 2, 3)
    assert (stats.n_draft_passes, stats.n_draft_depths) == (1, 3)
    assert stats.n_target_passes == 18
    assert [context.n_branches for context in proposer.contexts] == [16]


def test_paths_are_told_in_the_proposers_own_numbers():
    output = run(target()).tokens
    a, b, c = output[:3]
    wrong = (a + 1) % N_VOCAB
    # Breadth first: decoded depth first, the right path is nodes 3, 4 and 5.
    tree = tree_of([(-1, wrong), (-1, a), (0, b), (1, b), (2, c), (3, c)])
    trees = iter([tree])
    proposer = TreeProposer(lambda generated: next(trees, tree_of([])))
    generation = run(target(), proposer)
    assert generation.tokens == output
    assert proposer.paths == [(1, 3, 5)]


def test_a_stop_inside_a_tree_keeps_what_was_emitted():
    output = run(target()).tokens
    tree = tree_of([(-1, (output[1] + 1) % N_VOCAB), (-1, output[1]), (1, output[2])])
    model = target()
    proposer = TreeProposer(lambda generated: tree if generated else tree_of([]))
    generation = run(model, proposer, stop=nth(2))
    assert generation.tokens == output[:2]
    assert list(model.cached) == [*PROMPT, *output[:2]]
    assert proposer.paths == [(1,)]
    # The token that ended the text counts as the target's own, and nothing behind it was compared.
    assert (generation.stats.n_tried, generation.stats.n_draft_depths) == (0, 0)


def test_branches_for_a_target_without_are_a_clear_error():
    class Stubborn(TreeProposer):
        def propose(self, generated, n_max):
            return tree_of([(-1, 1), (-1, 2)])

    with pytest.raises(EngineError, match="branches"):
        run(target(n_branches=1), Stubborn(lambda generated: NO_TREE))


def _timed_passes(generation: Generation) -> list[int]:
    assert all(seconds > 0.0 for _, seconds in generation.pass_times)
    return [n_tokens for n_tokens, _ in generation.pass_times]


def test_each_pass_after_the_prefill_is_timed():
    trees = iter([[], [], [(-1, 0), (0, 1)], [(-1, 0), (-1, 1)]])
    proposer = TreeProposer(lambda generated: tree_of(next(trees, [])))
    generation = run(target(), proposer, n_predict=12)
    assert _timed_passes(generation)[:4] == [1, 3, 3, 1]


def test_the_passes_of_an_interrupted_request_are_timed():
    emitted: list[int] = []
    generation = run(
        target(),
        n_predict=12,
        stop=nth(99, emitted),
        interrupted=lambda: "deadline" if len(emitted) == 3 else None,
    )
    assert _timed_passes(generation) == [1] * 2


def test_without_a_drafter_every_pass_is_a_single_one():
    stats = run(target()).stats
    assert stats.n_target_passes == 20
    assert stats.n_single_passes == stats.n_decode_passes == 19
    assert stats.n_prefill_predicted == 1
    assert stats.drafters == {}
    assert stats.n_drafted == 0
    assert stats.ms_draft == 0.0


def test_drafts_leave_room_for_the_bonus_token():
    reference = run(target(), n_predict=6)
    stats = run(target(), OracleDrafter(reference.tokens, n_draft=50), n_predict=6).stats
    assert (stats.n_drafted, stats.n_accepted, stats.n_target_passes) == (5, 5, 1)


def test_a_draft_fits_the_batch_beside_what_must_be_decoded():
    reference = run(target())
    model = target(n_ubatch=4, n_batch=6)
    generation = run(model, OracleDrafter(reference.tokens, n_draft=50))
    assert generation.tokens == reference.tokens
    # Five fit beside the last token of prompt or output; at the end one is left.
    assert generation.stats.drafters["oracle"].n_drafted_at == (4, 3, 3, 3, 3)


class _RecordingTarget(ScriptedTarget):
    """Remembers the shapes of its batches."""

    def __init__(self) -> None:
        super().__init__(hashing(N_VOCAB, order=2), N_VOCAB, n_ubatch=64)
        self.shapes: list[tuple[int, int]] = []

    def decode(self, tokens, n_logits):
        self.shapes.append((len(tokens), n_logits))
        return super().decode(tokens, n_logits)


@pytest.mark.parametrize(
    ("n_prompt", "n_new", "shapes"),
    [
        (100, 100, [(64, 0), (35, 0), (4, 4)]),
        (100, 34, [(33, 0), (4, 4)]),
        (100, 32, [(35, 4)]),
        (100, 1, [(4, 4)]),
        (100, 0, [(4, 4)]),
        (1, 1, [(4, 4)]),
    ],
)
def test_the_first_draft_rides_in_a_small_batch(n_prompt, n_new, shapes):
    prompt = [token % N_VOCAB for token in range(n_prompt)]
    reference = run(target(), prompt=prompt, n_predict=4)
    model = _RecordingTarget()
    for token in prompt[: n_prompt - n_new]:
        model.decode([token], 0)
    model.shapes.clear()
    generation = run(model, OracleDrafter(reference.tokens), prompt=prompt, n_predict=4)
    assert generation.tokens == reference.tokens
    assert model.shapes == shapes


@pytest.mark.parametrize(
    ("n_cached", "n_pending", "n_left", "n_ctx", "n_batch", "limit"),
    [
        (10, 1, 100, 1000, 32, 31),
        (10, 5, 100, 1000, 32, 27),
        (10, 1, 100, 20, 32, 9),
        (10, 1, 4, 1000, 32, 3),
        (10, 1, 1, 1000, 32, 0),
        (10, 32, 9, 1000, 32, 0),
        (19, 1, 9, 20, 32, 0),
    ],
)
def test_draft_limit(n_cached, n_pending, n_left, n_ctx, n_batch, limit):
    assert draft_limit(n_cached, n_pending, n_left, n_ctx, n_batch) == limit


def test_the_output_ends_with_the_context():
    model = target(n_ctx=13)
    generation = run(model, n_predict=100)
    assert generation.finish_reason == "length"
    assert len(PROMPT) + len(generation.tokens) == 13


@pytest.mark.parametrize(("prompt", "remedy"), [([1] * 13, "ctx_size"), ([1] * 14, "n_prompt")])
def test_a_prompt_that_does_not_fit_is_refused_before_anything_happens(prompt, remedy):
    model = target(n_ctx=13)
    model.decode([6, 5], 0)
    drafter = EmptyDrafter()
    with pytest.raises(EngineError, match=remedy):
        run(model, drafter, prompt=prompt)
    assert list(model.cached) == [6, 5]
    assert drafter.contexts == []


def test_an_empty_prompt_is_refused():
    with pytest.raises(EngineError, match="empty"):
        run(target(), prompt=[])


def test_nothing_to_predict_costs_nothing():
    model = target()
    generation = run(model, n_predict=0)
    assert (generation.tokens, generation.finish_reason) == ((), "length")
    assert model.n_decodes == 0


def test_the_stop_token_is_the_last_of_the_output_and_ends_the_sampling():
    asked: list[int] = []
    reference = run(target())
    model = target()
    generation = run(model, OracleDrafter(reference.tokens, n_draft=8), stop=nth(3, asked))
    assert generation.finish_reason == "stop"
    assert generation.tokens == reference.tokens[:3] == tuple(asked)
    assert list(model.cached) == [*PROMPT, *reference.tokens[:3]]
    assert (generation.stats.n_drafted, generation.stats.n_accepted) == (8, 3)


def test_an_interruption_between_prefill_chunks_keeps_what_was_evaluated():
    model = target(n_ubatch=2)
    checks = iter([None, None, "deadline"])
    generation = run(model, EmptyDrafter(), interrupted=lambda: next(checks))
    assert (generation.tokens, generation.finish_reason) == ((), "deadline")
    assert list(model.cached) == PROMPT[:4]
    assert generation.stats.n_prompt_evaluated == 4
    assert generation.stats.n_target_passes == 0
    assert run(model).tokens == run(target()).tokens


def test_an_interruption_between_steps_returns_what_is_finished():
    reference = run(target())
    checks = iter([None] * 5 + ["cancelled"])
    generation = run(target(), interrupted=lambda: next(checks))
    assert generation.finish_reason == "cancelled"
    assert generation.tokens == reference.tokens[:3]


class _FailingTarget(ScriptedTarget):
    """Raises once, at the fifth decode."""

    def __init__(self, error: Exception) -> None:
        super().__init__(hashing(N_VOCAB, order=2), N_VOCAB, n_ubatch=4)
        self._error: Exception | None = error

    def decode(self, tokens, n_logits):
        if self.n_decodes == 4 and self._error is not None:
            error, self._error = self._error, None
            if not isinstance(error, DecodeInterruptedError):
                self.truncate(0)
            raise error
        return super().decode(tokens, n_logits)


def test_a_decode_stopped_from_outside_ends_with_the_reason_for_it():
    model = _FailingTarget(DecodeInterruptedError("llama_decode was interrupted."))
    reasons = iter([None] * 5 + ["deadline"])
    generation = run(model, interrupted=lambda: next(reasons))
    assert generation.finish_reason == "deadline"
    assert generation.tokens == run(target()).tokens[:2]
    assert run(model).tokens == run(target()).tokens


def test_a_failed_decode_is_raised_and_the_next_request_works():
    model = _FailingTarget(DecodeError("llama_decode failed."))
    with pytest.raises(DecodeError):
        run(model)
    assert run(model).tokens == run(target()).tokens


class _FullTarget(ScriptedTarget):
    """Has no room for a batch of more than a token behind the prompt."""

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        if len(tokens) > 1 and n_logits > 1:
            raise NoRoomError("the KV cache has no room.")
        return super().decode(tokens, n_logits)


def test_a_draft_that_the_cache_has_no_room_for_is_left_out():
    plain = run(target())
    full = _FullTarget(hashing(N_VOCAB, order=2), N_VOCAB, n_ubatch=4)
    generation = run(full, OracleDrafter(plain.tokens, n_draft=4))
    assert generation.tokens == plain.tokens
    assert generation.stats.n_drafted == 0
    with pytest.raises(NoRoomError):
        run(_FailingTarget(NoRoomError("the KV cache has no room.")))


def test_drafters_learn_the_vocabulary_and_only_what_was_verified():
    reference = run(target())
    oracle = OracleDrafter(reference.tokens, n_draft=3)
    run(target(), oracle, n_predict=8)
    assert [context.n_vocab for context in oracle.contexts] == [N_VOCAB]
    assert oracle.accepts == [3, 3]


@pytest.mark.parametrize(("n_until_stop", "told"), [(3, (3, 3)), (8, (8, 8)), (9, (8, 8))])
def test_drafts_behind_the_stop_are_no_misses(n_until_stop, told):
    heard: list[tuple[int, int]] = []

    class Oracle(OracleDrafter):
        def accept(self, n_accepted, n_verified):
            heard.append((n_accepted, n_verified))

    reference = run(target())
    generation = run(target(), Oracle(reference.tokens, n_draft=8), stop=nth(n_until_stop))
    assert generation.tokens == reference.tokens[:n_until_stop]
    assert heard == [told]


def test_times_add_up_and_draftless_passes_give_t1():
    reference = run(target())
    stats = run(target(), AdversarialDrafter(reference.tokens, N_VOCAB, n_draft=3)).stats
    assert stats.ms_prompt + stats.ms_predict == pytest.approx(stats.ms_total)
    assert 0 < stats.ms_draft < stats.ms_predict
    assert stats.ms_single_passes < stats.ms_predict
    assert 0 < stats.ms_draft_passes <= stats.ms_predict
    # The prefill's draft is no step, and drafting is part of a step.
    by_drafter = sum(one.ms_steps for one in stats.drafters.values())
    assert 0 < by_drafter <= stats.ms_drafting < min(stats.ms_draft, stats.ms_draft_passes)
    single = run(target()).stats
    assert 0 < single.ms_single_passes <= single.ms_predict
    assert single.ms_verify <= single.ms_single_passes
    assert single.ms_draft_passes == 0


def test_what_passes_take_without_drafts_is_not_blamed_on_speculation():
    """Sampling and stop rules take as long with drafts as without; the first token has them too."""
    now = 0.0

    def stop(_token):
        nonlocal now
        now += 0.5
        return False

    class Slow(ScriptedTarget):
        def decode(self, tokens, n_logits):
            nonlocal now
            now += 1.0
            return super().decode(tokens, n_logits)

    slow, context = Slow(hashing(N_VOCAB), N_VOCAB), DraftContext(prompt=(1, 2, 3))
    stats = exactness.run(
        slow, context, EmptyDrafter(), GreedySampler(), 6, stop=stop, clock=lambda: now
    ).stats
    assert measured_speedup(stats) == pytest.approx(1.0)


class _CountingTarget(ScriptedTarget):
    """Computes for a millisecond per decode; loading it took five."""

    def decode(self, tokens, n_logits):
        self.ns_native += 1_000_000
        return super().decode(tokens, n_logits)


def test_the_time_inside_the_backend_is_that_behind_the_prompt():
    model = _CountingTarget(hashing(N_VOCAB), N_VOCAB)
    model.ns_native = 5_000_000
    stats = run(model).stats
    assert stats.n_decode_passes > 1
    assert stats.ms_decode == stats.n_decode_passes
