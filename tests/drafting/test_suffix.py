"""Suffix match: which places are found, how many, and what it drafts alone."""

from collections.abc import Sequence

import numpy as np
import pytest
from character_tokens import ids, where
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.drafter import Candidate, DraftContext, TreeDrafter
from speclsp.drafting.lookup_text import LookupText
from speclsp.drafting.suffix import SuffixDrafter, create
from speclsp.drafting.token_index import DEPTH
from speclsp.project.corpus import Corpus
from speclsp.settings import Settings


def corpus(*texts: str) -> Corpus:
    made = Corpus()
    for idx, text in enumerate(texts):
        made.add(bytes([idx]), ids(text))
    made.flush()
    return made


def found(candidates: Sequence[Candidate]) -> list[tuple[str, str, int]]:
    return [("".join(map(chr, c.tokens)), c.source, c.match_length) for c in candidates]


def matches(made: SuffixDrafter, n_min: int) -> list[Candidate]:
    return [one for one in made.candidates([], 9) if one.match_length >= n_min]


def drafter(asked: DraftContext, n_draft: int = 15) -> SuffixDrafter:
    made = SuffixDrafter(n_draft=n_draft)
    made.begin(asked)
    return made


class TestBuffers:
    def test_the_longest_match_first_and_of_equal_ones_the_latest(self):
        made = drafter(where("xab1 ab2 yab3 ab"), n_draft=1)
        assert found(matches(made, 1)) == [
            ("2", "buffer", 3),
            ("3", "buffer", 2),
            ("1", "buffer", 2),
        ]

    def test_before_and_after_the_cursor_and_other_buffers(self):
        made = drafter(where("ab1 ab", "..ab2..", ["-ab3-", "+ab4+"]), n_draft=1)
        assert sorted(found(matches(made, 2))) == [
            ("1", "buffer", 2),
            ("2", "buffer", 2),
            ("3", "open", 2),
            ("4", "open", 2),
        ]

    def test_what_was_generated_counts_as_text(self):
        made = drafter(where("foo(bar) fo"), n_draft=4)
        assert found(matches(made, 2)) == [("o(ba", "buffer", 2)]
        generated = list(ids("o(bar) f"))
        assert found(made.candidates(generated, 9))[0] == ("oo(b", "buffer", 10)

    def test_nothing_to_match(self):
        assert matches(drafter(where()), 1) == []
        assert drafter(where("abc")).candidates([], 9) == []
        assert drafter(where("aXbX")).candidates([], 0) == ()


def brute_force(
    prefix: Sequence[int], others: Sequence[Sequence[int]], n_min: int, n_tokens: int
) -> set[tuple[int, tuple[int, ...]]]:
    """Every place with its match's length and what follows it."""
    rows = set()
    for text in (*others, prefix):
        for end in range(1, len(text)):
            length = 0
            while length < min(end, len(prefix), DEPTH) and (
                text[end - 1 - length] == prefix[len(prefix) - 1 - length]
            ):
                length += 1
            if length >= n_min:
                rows.add((length, tuple(text[end : end + n_tokens])))
    return rows


_TOKENS = st.lists(st.integers(0, 2), max_size=24)


@given(
    prefix=_TOKENS,
    suffix=_TOKENS,
    buffers=st.lists(_TOKENS, max_size=3),
    n_min=st.integers(1, 4),
    n_tokens=st.integers(1, 5),
    n_places=st.integers(1, 100),
)
def test_places_are_those_that_a_plain_search_finds(
    prefix, suffix, buffers, n_min, n_tokens, n_places
):
    def array(tokens):
        return np.array(tokens, dtype=np.int32)

    asked = DraftContext(
        prompt=(0,), prefix=array(prefix), suffix=array(suffix), buffers=tuple(map(array, buffers))
    )
    text = LookupText(asked, DEPTH)
    candidates = text.candidates(n_min, n_tokens, n_places)
    expected = brute_force(prefix, [suffix, *buffers], n_min, n_tokens)
    got = [(c.match_length, tuple(c.tokens)) for c in candidates]
    lengths = [length for length, _ in got]
    assert set(got) <= expected
    assert lengths == sorted(lengths, reverse=True)
    assert len(got) <= n_places
    if n_places == 100:
        assert set(got) == expected
    elif expected:
        assert lengths[0] == max(length for length, _ in expected)


def test_what_was_generated_last_is_a_source_of_its_own():
    asked = where("__abc", buffers=["xabcO"], generated=(ids("abcG"), ids("qabcH")))
    rows = found(matches(drafter(asked, n_draft=1), 1))
    assert {("G", "generated", 3), ("H", "generated", 3), ("O", "open", 3)} == set(rows)
    # The latest comes first, and before other buffers.
    assert [token for token, _, _ in rows] == ["G", "H", "O"]


def test_what_was_deleted_is_a_source_of_its_own_before_what_was_generated():
    asked = where("__abc", buffers=["xabcO"], generated=(ids("abcG"),), deleted=(ids("abcD"),))
    rows = found(matches(drafter(asked, n_draft=1), 1))
    assert rows == [("D", "deleted", 3), ("G", "generated", 3), ("O", "open", 3)]


class TestCorpora:
    def test_all_places_of_the_longest_match(self):
        project = corpus("xabcde1", "yabcde2", "---de3", "-e4")
        candidates = project.candidates(ids("abcde"), 1, DEPTH, 1)
        assert sorted(found(candidates)) == [("1", "project", 5), ("2", "project", 5)]
        assert sum(c.n_places for c in candidates) == 2

    def test_no_shorter_match_than_asked_for(self):
        project = corpus("---de3")
        assert project.candidates(ids("abcde"), 3, DEPTH, 1) == []
        assert found(project.candidates(ids("abcde"), 2, DEPTH, 1)) == [("3", "project", 2)]

    def test_a_sample_stands_for_many(self):
        project = corpus(*["ab" + chr(48 + idx) for idx in range(64)])
        candidates = project.candidates(ids("ab"), 1, DEPTH, 1)
        assert len(candidates) < 64
        assert sum(c.n_places for c in candidates) == pytest.approx(64)


class TestAlone:
    def test_it_drafts_the_most_probable_path(self):
        made = drafter(where("ab12345 ab12399 ab"))
        draft = made.draft([], 4)
        assert draft.tokens == tuple(ids("1239"))
        assert draft.source == "buffer"
        assert draft.match_length == 3
        assert len(draft.probabilities) == 4
        assert all(0.0 < p < 1.0 for p in draft.probabilities)

    def test_frequency_beats_recency(self):
        made = drafter(where("abX abX abX abX abY ab"))
        assert made.draft([], 1).tokens == tuple(ids("X"))

    def test_the_limits_hold(self):
        made = drafter(where("abcdefgh abc"), n_draft=3)
        assert len(made.draft([], 9).tokens) == 3
        assert len(made.draft([], 2).tokens) == 2
        assert made.draft([], 0).tokens == ()


def test_it_is_a_tree_drafter_made_from_the_settings():
    made = create(Settings(max_draft=2))
    assert isinstance(made, TreeDrafter)
    assert made.name == "suffix"
    made.begin(where("abcdef abc"))
    assert len(made.draft([], 9).tokens) == 2
    made.accept(1, 2)


@pytest.mark.parametrize(
    ("typed", "project", "sources"),
    [
        ("bc", "1 bcx", {"buffer", "project"}),
        ("bc", "abcd2", {"buffer"}),
        ("abc", "1 abcx", {"buffer"}),
        ("Y", "1Yx", {"project"}),
        ("Y", "1yx", set()),
    ],
)
def test_corpora_are_searched_for_longer_matches_where_the_buffers_is_short(
    typed, project, sources
):
    made = drafter(where(f"abcd1 {typed}", corpora=(corpus(project),)))
    assert {one.source for one in made.candidates([], 9)} == sources


class TestCopying:
    TEXT = "abcdefghijklmnopqrstuvwxyz0123456789"

    def looked_up(
        self, monkeypatch: pytest.MonkeyPatch, before: str, steps: list[str]
    ) -> list[str]:
        """What is drafted first before each step; a star where nothing was searched for it."""
        searched: list[int] = []
        search = LookupText.candidates

        def counted(text: LookupText, *args: int) -> list[Candidate]:
            searched.append(1)
            return search(text, *args)

        monkeypatch.setattr(LookupText, "candidates", counted)
        made = drafter(where(before), n_draft=4)
        generated: list[int] = []
        drafts = []
        for step in ["", *steps]:
            generated += ids(step).tolist()
            n_before = len(searched)
            first = found(made.candidates(generated, 9))[:1]
            text = first[0][0] if first else ""
            drafts.append(text if len(searched) > n_before else f"*{text}")
        return drafts

    def test_while_a_long_match_goes_on_nothing_is_searched(self, monkeypatch):
        before = self.TEXT + "\n" + self.TEXT[:2]
        drafts = self.looked_up(monkeypatch, before, ["c", "de", "f", "gh"])
        assert drafts == ["cdef", "*defg", "*fghi", "*ghij", "*ijkl"]

    def test_where_it_ends_all_is_searched_again(self, monkeypatch):
        before = self.TEXT + "\nX0189\n" + self.TEXT[:20]
        drafts = self.looked_up(monkeypatch, before, ["uvX0", "1"])
        assert drafts == ["uvwx", "189\n", "*89\na"]

    def test_copies_that_go_on_alike_are_one_candidate(self):
        made = drafter(where("xab12 yab12 zab34 ab"), n_draft=2)
        assert [(c.tokens, c.n_places) for c in made.candidates([], 2)] == [
            ((ord("3"), ord("4")), 1.0),
            ((ord("1"), ord("2")), 2.0),
        ]
