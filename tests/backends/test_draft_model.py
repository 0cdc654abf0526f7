"""Drafts of a small model, and how its KV cache follows the request."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from exactness import run
from layer_kinds import write_layer_kind
from quiet_loading import quiet_draft_model
from scripted_target import ScriptedTarget, following

from speclsp.backends.draft_model import DraftModelDrafter
from speclsp.backends.llama import loading
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.decoding.sampling import GreedySampler
from speclsp.decoding.speculate import Generation
from speclsp.decoding.target import Logits
from speclsp.drafting.cost import AskingCost, straight_curve
from speclsp.drafting.drafter import NO_DRAFT, DraftContext
from speclsp.errors import DecodeError, DecodeInterruptedError, ModelLoadError

SOURCE = Path(__file__).read_text(encoding="utf-8")


class ScriptedDraftModel(ScriptedTarget):
    """A scripted target that can be interrupted and can fail."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.predicate: Callable[[], bool] | None = None
        self.failure: DecodeError | None = None
        self.evaluated: list[tuple[int, int]] = []

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        self.predicate = predicate

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        if self.failure is not None:
            if not isinstance(self.failure, DecodeInterruptedError):
                self.truncate(0)
            raise self.failure
        first = len(self.cached)
        self.evaluated += [(first + idx, token) for idx, token in enumerate(tokens)]
        return super().decode(tokens, n_logits)


def scripted(
    script: Sequence[int] = (5, 6, 7, 8, 9),
    n_prompt: int = 3,
    n_vocab: int = 20,
    n_ctx: int = 64,
    n_ubatch: int = 512,
    **options: Any,
) -> tuple[DraftModelDrafter, ScriptedDraftModel]:
    model = ScriptedDraftModel(
        following(script, n_vocab, n_prompt=n_prompt), n_vocab, n_ctx=n_ctx, n_ubatch=n_ubatch
    )
    settings = {"n_max": 3, "n_min": 0, "p_min": 0.0, "n_target_vocab": n_vocab, **options}
    return DraftModelDrafter(model, **settings), model


def test_it_drafts_what_the_model_finds_most_probable():
    drafter, model = scripted()
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    draft = drafter.draft([], 16)
    assert (draft.tokens, draft.source, drafter.name) == ((5, 6, 7), "draft", "draft")
    assert list(model.cached) == [1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    ("options", "n_max", "tokens"),
    [
        ({}, 0, ()),
        ({}, 1, (5,)),
        ({}, 2, (5, 6)),
        ({"n_max": 0}, 16, ()),
        ({"n_max": 5}, 16, (5, 6, 7, 8, 9)),
        ({"n_min": 3}, 16, (5, 6, 7)),
        ({"n_min": 3}, 2, ()),
        ({"n_min": 4}, 16, ()),
        # a peak of 10 over nineteen others: p = 1 / (1 + 19·exp(-10)) = 0.9991
        ({"p_min": 0.9990}, 16, (5, 6, 7)),
        ({"p_min": 0.9992}, 16, ()),
        # ids that the target lacks are never drafted
        ({"n_max": 1, "n_target_vocab": 5}, 16, (0,)),
        ({"n_ctx": 3}, 16, (5,)),
        ({"n_ctx": 4}, 16, (5, 6)),
    ],
)
def test_lengths(options, n_max, tokens):
    drafter, _ = scripted(**options)
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    assert drafter.draft([], n_max).tokens == tokens


@pytest.mark.parametrize(
    ("n_min", "end_token", "tokens"), [(0, 8, (5, 6, 7)), (0, 6, (5,)), (0, 5, ()), (3, 6, ())]
)
def test_it_evaluates_nothing_after_a_token_that_ends_the_output(n_min, end_token, tokens):
    drafter, model = scripted(n_max=5, n_min=n_min)
    drafter.begin(DraftContext(prompt=[1, 2, 3], end_tokens=frozenset({end_token})))
    assert drafter.draft([], 16).tokens == tokens
    assert end_token not in model.cached


def test_an_empty_prompt_and_foreign_ids_draft_nothing():
    drafter, model = scripted()
    drafter.begin(DraftContext(prompt=[]))
    assert drafter.draft([], 4) == NO_DRAFT
    drafter.begin(DraftContext(prompt=[1, 99, 2]))
    assert drafter.draft([], 4) == NO_DRAFT
    assert model.evaluated == []


def test_accepted_tokens_are_not_evaluated_again():
    drafter, model = scripted()
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    drafter.draft([], 3)
    drafter.accept(2, 2)
    del model.evaluated[:]
    # The target took 5 and 6 and put 12 where the draft had 7.
    drafter.draft([5, 6, 12], 3)
    assert model.evaluated[:1] == [(5, 12)]
    assert list(model.cached)[:6] == [1, 2, 3, 5, 6, 12]
    # All of a draft was taken: its last token was never evaluated, and the bonus is new.
    generated = [5, 6, 12, *drafter.draft([5, 6, 12], 3).tokens, 4]
    drafter.accept(3, 3)
    del model.evaluated[:]
    drafter.draft(generated, 1)
    assert model.evaluated == [(8, generated[5]), (9, 4)]


def test_the_next_request_keeps_what_it_shares():
    drafter, model = scripted(n_prompt=4)
    drafter.begin(DraftContext(prompt=[1, 2, 3, 4]))
    drafter.draft([], 3)
    del model.evaluated[:]
    drafter.begin(DraftContext(prompt=[1, 2, 9, 9]))
    assert model.evaluated == []  # nothing before a draft is wanted
    drafter.draft([], 1)
    assert model.evaluated == [(2, 9), (3, 9)]
    drafter.begin(DraftContext(prompt=[1, 2, 9, 9]))
    del model.evaluated[:]
    drafter.draft([], 1)
    assert model.evaluated == [(3, 9)]  # the last token, for its logits


def test_another_documents_prompt_comes_back():
    drafter, model = scripted(n_vocab=300, n_ctx=256, n_state_bytes=1 << 20)
    first, second = [1, *range(100)], [2, *range(100)]
    for prompt, n_evaluated in ((first, 101), (second, 101), (first, 1), (second, 1)):
        model.evaluated.clear()
        drafter.begin(DraftContext(prompt=prompt))
        drafter.draft([], 1)
        assert len(model.evaluated) == n_evaluated


def test_of_a_prompt_beyond_its_context_it_reads_the_end_and_says_so_once():
    lines: list[str] = []
    drafter, model = scripted(
        n_vocab=300, n_ctx=16, n_prompt=0, log=lambda level, line: lines.append(f"{level}: {line}")
    )
    prompt = list(range(100, 120))
    drafter.begin(DraftContext(prompt=prompt))
    assert len(drafter.draft([], 3).tokens) == 3
    # 20 tokens and 3 drafted ones exceed 16 positions by 7: two steps of 4.
    assert list(model.cached)[:12] == prompt[8:]
    told = "the end of prompts of more than 16 tokens, the size of its context"
    assert lines == [f"info: the draft model reads {told} (`spec_draft_ctx_size`); this one has 20"]
    # The window stays until it is full, so that a keystroke evaluates what is new.
    drafter.begin(DraftContext(prompt=[*prompt, 7]))
    del model.evaluated[:]
    drafter.draft([], 1)
    assert model.evaluated == [(12, 7)]
    generated = [7, 7, 7]
    drafter.begin(DraftContext(prompt=[*prompt, 7]))
    assert len(drafter.draft(generated, 3).tokens) == 3
    assert list(model.cached)[:12] == [*prompt[12:], 7, 7, 7, 7]
    assert len(lines) == 1


def test_an_interrupt_between_micro_batches():
    drafter, model = scripted(n_ubatch=4, n_prompt=20)
    drafter.begin(DraftContext(prompt=[1] * 20))
    drafter.set_interrupt(lambda: len(model.cached) >= 8)
    assert drafter.draft([], 3) == NO_DRAFT
    assert len(model.cached) == 8
    assert model.predicate is not None
    drafter.set_interrupt(None)
    assert drafter.draft([], 3).tokens == (5, 6, 7)
    assert Counter(position for position, _ in model.evaluated).most_common(1)[0][1] == 1


def test_an_interrupt_between_draft_tokens_keeps_what_is_there():
    drafter, model = scripted()
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    drafter.set_interrupt(lambda: len(model.cached) >= 4)
    assert drafter.draft([], 3).tokens == (5, 6)


@pytest.mark.parametrize("failure", [DecodeError("broken"), DecodeInterruptedError("stopped")])
def test_a_failed_decode_drafts_nothing_and_the_next_one_recovers(failure):
    lines: list[str] = []
    drafter, model = scripted(log=lambda level, line: lines.append(line))
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    drafter.draft([], 3)
    model.failure = failure
    assert drafter.draft([5, 12], 3) == NO_DRAFT
    assert len(lines) == 1
    model.failure = None
    assert len(drafter.draft([5, 12], 3).tokens) == 3
    assert list(model.cached)[:5] == [1, 2, 3, 5, 12]


PEAK = math.log(19.0 * 0.55 / 0.45)
"""Above nineteen others that gives 0.55, the middle of its decile."""


def take_time(model: ScriptedDraftModel, ns: int) -> None:
    """Let each decode take ``ns`` by the model's clock."""
    decode = model.decode

    def timed(tokens: Sequence[int], n_logits: int) -> Logits:
        model.ns_native += ns
        return decode(tokens, n_logits)

    model.decode = timed  # type: ignore[method-assign]  # the same model, by a clock


def unsure(peak: float, n_vocab: int = 20, **options: Any) -> DraftModelDrafter:
    """A draft model that always finds token 5 the most probable, by ``peak`` above the others."""
    row = [0.0] * n_vocab
    row[5] = peak
    model = ScriptedDraftModel(lambda cached: row, n_vocab)
    settings = {"n_max": 8, "n_min": 0, "p_min": 0.0, "n_target_vocab": n_vocab, **options}
    return DraftModelDrafter(model, **settings)


def test_a_draft_has_the_models_own_probabilities():
    drafter = unsure(peak=PEAK)
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    assert drafter.draft([], 3).probabilities == pytest.approx([0.55] * 3)


def test_a_draft_ends_where_the_next_token_cannot_pay():
    drafter = unsure(peak=PEAK)
    for slope, n_tokens in ((0.01, 8), (0.2, 3), (0.5, 2), (0.6, 1)):
        context = DraftContext(prompt=[1, 2, 3], verify_curve=straight_curve(slope), single_s=0.02)
        drafter.begin(context)
        assert len(drafter.draft([], 8).tokens) == n_tokens
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    assert len(drafter.draft([], 8).tokens) == 8  # what verifying costs is not known
    drafter = unsure(peak=PEAK, n_min=5)
    drafter.begin(DraftContext(prompt=[1, 2, 3], verify_curve=straight_curve(0.4), single_s=0.02))
    assert len(drafter.draft([], 8).tokens) == 5  # the least length is heeded


def test_what_its_own_time_costs_ends_a_draft_too():
    clocked = unsure(peak=PEAK)
    context = DraftContext(prompt=[1, 2, 3], verify_curve=straight_curve(0.1), single_s=0.02)
    clocked.begin(context)
    assert len(clocked.draft([], 8).tokens) == 4
    take_time(clocked.model, 8_000_000)  # 0.4 of T(1)
    for idx in range(1, 40):
        n_tokens = len(clocked.draft([9] * idx, 8).tokens)
    # A second step is worth half of T(1), and its token is right in 0.3 of all cases.
    assert n_tokens == 2


@pytest.mark.parametrize("n_before", [0, 5])
def test_what_took_long_once_does_not_end_drafts_for_ever(n_before):
    clocked = unsure(peak=PEAK)
    context = DraftContext(prompt=[1, 2, 3], verify_curve=straight_curve(0.1), single_s=0.02)
    clocked.begin(context)
    model = clocked.model
    decode = model.decode
    steps_s = iter([0.002] * n_before + [0.4])

    def timed(tokens, n_logits):
        if len(tokens) == 1:
            model.ns_native += int(next(steps_s, 0.002) * 1e9)
        return decode(tokens, n_logits)

    model.decode = timed  # type: ignore[method-assign]  # the same model, by a clock
    generated: list[int] = []
    lengths = []
    for _ in range(180):
        draft = clocked.draft(generated, 8)
        lengths.append(len(draft.tokens))
        generated.append(draft.tokens[0])
    # A first one cannot be told from usual ones, and is forgotten with time.
    assert (1 in lengths) == (n_before == 0)
    assert min(lengths[150:]) >= 3


@pytest.mark.parametrize(("target_s", "is_costly"), [(0.0, False), (0.05, False), (0.02, True)])
def test_a_draft_model_that_is_slow_beside_the_target_is_told_once(target_s, is_costly):
    drafter, model = scripted(n_max=4)
    take_time(model, 8_000_000)
    drafter.begin(DraftContext(prompt=[1, 2, 3]))
    assert drafter.costly("auto", straight_curve(0.1), target_s) is None
    for idx in range(40):
        drafter.draft([5 + idx % 5] * (idx + 1), 4)
    told = [drafter.costly("auto", straight_curve(0.1), target_s) for _ in range(2)]
    assert told[1] is None
    assert (told[0] is not None) == is_costly
    if told[0] is not None:
        assert "8.00 ms" in str(told[0])
        assert "20.00 ms" in str(told[0])


@pytest.mark.parametrize(
    ("mode", "step_ms", "says", "remedy"),
    [
        ("auto", 20, "`mode` auto never asks it", "Leave it out (`spec_draft_model`)"),
        ("auto", 5, "`mode` auto seldom asks it", "Leave it out (`spec_draft_model`)"),
        ("first", 20, "in `mode` first it is asked all the same", "Set `mode` to `auto`"),
    ],
)
@pytest.mark.parametrize("has_gpu", [True, False])
def test_what_follows_from_a_slow_draft_model_is_told(mode, step_ms, says, remedy, has_gpu):
    drafter, model = scripted(n_max=3, has_gpu=has_gpu, share=0.4)
    take_time(model, step_ms * 1_000_000)
    assert drafter.settle([1, 2, 3] * 10, lambda: False)
    problem = drafter.costly(mode, straight_curve(0.1), 0.02)
    by_size = drafter.large(mode)
    assert problem is not None
    assert by_size is not None
    assert says in problem.message
    assert "0.40 of the target's size" in by_size.message
    for told in (problem.remedy, by_size.remedy):
        assert told.startswith(remedy)
        assert "of a tenth of the target's size" in told
        assert ("spec_draft_ngl" in told) == has_gpu


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_small_draft_model_is_not_told_by_its_size(share):
    assert scripted(share=share)[0].large("auto") is None


IDLE_PROMPT = [1 + idx % 9 for idx in range(300)]


class TestIdleTime:
    """A prompt that is evaluated between requests, and times that are measured then."""

    def timed(self) -> tuple[DraftModelDrafter, ScriptedDraftModel]:
        drafter, model = scripted(n_ctx=512)
        take_time(model, 2_000_000)
        return drafter, model

    def test_the_times_are_measured_and_the_prompt_is_read(self):
        drafter, model = self.timed()
        assert drafter.token_cost is None
        assert drafter.settle(IDLE_PROMPT, lambda: True)
        assert list(model.cached) == IDLE_PROMPT
        assert drafter.token_cost == AskingCost(0.002)
        n_before = len(model.evaluated)
        assert drafter.settle(IDLE_PROMPT, lambda: True)
        assert len(model.evaluated) == n_before
        # What is typed since costs what a prompt of its length takes.
        drafter.begin(DraftContext(prompt=[*IDLE_PROMPT, 11, 12, 13]))
        cost = drafter.asking_cost([14])
        assert cost is not None
        assert cost.lacking_s == pytest.approx(3 * 0.002 / 128)

    def test_no_more_than_the_times_need_is_read_where_drafts_cannot_pay(self):
        drafter, model = self.timed()
        assert drafter.settle(IDLE_PROMPT, lambda: False)
        assert list(model.cached) == IDLE_PROMPT[:128]
        assert drafter.token_cost == AskingCost(0.002)
        n_before = len(model.evaluated)
        assert drafter.settle(IDLE_PROMPT, lambda: False)
        assert len(model.evaluated) == n_before
        assert not drafter.pays(straight_curve(0.1), 0.002)
        assert drafter.pays(straight_curve(0.1), 0.1)
        assert not drafter.pays(straight_curve(0.1), 0.0)

    def test_an_interrupt_ends_it_and_the_rest_follows(self):
        drafter, model = self.timed()
        answers = iter([False, True, True])
        drafter.set_interrupt(lambda: next(answers))
        assert not drafter.settle(IDLE_PROMPT, lambda: True)
        assert len(model.cached) == 128
        drafter.set_interrupt(None)
        assert drafter.settle(IDLE_PROMPT, lambda: True)
        assert list(model.cached) == IDLE_PROMPT

    @pytest.mark.parametrize("is_interrupt", [True, False])
    def test_a_decode_that_fails_is_not_tried_again_and_again(self, is_interrupt):
        drafter, model = self.timed()
        model.failure = DecodeInterruptedError("stop") if is_interrupt else DecodeError("broken")
        drafter.set_interrupt(lambda: bool(model.evaluated) or is_interrupt)
        assert drafter.settle(IDLE_PROMPT, lambda: True) is not is_interrupt

    def test_unknown_ids_and_no_drafts_need_nothing(self):
        drafter, model = self.timed()
        assert drafter.settle([1, 99], lambda: True)
        assert drafter.settle([], lambda: True)
        silent, _ = scripted(n_max=0)
        assert silent.settle(IDLE_PROMPT, lambda: True)
        assert model.evaluated == []


def test_a_draft_model_as_slow_as_the_target_is_told_though_its_drafts_end_early():
    drafter, model = scripted(n_max=3)
    take_time(model, 20_000_000)
    curve = straight_curve(0.4)
    drafter.begin(DraftContext(prompt=[1, 2, 3], verify_curve=curve, single_s=0.02))
    told = []
    for idx in range(40):
        drafter.draft([5 + idx % 5] * (idx + 1), 4)
        told.append(drafter.costly("auto", curve, 0.02))
    assert len([problem for problem in told if problem is not None]) == 1


class Recorder:
    """Stands before a real context and notes what it evaluates: each token with all before it."""

    def __init__(self, target: LlamaTarget) -> None:
        self._target = target
        self.evaluated: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        before = tuple(self._target.cached)
        self.evaluated += [(*before, *tokens[: idx + 1]) for idx in range(len(tokens))]
        return self._target.decode(tokens, n_logits)


def complete(
    target: LlamaTarget, prompt: list[int], drafter: DraftModelDrafter | None, n_predict: int = 48
) -> Generation:
    context = DraftContext(prompt=prompt)
    return run(target, context, drafter, GreedySampler(), n_predict, clock=perf_counter)


def test_no_token_of_a_real_generation_is_evaluated_twice(target_f16, draft_q8, vocabulary):
    tokens = vocabulary.tokenize(SOURCE).tolist()
    model = Recorder(draft_q8.model)  # type: ignore[arg-type]  # a real context stands behind it
    model.truncate(0)
    drafter = DraftModelDrafter(
        model,  # type: ignore[arg-type]
        n_max=3,
        n_min=0,
        p_min=0.0,
        n_target_vocab=vocabulary.n_tokens,
    )
    for n_prompt in (150, 153, 153, 151):  # typing, a repetition, a deletion
        target_f16.truncate(0)
        n_shared = len(model.cached)
        del model.evaluated[:]
        draft_ns_before = model.ns_native
        prompt = tokens[:n_prompt]
        with_drafts = complete(target_f16, prompt, drafter)
        text = [*prompt, *with_drafts.tokens]
        counts = Counter(model.evaluated)
        assert with_drafts.stats.n_drafted > 0
        # What became text was evaluated once at most ...
        assert all(counts[tuple(text[: idx + 1])] <= 1 for idx in range(len(text)))
        # ... the shared beginning not at all, the rest exactly once as far as drafts followed it.
        if n_shared:
            assert not any(counts[tuple(tokens[: idx + 1])] for idx in range(150))
        stats = with_drafts.stats.drafters["draft"]
        n_rejected = stats.n_drafted - stats.n_accepted
        n_new = len(text) - (150 if n_shared else 0)
        assert len(model.evaluated) <= n_new + n_rejected
        # Neither model's llama_decode counts for the other.
        n_draft_ns = model.ns_native - draft_ns_before
        assert 0 < stats.ms_decode == n_draft_ns / 1e6 <= stats.ms_draft
        assert 0 < with_drafts.stats.ms_decode <= with_drafts.stats.ms_verify
    target_f16.truncate(0)
    assert complete(target_f16, prompt, None).tokens == with_drafts.tokens


def test_a_small_draft_context_reads_the_end_of_the_prompt_and_drafts_on(
    target_q8, vocabulary, model_folder
):
    lines: list[str] = []
    path = model_folder / "embedded-draft-q8_0.gguf"
    settings = {"spec_draft_ctx_size": 256, "spec_draft_type_k": "q8_0"}
    drafter = quiet_draft_model(path, vocabulary, lines, **settings)
    prompt = vocabulary.tokenize(SOURCE).tolist()[:600]
    target_q8.truncate(0)
    generation = complete(target_q8, prompt, drafter, n_predict=40)
    assert len(generation.tokens) == 40
    assert generation.stats.n_accepted > 10
    assert len(drafter.model.cached) <= drafter.model.n_ctx == 256
    assert [line for line in lines if "the end of prompts of more than 256" in line] == lines[-1:]
    drafter.close()
    drafter.close()


@pytest.mark.parametrize(
    ("owner", "name", "there"),
    [
        (loading.psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000)),
        (loading, "_load", Mock(side_effect=ModelLoadError("failed to allocate buffer"))),
    ],
)
def test_a_draft_model_that_does_not_fit_the_memory_has_its_remedies(
    vocabulary, model_folder, monkeypatch, owner, name, there
):
    monkeypatch.setattr(owner, name, there)
    with pytest.raises(ModelLoadError, match="does not fit the memory") as caught:
        quiet_draft_model(model_folder / "embedded-draft-q8_0.gguf", vocabulary)
    for remedy in ("`spec_draft_ctx_size` (`-cd`)", "`-ctkd q8_0 -ctvd q8_0`", "`-ngld 0`"):
        assert remedy in caught.value.remedy


def test_it_can_be_interrupted_for_real(draft_q8, vocabulary):
    prompt = vocabulary.tokenize(SOURCE).tolist()[:1000]
    draft_q8.begin(DraftContext(prompt=prompt))
    draft_q8.set_interrupt(lambda: True)
    assert draft_q8.draft([], 3) == NO_DRAFT
    draft_q8.set_interrupt(None)
    assert len(draft_q8.draft([], 3).tokens) == 3
    assert list(draft_q8.model.cached)[:1000] == prompt


def test_drafts_are_the_draft_model_s_own_greedy_choice(draft_q8, vocabulary):
    prompt = vocabulary.tokenize(SOURCE).tolist()[:64]
    draft_q8.begin(DraftContext(prompt=prompt))
    tokens = draft_q8.draft([], 3).tokens
    model = draft_q8.model
    model.truncate(0)
    rows = model.decode([*prompt, *tokens], 4)
    assert tuple(np.asarray(rows[:3]).argmax(axis=1).tolist()) == tokens


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor_split": "x"}, "tensor_split"),
        ({"spec_draft_type_v": "q8_0", "flash_attn": "off"}, "spec_draft_type_v"),
    ],
)
def test_wrong_settings_are_errors_of_the_draft_model_alone(
    vocabulary, model_folder, changes, message
):
    with pytest.raises(ModelLoadError, match=message):
        quiet_draft_model(model_folder / "embedded-draft-q8_0.gguf", vocabulary, **changes)


def test_without_the_device_that_is_named_the_draft_model_computes_on_the_cpu(
    vocabulary, model_folder
):
    lines: list[str] = []
    path = model_folder / "embedded-draft-q8_0.gguf"
    drafter = quiet_draft_model(path, vocabulary, lines, spec_draft_device="cuda:9")
    (warning,) = [line for line in lines if line.startswith("warning")]
    assert warning.startswith("warning: There is no device named 'cuda:9' to offload to. ")
    assert warning.endswith(" The draft model computes on the CPU.")
    drafter.begin(DraftContext(prompt=vocabulary.tokenize(SOURCE).tolist()[:64]))
    assert len(drafter.draft([], 3).tokens) == 3
    drafter.close()


def test_models_that_cannot_draft_for_the_target(vocabulary, gguf_maker, tmp_path):
    recurrent = write_layer_kind(tmp_path / "mamba.gguf", "mamba")
    other = load_vocabulary(gguf_maker.bpe_vocabulary("other.gguf", ["a", "b", "ab", "c"]))
    for of_target in (vocabulary, other):
        with pytest.raises(ModelLoadError, match="cannot take tokens back"):
            quiet_draft_model(recurrent, of_target)
