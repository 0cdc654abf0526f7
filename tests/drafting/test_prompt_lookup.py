"""Prompt lookup: what is found, which place wins, how much of it is drafted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from character_tokens import ids, text_of, where
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.drafter import EMPTY_TOKENS, DraftContext, TokenArray
from speclsp.drafting.prompt_lookup import PromptLookupDrafter, create
from speclsp.settings import Settings


class FixedCorpus:
    """Answers with one continuation and match length, where that is long enough."""

    def __init__(self, answer: str, length: int) -> None:
        self._answer, self._length = ids(answer), length
        self.asked: list[tuple[str, int, int, int]] = []

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        self.asked.append((text_of(tail), n_min, n_max, n_tokens))
        if self._length < n_min:
            return EMPTY_TOKENS, 0
        return self._answer[:n_tokens], self._length


class TrustingDrafter(PromptLookupDrafter):
    """Drafts all it finds, so that the search shows."""

    def __init__(self, n_min: int = 2, n_max: int = 8, n_draft: int = 6) -> None:
        super().__init__(n_min=n_min, n_max=n_max, n_draft=n_draft)


def drafted(asked: DraftContext, generated: str = "", n_max: int = 100, **options: int) -> str:
    drafter = TrustingDrafter(**options)
    drafter.begin(asked)
    return text_of(drafter.draft([ord(c) for c in generated], n_max).tokens)


CASES = {
    "the newest of equal matches": (where("_abcX_abcY_abc"), "Y_abc"),
    "this buffer before another one": (where("_abcX__abc", "", ["_abcZZ"]), "X__abc"),
    "before the cursor before after it": (where("_abcX__abc", "_abcZZ"), "X__abc"),
    "after the cursor before another buffer": (where("_abc", "_abcS.", ["_abcO."]), "S."),
    "the most recently used buffer": (where("abc", "", ["_abcN.", "_abcO."]), "N."),
    "a match at a buffer's end gives way": (where("_abcX._zabc", "__zabc"), "X._zab"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_drafted(case):
    asked, expected = CASES[case]
    assert drafted(asked) == expected


def test_the_fim_tokens_of_the_prompt_do_not_matter():
    """The prompt ends with a special token; the look-up runs on the buffer instead."""
    asked = DraftContext(prompt=(*ids("abcdef__abc").tolist(), 99999), prefix=ids("abcdef__abc"))
    drafter = TrustingDrafter()
    drafter.begin(asked)
    assert text_of(drafter.draft([], 3).tokens) == "def"


def test_a_loop_is_drafted_further_than_its_last_turn():
    assert drafted(where("_abababababababab")) == "ababab"
    assert drafted(where("_" + "a" * 20)) == "aaaaaa"


def test_an_older_place_that_disagrees_lengthens_nothing():
    # The newest place is followed by five tokens up to the cursor, one fewer than wanted.
    assert drafted(where("1abcZZZZZZ_2abcYQQQQQQ_3abcY4abc")) == "Y4abc"


def test_the_loop_limits_the_draft():
    assert drafted(where("abcdefgh__abc"), n_max=2) == "de"


def test_a_longer_match_of_the_project_wins_and_an_equal_one_does_not():
    def source(length):
        drafter = TrustingDrafter(n_max=8)
        drafter.begin(where("-abcX-__abc", corpora=(FixedCorpus("PPP", length),)))
        draft = drafter.draft([], 5)
        return draft.source, text_of(draft.tokens)

    assert source(3) == ("buffer", "X-__a")
    assert source(4) == ("project", "PPP")


def test_the_best_of_several_corpora_wins():
    corpora = [FixedCorpus("AA", 3), FixedCorpus("BB", 5), FixedCorpus("CC", 5)]
    drafter = TrustingDrafter()
    drafter.begin(where("qwerty", corpora=tuple(corpora)))
    draft = drafter.draft([], 5)
    assert (text_of(draft.tokens), draft.match_length, draft.source) == ("BB", 5, "project")
    # Each is asked for more than what was found before only.
    assert [corpus.asked[0][1] for corpus in corpora] == [2, 4, 6]
    assert corpora[0].asked[0] == ("qwerty", 2, 8, 5)


def test_the_project_is_not_asked_where_the_buffer_matches_as_far_as_counts():
    corpus = FixedCorpus("P", 99)
    drafter = TrustingDrafter(n_max=3)
    drafter.begin(where("_abcX_abc", corpora=(corpus,)))
    assert text_of(drafter.draft([], 1).tokens) == "X"
    assert corpus.asked == []


def test_a_maximum_below_three_tokens_is_the_minimum_too():
    drafter = create(Settings(max_ngram_size=2))
    drafter.begin(where("_abX_ab"))
    assert text_of(drafter.draft([], 1).tokens) == "X"


def test_the_settings_bound_match_and_draft():
    drafter = create(Settings(max_ngram_size=4, num_pred_tokens=2))
    drafter.begin(where("_abcdefgh_abcdef_" + "abcdef"))
    draft = drafter.draft([], 100)
    assert draft.match_length == 4
    assert 1 <= len(draft.tokens) <= 2


def naive_longest_match(sources: Sequence[TokenArray], text: TokenArray, n_min: int, n_max: int):
    """Match length, and what may follow according to the longest matches."""
    best, followers = 0, set()
    for tokens in [*sources, text]:
        for place in range(1, tokens.size):
            length = 0
            while (
                length < min(n_max, text.size)
                and length < place
                and tokens[place - 1 - length] == text[text.size - 1 - length]
            ):
                length += 1
            if length > best:
                best, followers = length, set()
            if length == best:
                followers.add(int(tokens[place]))
    return (best, followers) if best >= n_min else (0, set())


small = st.lists(st.integers(1, 3), max_size=25).map(lambda t: np.array(t, dtype=np.int32))


@given(
    prefix=small,
    suffix=small,
    buffers=st.lists(small, max_size=3),
    generated=st.lists(st.integers(1, 3), max_size=8),
    n_min=st.integers(1, 3),
    n_more=st.integers(0, 4),
    n_wanted=st.integers(1, 6),
)
def test_the_search_equals_a_naive_one(prefix, suffix, buffers, generated, n_min, n_more, n_wanted):
    n_max = n_min + n_more
    asked = DraftContext(prompt=(0,), prefix=prefix, suffix=suffix, buffers=tuple(buffers))
    drafter = PromptLookupDrafter(n_min=n_min, n_max=n_max, n_draft=n_wanted)
    drafter.begin(asked)
    match = drafter.draft(generated, n_wanted)
    written = np.concatenate([prefix, np.array(generated, dtype=np.int32)])
    length, followers = naive_longest_match([*buffers, suffix], written, n_min, n_max)
    assert match.match_length == length
    if length:
        assert int(match.tokens[0]) in followers
        assert 1 <= len(match.tokens) <= n_wanted
        # What is copied stands in one of the sources in one piece, after what matched.
        piece = [*written[written.size - length :].tolist(), *match.tokens]
        assert any(
            source[start : start + len(piece)].tolist() == piece
            for source in (*buffers, suffix, written)
            for start in range(source.size)
        )


def test_more_generated_text_than_room_was_made_for():
    drafter = TrustingDrafter()
    drafter.begin(where("_"))
    generated = [ord("a") + n % 20 for n in range(2000)]
    for end in range(0, 2001, 400):
        draft = drafter.draft(generated[:end], 4)
    assert list(draft.tokens) == generated[:4]
