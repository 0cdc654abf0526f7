"""Drafts of models with another vocabulary: through text there and back, and with real models."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import pytest
from exactness import run
from other_vocabulary import write_with_fewer_tokens, write_with_other_vocabulary
from quiet_loading import quiet_draft_model
from real_prompts import STEP, cut_prompts

from speclsp.backends.draft_text import TextCrossing, replacement_pairs
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.decoding.sampling import GreedySampler
from speclsp.decoding.speculate import Generation
from speclsp.drafting.drafter import DraftContext, Drafter
from speclsp.errors import ModelLoadError, SettingsError

CONTROL, NORMAL, USER = 3, 1, 4
TARGET = ["<fim>", "<mid>", "<end>", "a", "b", "ab", "c", "!", "Ã", "©", "Ċ"]
DRAFT = ["c", "b", "a", "?", "<MID>", "<FIM>", "Ã", "©", "<end>", "Ċ"]
PAIRS = [("<fim>", "<FIM>"), ("<mid>", "<MID>"), ("!", "?")]
"""Ã© are the two bytes of é, and Ċ is a line end, as byte-level vocabularies spell them."""


@pytest.fixture
def target(gguf_maker):
    types = [CONTROL] * 3 + [NORMAL] * 8
    path = gguf_maker.bpe_vocabulary("target.gguf", TARGET, types, fim_mid_token_id=1)
    return load_vocabulary(path)


@pytest.fixture
def draft(gguf_maker):
    types = [CONTROL if token.startswith("<") else NORMAL for token in DRAFT]
    path = gguf_maker.bpe_vocabulary("draft.gguf", DRAFT, types, fim_mid_token_id=4)
    return load_vocabulary(path)


class CountingVocabulary:
    """A vocabulary that notes what it tokenises."""

    def __init__(self, vocabulary: LlamaVocabulary) -> None:
        self._vocabulary = vocabulary
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vocabulary, name)

    def tokenize(self, text: str) -> Any:
        self.texts.append(text)
        return self._vocabulary.tokenize(text)


def ids(*tokens: str) -> list[int]:
    return [TARGET.index(token) for token in tokens]


def drafts(tokens: Sequence[int]) -> str:
    return " ".join(DRAFT[token] for token in tokens)


def test_prompt_and_output_cross_by_text(target, draft):
    crossing = TextCrossing(target, draft, PAIRS)
    text = crossing.begin(ids("<fim>", "ab", "c", "<mid>", "a"))
    assert drafts(text) == "<FIM> a b c <MID> a"
    generated = ids("c", "!")
    n_same = crossing.follow(text, generated)
    assert drafts(text) == "<FIM> a b c <MID> a c ?"
    assert n_same == 5  # up to the last special token
    generated += ids("ab")
    crossing.follow(text, generated)
    assert drafts(text) == "<FIM> a b c <MID> a c ? a b"
    assert crossing.follow(text, generated) == 5
    assert drafts(text) == "<FIM> a b c <MID> a c ? a b"


def test_drafts_cross_back_with_their_probabilities(target, draft):
    crossing = TextCrossing(target, draft, PAIRS)
    tokens = [DRAFT.index(token) for token in "cabb"]
    assert crossing.back(tokens, (0.9, 0.5, 0.8, 0.7)) == (
        tuple(ids("c", "ab", "b")),
        (0.9, 0.4, 0.7),
    )
    # Where text was replaced its places are no longer known.
    assert crossing.back([DRAFT.index("?")], (0.9,)) == (tuple(ids("!")), ())
    # Half a character is left out.
    tokens = [DRAFT.index(token) for token in ("a", "Ã")]
    assert crossing.back(tokens, (0.9, 0.9)) == (tuple(ids("a")), (0.9,))
    assert crossing.back([], ()) == ((), ())


def test_where_a_draft_ends(target, draft):
    crossing = TextCrossing(target, draft, PAIRS)
    line_ends = frozenset(ids("Ċ"))
    for token, ends in (("<MID>", True), ("<end>", True), ("a", False), ("Ċ", True), ("Ã", False)):
        assert crossing.ends(DRAFT.index(token), line_ends) == ends
    assert not crossing.ends(DRAFT.index("Ċ"), frozenset())


def test_special_tokens_by_pair_role_and_name(target, draft):
    plain = TextCrossing(target, draft)
    # The middle has a role in both, <end> has its name in both, and <fim> has nothing.
    assert drafts(plain.begin(ids("<fim>", "a", "<end>", "<mid>"))) == "a <end> <MID>"
    assert plain.fills_in
    assert drafts(TextCrossing(target, draft, [("<fim>", "ca")]).begin(ids("<fim>"))) == "c a"
    assert drafts(TextCrossing(target, draft, [("<mid>", "<FIM>")]).begin(ids("<mid>"))) == "<FIM>"


def test_a_draft_model_without_a_middle_is_known(target, gguf_maker):
    chat = load_vocabulary(gguf_maker.bpe_vocabulary("chat.gguf", ["a", "b", "c", "[M]"]))
    assert not TextCrossing(target, chat).fills_in
    assert TextCrossing(target, chat, [("<mid>", "c")]).fills_in


def test_characters_that_are_split_over_tokens(target, draft):
    crossing = TextCrossing(target, draft)
    text = crossing.begin(ids("<mid>"))
    assert crossing.follow(text, ids("Ã")) is None
    assert crossing.follow(text, ids("Ã", "©")) == 1
    assert drafts(text) == "<MID> Ã ©"


def test_the_draft_model_s_bos_stands_first(target, gguf_maker):
    spm = load_vocabulary(gguf_maker.spm_vocabulary("spm.gguf", ["a", "b", "c"]))
    assert spm.bos == 1
    crossing = TextCrossing(target, spm)
    assert crossing.begin(ids("<mid>", "ab")) == [1, *spm.tokenize("ab").tolist()]


def test_a_step_tokenises_the_last_two_lines_only(target, draft):
    counting = CountingVocabulary(draft)
    crossing = TextCrossing(target, counting)  # type: ignore[arg-type]  # it stands for a real one
    prompt = [*ids("<fim>"), *ids("a", "Ċ") * 100, *ids("<mid>", "b")]
    text = crossing.begin(prompt)
    generated: list[int] = []
    for n_lines in range(1, 7):
        generated += ids("c", "Ċ")
        del counting.texts[:]
        n_same = crossing.follow(text, generated)
        assert max(map(len, counting.texts)) <= len("bc\nc\n")
        whole = draft.tokenize("b" + "c\n" * n_lines).tolist()
        assert text[-len(whole) :] == whole
        assert n_same is not None
        assert len(text) - n_same <= 5
    # The next request has the pieces between its special tokens already.
    del counting.texts[:]
    crossing.begin(prompt)
    assert counting.texts == ["b"]


def test_pairs():
    assert replacement_pairs([]) == []
    assert replacement_pairs(["<a> <b>", " x\ty "]) == [("<a>", "<b>"), ("x", "y")]
    for wrong in ("", "alone", "one two three"):
        with pytest.raises(SettingsError, match="is not a pair of two strings"):
            replacement_pairs(["<a> <b>", wrong])


NAMES = {
    "<|fim_prefix|>": "<BEFORE>",
    "<|fim_suffix|>": "<AFTER>",
    "<|fim_middle|>": "<HERE>",
    "<|repo_name|>": "<PROJECT>",
    "<|file_sep|>": "<UNIT>",
}
REPLACED = [f"{old} {new}" for old, new in NAMES.items()]


@pytest.fixture(scope="module")
def foreign(model_folder, tmp_path_factory):
    """The embedded draft model with other ids and names, and with half of its tokens."""
    folder = tmp_path_factory.mktemp("foreign")
    source = model_folder / "embedded-draft-q8_0.gguf"
    write_with_other_vocabulary(source, folder / "ids.gguf", first=300, last=4000, names=NAMES)
    write_with_fewer_tokens(source, folder / "half.gguf", n_merges=1700)
    return {path.stem: path for path in folder.iterdir()}


@pytest.mark.real
def test_a_draft_model_with_another_vocabulary_is_told_and_drafts_by_text(
    foreign, vocabulary, model_folder
):
    lines: list[str] = []
    drafter = quiet_draft_model(foreign["ids"], vocabulary, lines, spec_replace=REPLACED)
    assert drafter.crosses_by_text
    assert any(
        "ids.gguf cross by text, since its vocabulary differs: token 300" in x for x in lines
    )
    assert not [line for line in lines if line.startswith("warning")]
    drafter.close()
    lines.clear()
    quiet_draft_model(foreign["ids"], vocabulary, lines).close()
    (warning,) = [line for line in lines if line.startswith("warning")]
    assert '`--spec-replace "<|fim_middle|> STRING"`' in warning
    lines.clear()
    same = quiet_draft_model(
        model_folder / "embedded-draft-q8_0.gguf", vocabulary, lines, spec_replace=["a b"]
    )
    assert not same.crosses_by_text
    assert lines[-1].startswith("warning: spec_replace changes nothing")
    same.close()
    with pytest.raises(ModelLoadError, match="'alone' is not a pair"):
        quiet_draft_model(foreign["ids"], vocabulary, spec_replace=["alone"])


def complete(
    target: LlamaTarget, tokens: Sequence[int], drafter: Drafter | None, end_tokens: frozenset[int]
) -> Generation:
    target.truncate(0)
    context = DraftContext(prompt=tokens, end_tokens=end_tokens)
    stop = end_tokens.__contains__
    return run(target, context, drafter, GreedySampler(), 48, stop=stop, clock=perf_counter)


@pytest.fixture(scope="module")
def crossing_drafters(foreign, vocabulary):
    drafters = {
        "ids": quiet_draft_model(foreign["ids"], vocabulary, spec_replace=REPLACED),
        "half": quiet_draft_model(foreign["half"], vocabulary),
    }
    yield drafters
    for drafter in drafters.values():
        drafter.close()


@pytest.mark.real
def test_drafts_by_text_are_as_right_as_the_original_s_and_cost_little_more(
    target_f16, vocabulary, draft_q8, crossing_drafters, capsys
):
    drafters = {"same": draft_q8, **crossing_drafters}
    counts = {name: [0, 0, 0] for name in drafters}
    host_ms = dict.fromkeys(drafters, 0.0)
    for real in cut_prompts(vocabulary)[:: min(STEP, 6)]:
        ends = vocabulary.end_tokens
        alone = complete(target_f16, real.tokens, None, ends)
        for name, drafter in drafters.items():
            generation = complete(target_f16, real.tokens, drafter, ends)
            assert generation.drafter_failures == ()
            assert generation.tokens == alone.tokens, real.name
            stats = generation.stats.drafters["draft"]
            for place, count in enumerate((stats.n_draft_calls, stats.n_drafted, stats.n_accepted)):
                counts[name][place] += count
            host_ms[name] += stats.ms_begin + stats.ms_draft - stats.ms_decode
    rates = {name: accepted / drafted for name, (_, drafted, accepted) in counts.items()}
    with capsys.disabled():
        for name, (n_calls, drafted, accepted) in counts.items():
            print(  # noqa: T201 - the decision record has these figures
                f"\n{name}: {accepted} of {drafted} accepted ({rates[name]:.3f}), "
                f"{drafted / n_calls:.2f} tokens and {host_ms[name] / n_calls:.3f} ms beside the "
                "draft model per draft"
            )
    assert rates["ids"] > 0.9 * rates["same"]
    assert rates["half"] > 0.1
    assert min(n_drafted for _, n_drafted, _ in counts.values()) > 200 // min(STEP, 6)
