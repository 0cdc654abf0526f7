"""Drafts of models with another vocabulary: translation through text, and real models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from other_vocabulary import write_with_other_vocabulary
from real_prompts import cut_prompts

from speclsp.decoding.sampling import SamplingParams, make_sampler
from speclsp.decoding.speculate import Generation, generate
from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext, Drafter
from speclsp.engine.draft_model import DraftModelDrafter
from speclsp.engine.draft_vocabulary import (
    TranslatingDrafter,
    Translation,
    replacement_pairs,
)
from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.engine.models import load_draft_model
from speclsp.errors import ModelLoadError, SettingsError, VocabularyMismatchError
from speclsp.settings import Settings

CONTROL, NORMAL, USER = 3, 1, 4
TARGET = ["<fim>", "<mid>", "<end>", "a", "b", "ab", "c", "!", "Ã", "©"]
DRAFT = ["c", "b", "a", "?", "<MID>", "<FIM>", "Ã", "©", "<end>"]
PAIRS = [("<fim>", "<FIM>"), ("<mid>", "<MID>"), ("!", "?")]


@pytest.fixture
def target(gguf_maker: Any) -> LlamaVocabulary:
    types = [CONTROL] * 3 + [NORMAL] * 7
    return load_vocabulary(gguf_maker.bpe_vocabulary("target.gguf", TARGET, types))


@pytest.fixture
def draft(gguf_maker: Any) -> LlamaVocabulary:
    types = [CONTROL if token.startswith("<") else NORMAL for token in DRAFT]
    return load_vocabulary(gguf_maker.bpe_vocabulary("draft.gguf", DRAFT, types))


class ScriptedInner:
    """Drafts from a list in the draft's tokens, and remembers the prompts."""

    name = "draft"
    ns_native = 7

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = [tuple(DRAFT.index(token) for token in answer) for answer in answers]
        self.prompts: list[list[str]] = []
        self.closed = False
        self.predicate: Any = None

    def begin(self, context: DraftContext) -> None:
        self.prompts.append([DRAFT[token] for token in context.prompt])

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        assert list(generated) == []
        return Draft(self.answers.pop(0), "draft") if self.answers else NO_DRAFT

    def accept(self, n_accepted: int) -> None:
        raise AssertionError("it is not told")

    def set_interrupt(self, predicate: Any) -> None:
        self.predicate = predicate

    def close(self) -> None:
        self.closed = True


def prompt(*tokens: str) -> DraftContext:
    return DraftContext(prompt=[TARGET.index(token) for token in tokens])


def names(draft: Draft) -> list[str]:
    return [TARGET[token] for token in draft.tokens]


def translating(
    inner: ScriptedInner, target: LlamaVocabulary, draft: LlamaVocabulary
) -> TranslatingDrafter:
    return TranslatingDrafter(inner, target=target, draft=draft, pairs=PAIRS)


def test_prompt_and_drafts_go_through_text(target: LlamaVocabulary, draft: LlamaVocabulary) -> None:
    inner = ScriptedInner(["c", "a", "b"], ["?", "b"])
    drafter = translating(inner, target, draft)
    drafter.begin(prompt("<fim>", "ab", "c", "<mid>", "a"))
    assert names(drafter.draft([], 8)) == ["c", "ab"]
    assert inner.prompts[-1] == ["<FIM>", "a", "b", "c", "<MID>", "a"]
    # What was generated is translated together with what stands before it.
    assert names(drafter.draft([TARGET.index(token) for token in ("c", "!")], 8)) == ["!", "b"]
    assert inner.prompts[-1] == ["<FIM>", "a", "b", "c", "<MID>", "a", "c", "?"]
    drafter.accept(1, 1)


def test_at_most_n_max_tokens_of_the_target(
    target: LlamaVocabulary, draft: LlamaVocabulary
) -> None:
    inner = ScriptedInner(["a", "b", "a", "b", "c"], ["a"])
    drafter = translating(inner, target, draft)
    drafter.begin(prompt("<mid>"))
    assert names(drafter.draft([], 2)) == ["ab", "ab"]
    assert drafter.draft([], 0) == NO_DRAFT
    assert drafter.draft([], 8) == NO_DRAFT


def test_special_tokens_that_have_no_counterpart(
    target: LlamaVocabulary, draft: LlamaVocabulary
) -> None:
    pairs = [("<fim>", "ac")]
    inner = ScriptedInner(["b", "<end>"], ["b", "<MID>", "c"], ["<MID>"])
    drafter = TranslatingDrafter(inner, target=target, draft=draft, pairs=pairs)
    drafter.begin(prompt("<fim>", "<mid>", "b", "<end>"))
    # A pair may name text; <mid> is left out, <end> is there under the same name.
    assert names(drafter.draft([], 8)) == ["b", "<end>"]
    assert inner.prompts[-1] == ["a", "c", "b", "<end>"]
    assert names(drafter.draft([], 8)) == ["b"]
    assert drafter.draft([], 8) == NO_DRAFT


def test_characters_that_are_split_over_tokens(
    target: LlamaVocabulary, draft: LlamaVocabulary
) -> None:
    inner = ScriptedInner(["a", "Ã"], ["a", "Ã", "©"])
    drafter = translating(inner, target, draft)
    drafter.begin(prompt("<mid>"))
    assert names(drafter.draft([], 8)) == ["a"]
    assert names(drafter.draft([], 8)) == ["a", "Ã", "©"]
    # Half a character of the target's cannot be told to the draft model: it waits for the rest.
    n_asked = len(inner.prompts)
    assert drafter.draft([TARGET.index("Ã")], 8) == NO_DRAFT
    assert len(inner.prompts) == n_asked
    drafter.draft([TARGET.index("Ã"), TARGET.index("©")], 8)
    assert inner.prompts[-1] == ["<MID>", "Ã", "©"]


def test_a_user_defined_token_is_a_name_where_a_pair_says_so(
    gguf_maker: Any, draft: LlamaVocabulary
) -> None:
    tokens = ["<fim>", "a", "b", "ab"]
    path = gguf_maker.bpe_vocabulary("user.gguf", tokens, [USER, NORMAL, NORMAL, NORMAL])
    target = load_vocabulary(path)
    assert target.piece(0) == b"<fim>"
    there = Translation(target, draft, special={"<fim>": "<FIM>"}, plain=[])
    assert [DRAFT[token] for token in there.tokens([0, 3])] == ["<FIM>", "a", "b"]


def test_a_prompt_without_special_tokens(target: LlamaVocabulary, draft: LlamaVocabulary) -> None:
    inner = ScriptedInner(["c"])
    drafter = translating(inner, target, draft)
    drafter.begin(prompt("ab", "c"))
    assert names(drafter.draft([TARGET.index("a")], 8)) == ["c"]
    assert inner.prompts == [["a", "b", "c", "a"]]


def test_the_draft_model_s_bos_stands_first(target: LlamaVocabulary, gguf_maker: Any) -> None:
    spm = load_vocabulary(gguf_maker.spm_vocabulary("spm.gguf", ["a", "b", "c"]))
    assert spm.bos == 1
    prompts: list[Sequence[int]] = []

    class Inner(ScriptedInner):
        def begin(self, context: DraftContext) -> None:
            prompts.append(context.prompt)

    drafter = TranslatingDrafter(Inner(), target=target, draft=spm, pairs=[("<fim>", "<s>")])
    for tokens in (("<mid>", "ab"), ("<fim>", "ab")):
        drafter.begin(prompt(*tokens))
        drafter.draft([], 4)
    ab = spm.tokenize("ab").tolist()
    assert prompts == [[1, *ab], [1, *ab]]


def test_it_passes_interrupts_and_the_end_on(
    target: LlamaVocabulary, draft: LlamaVocabulary
) -> None:
    inner = ScriptedInner()
    drafter = translating(inner, target, draft)
    predicate = lambda: True  # noqa: E731 - it is compared by identity
    drafter.set_interrupt(predicate)
    assert inner.predicate is predicate
    assert drafter.ns_native == inner.ns_native == 7
    drafter.close()
    assert inner.closed
    assert drafter.name == "draft"


def test_pairs() -> None:
    assert replacement_pairs([]) == []
    assert replacement_pairs(["<a> <b>", " x\ty "]) == [("<a>", "<b>"), ("x", "y")]
    for wrong in ("", "alone", "one two three"):
        with pytest.raises(SettingsError, match="spec_replace"):
            replacement_pairs(["<a> <b>", wrong])
    with pytest.raises(SettingsError, match="two pairs for '<a>'"):
        replacement_pairs(["<a> <b>", "<a> <c>"])
    assert replacement_pairs(["<a> <c>", "<b> <c>"]) == [("<a>", "<c>"), ("<b>", "<c>")]


NAMES = {
    "<|fim_prefix|>": "<PRE>",
    "<|fim_suffix|>": "<SUF>",
    "<|fim_middle|>": "<MID>",
    "<|repo_name|>": "<REPO>",
    "<|file_sep|>": "<FILE>",
}


@pytest.fixture(scope="module")
def foreign_draft(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded draft model with other ids and names."""
    path = tmp_path_factory.mktemp("foreign") / "draft.gguf"
    write_with_other_vocabulary(
        model_folder / "embedded-draft-q8_0.gguf", path, first=300, last=4000, names=NAMES
    )
    return path


def load(path: Path, vocabulary: LlamaVocabulary, **changes: Any) -> Any:
    settings = Settings(threads=1, spec_draft_threads=1, **changes)
    return load_draft_model(path, settings, vocabulary, 2048, lambda level, line: None)


@pytest.fixture(scope="module")
def translated(foreign_draft: Path, vocabulary: LlamaVocabulary) -> Iterator[TranslatingDrafter]:
    drafter = load(foreign_draft, vocabulary, spec_replace=[f"{a} {b}" for a, b in NAMES.items()])
    assert isinstance(drafter, TranslatingDrafter)
    yield drafter
    drafter.close()


def test_another_vocabulary_is_refused_unless_it_is_configured(
    foreign_draft: Path, vocabulary: LlamaVocabulary
) -> None:
    with pytest.raises(VocabularyMismatchError, match="token 300") as caught:
        load(foreign_draft, vocabulary)
    assert "spec_replace" in caught.value.remedy
    with pytest.raises(ModelLoadError, match="spec_replace"):
        load(foreign_draft, vocabulary, spec_replace=["alone"])


def test_a_model_of_the_same_vocabulary_needs_no_translation(
    model_folder: Path, vocabulary: LlamaVocabulary
) -> None:
    drafter = load(model_folder / "embedded-draft-q8_0.gguf", vocabulary, spec_replace=["<a> <b>"])
    assert isinstance(drafter, DraftModelDrafter)
    drafter.close()


def complete(target: LlamaTarget, tokens: Sequence[int], drafter: Drafter | None) -> Generation:
    target.truncate(0)
    return generate(
        target,
        DraftContext(prompt=tokens),
        drafter=drafter,
        sampler=make_sampler(
            SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)
        ),
        n_predict=32,
        stop=lambda token: False,
        interrupted=lambda: None,
        clock=perf_counter,
    )


@pytest.mark.real
def test_a_translated_draft_model_is_lossless_and_as_right_as_the_original(
    target_f16: LlamaTarget,
    vocabulary: LlamaVocabulary,
    draft_q8: DraftModelDrafter,
    translated: TranslatingDrafter,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = {"original": [0, 0], "translated": [0, 0]}
    for real in cut_prompts(vocabulary)[::5]:
        alone = complete(target_f16, real.tokens, None)
        for name, drafter in (("original", draft_q8), ("translated", translated)):
            generation = complete(target_f16, real.tokens, drafter)
            assert generation.drafter_failures == ()
            assert generation.tokens == alone.tokens, real.name
            counts[name][0] += generation.stats.n_drafted
            counts[name][1] += generation.stats.n_accepted
    rates = {name: accepted / drafted for name, (drafted, accepted) in counts.items()}
    with capsys.disabled():
        print(f"\ndraft tokens, accepted: {counts}")  # noqa: T201 - the rates are to be seen
    assert counts["translated"][0] > 200
    assert rates["translated"] > 0.7 * rates["original"]
