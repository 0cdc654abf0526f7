"""Token healing: the model is held to what was typed, byte by byte, and chooses freely after."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_models import ByteVocabulary

from speclsp.decoding.sampling import GreedySampler, SamplingParams, SeededSampler, make_sampler
from speclsp.prompt.healing import HealingSampler, TokenPrefixes, healing_prefix


class PieceVocabulary(ByteVocabulary):
    """All single bytes, and some longer tokens; the longest match tokenises."""

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = [piece.encode() for piece in pieces]
        self.n_tokens = 262 + len(pieces)

    def piece(self, token: int) -> bytes:
        return self.pieces[token - 262] if token >= 262 else super().piece(token)

    def tokenize(self, text: str) -> np.ndarray:
        data, tokens = text.encode("utf-8", "replace"), []
        while data:
            fitting = [i for i, piece in enumerate(self.pieces) if data.startswith(piece)]
            best = max(fitting, key=lambda i: len(self.pieces[i]), default=None)
            tokens.append(data[0] if best is None else 262 + best)
            data = data[len(self.piece(tokens[-1])) :]
        return np.array(tokens, dtype=np.int32)


WORDS = PieceVocabulary("Fran", "con", "ia", "France", " ", "    ", "   ", " return", "é", "🙂")


@pytest.mark.parametrize(
    ("line_before", "typed"),
    [
        ("", ""),
        ("        ", "        "),
        ("\t", "\t"),
        ("x = Fran", "Fran"),
        ("x = Franc", "Franc"),
        ("x = Franco", "co"),
        ("x = Francon", ""),
        ("x = ", " "),
        ("x\t return", ""),
        ("x\t retu", " retu"),
        # Neither is the beginning of a token, nor does a token stand across the place before.
        ("x = France", ""),
        ("x = é", ""),
        ("x = 🙂", ""),
        ("x", ""),
    ],
)
def test_what_a_token_may_stand_across_is_held_back(line_before, typed):
    assert healing_prefix(TokenPrefixes(WORDS), line_before) == typed


def test_a_character_split_over_tokens_is_held_back_whole():
    vocabulary = PieceVocabulary()
    vocabulary.pieces = ["é🙂".encode()[:3], "🙂".encode()[1:3], "🙂a".encode()[3:]]
    vocabulary.n_tokens += 3
    prefixes = TokenPrefixes(vocabulary)
    assert healing_prefix(prefixes, "x = é🙂") == "é🙂"
    assert healing_prefix(prefixes, "x = 🙂") == "🙂"
    assert healing_prefix(prefixes, "x = 🙂!") == ""
    assert healing_prefix(prefixes, "x = é") == "é"
    assert healing_prefix(TokenPrefixes(ByteVocabulary()), "x = é🙂") == ""


def test_a_line_without_a_stable_place_is_held_back_in_part():
    prefixes = TokenPrefixes(PieceVocabulary("ab", "ba"))
    typed = healing_prefix(prefixes, "x" + "ab" * 500)
    assert 96 <= len(typed) < 100


@given(st.text(alphabet="Francoi e\tét🙂 ", max_size=12), st.text("Francoi eé🙂", max_size=8))
def test_the_tokens_before_are_those_of_every_continuation(line_before, continuation):
    typed = healing_prefix(TokenPrefixes(WORDS), line_before)
    assert line_before.endswith(typed)
    shown = WORDS.tokenize(line_before.removesuffix(typed)).tolist()
    if line_before.strip(" \t"):
        assert WORDS.tokenize(line_before + continuation).tolist()[: len(shown)] == shown


def test_lone_surrogates_are_held_back_as_they_are():
    assert healing_prefix(TokenPrefixes(PieceVocabulary("?a")), "x = \ud800") == "\ud800"


def test_no_word_is_cut_at_the_cursor_where_the_tokenizer_would_not_cut_it():
    # "Fran" and "ce" would be said one by one; the word has a token of its own.
    vocabulary = PieceVocabulary("Fran", "France", "ce", "con")
    assert sampled(vocabulary, "Fran", {"Fran": 4.0, "ce": 9.0, "con": 8.0}, 2) == [b"Fran", b"con"]
    # A row of broken logits leaves nothing to choose from, and still ends.
    sampler = HealingSampler(GreedySampler(), TokenPrefixes(vocabulary), vocabulary, "Fran")
    row = np.full(vocabulary.n_tokens, np.nan, dtype=np.float32)
    assert all(0 <= sampler.sample(row) < vocabulary.n_tokens for _ in range(3))


def sampled(
    vocabulary: PieceVocabulary, typed: str, logits: dict[str, float], n_tokens: int = 0
) -> list[bytes]:
    row = np.full(vocabulary.n_tokens, -5.0, dtype=np.float32)
    for piece, logit in logits.items():
        (token,) = vocabulary.tokenize(piece).tolist()
        row[token] = logit
    sampler = HealingSampler(GreedySampler(), TokenPrefixes(vocabulary), vocabulary, typed)
    said: list[bytes] = []
    while sum(map(len, said)) <= len(typed.encode()) or len(said) < n_tokens:
        said.append(vocabulary.piece(sampler.sample(row)))
    return said


def test_a_broken_word_is_said_by_the_token_that_the_whole_word_has():
    assert sampled(WORDS, "Fran", {"ia": 9.0, "France": 5.0, "Fran": 4.0}) == [b"France"]
    assert sampled(WORDS, "Fran", {"con": 9.0, "Fran": 4.0})[:2] == [b"Fran", b"con"]


def test_indentation_runs_into_the_word_behind_it():
    said = sampled(WORDS, "    ", {"x": 9.0, "   ": 8.0, " return": 9.0, "    ": 4.0})
    assert said == [b"   ", b" return"]


@given(st.text(alphabet="Francoi e\tét🙂 ", max_size=12), st.integers(0, 2**32 - 1))
def test_whatever_the_logits_the_typed_text_comes_first(typed, seed):
    generator = np.random.default_rng(seed)
    sampling = SamplingParams(temperature=1.0, top_k=40, top_p=0.9, min_p=0.05, seed=seed)
    sampler = HealingSampler(make_sampler(sampling), TokenPrefixes(WORDS), WORDS, typed)
    said = b""
    for _ in range(len(typed.encode()) + 1):
        row = generator.standard_normal(WORDS.n_tokens).astype(np.float32) * 4
        said += WORDS.piece(sampler.sample(row))
        if len(said) >= len(typed.encode()):
            break
    assert said.startswith(typed.encode())


def test_a_refused_token_costs_no_random_number():
    vocabulary = PieceVocabulary("Fran", "France", "ce", "con")
    sampling = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=5)
    plain, own = SeededSampler(sampling), SeededSampler(sampling)
    sampler = HealingSampler(own, TokenPrefixes(vocabulary), vocabulary, "Fran")
    row = np.full(vocabulary.n_tokens, -30.0, dtype=np.float32)
    row[vocabulary.tokenize("Fran")] = 9.0
    assert vocabulary.piece(sampler.sample(row)) == b"Fran"
    row[vocabulary.tokenize("Fran")] = -30.0
    row[vocabulary.tokenize("ce")], row[vocabulary.tokenize("con")] = 9.0, 4.0
    assert vocabulary.piece(sampler.sample(row)) == b"con"
    for _ in range(2):
        plain.sample(row)
    assert own.number == plain.number


@given(st.binary(min_size=1, max_size=6))
def test_the_index_equals_a_search_through_all_tokens(data):
    found = set(TokenPrefixes(WORDS).compatible_with(data).tolist())
    assert found == {
        token
        for token in range(WORDS.n_tokens)
        if (piece := WORDS.piece(token))
        and token not in WORDS.end_tokens
        and (piece.startswith(data) or data.startswith(piece))
    }


@pytest.mark.real
@pytest.mark.parametrize(
    ("line_before", "typed"),
    [
        ("        ", "        "),
        ("        return", "        return"),
        ("x = retu", " retu"),
        ("    x = ", " "),
        ("self.na", ".na"),
    ],
)
def test_the_embedded_vocabulary_is_healed_at_a_stable_place(vocabulary, line_before, typed):
    assert healing_prefix(TokenPrefixes(vocabulary), line_before) == typed


@pytest.mark.real
def test_every_split_of_a_line_is_a_prefix_and_what_is_held_back(vocabulary):
    line = "    def größe(self, name: str) -> dict[str, Any]:  # 🙂 fertig"
    prefixes = TokenPrefixes(vocabulary)
    for end in range(len(line) + 1):
        typed = healing_prefix(prefixes, line[:end])
        assert line[:end].endswith(typed)
        shown = vocabulary.tokenize(line[:end].removesuffix(typed)).tolist()
        assert vocabulary.tokenize(line).tolist()[: len(shown)] == shown
        assert typed == "" or prefixes.compatible_with(typed.encode()).size > 0
