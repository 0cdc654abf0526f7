"""N-gram cache: which source decides, which order, and when nothing is sure enough."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from character_tokens import ids, where
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import counted

from speclsp.drafting.drafter import Draft, DraftContext, NgramCounts, Statistics
from speclsp.drafting.ngram_cache import (
    LAX,
    STRICT,
    NgramCacheDrafter,
    Threshold,
    best_token,
    create,
)
from speclsp.settings import Settings


class FixedCounts:
    """Counts written down by hand: ``{"ab": "ccd"}`` is c twice and d once after ab."""

    def __init__(self, counts: Mapping[str, str]) -> None:
        self._counts = {tuple(map(ord, ngram)): after for ngram, after in counts.items()}
        self.max_order = max(map(len, counts), default=0)

    def followers(self, ngram: tuple[int, ...]) -> dict[int, int]:
        assert ngram
        return Counter(map(ord, self._counts.get(ngram, "")))


def drafted(
    prefix: str,
    suffix: str = "",
    *,
    static: Mapping[str, str] | None = None,
    dynamic: Mapping[str, str] | None = None,
    generated: str = "",
    n_draft: int = 8,
    n_max: int = 100,
) -> tuple[str, str, int]:
    drafter = NgramCacheDrafter(n_draft=n_draft)
    statistics = Statistics(
        static=(FixedCounts(static),) if static else (),
        dynamic=(FixedCounts(dynamic),) if dynamic else (),
    )
    drafter.begin(where(prefix, suffix, statistics=statistics))
    draft = drafter.draft([ord(c) for c in generated], n_max)
    return "".join(map(chr, draft.tokens)), draft.source, draft.match_length


NOTHING = ("", "", 0)
# The text before the cursor, behind it, what was generated, and the one token that is drafted.
CONTEXT_CASES = {
    "four tokens, seen once": ("abcdX!abcd", "", "", ("X", "context", 4)),
    "three tokens, seen once": ("abcX_.abc", "", "", ("X", "context", 3)),
    "two tokens, seen twice": ("abX,abX;ab", "", "", ("X", "context", 2)),
    "one token, seen twice": ("1aX2aX3a", "", "", ("X", "context", 1)),
    "the longest that is sure": (
        "abcdX,abcdY,abcdZ,1bcdW2bcdW3bcdW abcd", "", "", ("W", "context", 3),
    ),
    "behind the cursor": ("abcd", "..abcdX", "", ("X", "context", 4)),
    "never across the cursor": ("bcdX!ab", "cd", "", NOTHING),
    "with what was generated": ("abcdX!ab", "", "cd", ("X", "context", 4)),
    "nothing before the cursor": ("", "abcd", "", NOTHING),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTEXT_CASES)
def test_context(name):
    prefix, suffix, generated, expected = CONTEXT_CASES[name]
    assert drafted(prefix, suffix, generated=generated, n_draft=1) == expected


@pytest.mark.parametrize(
    ("dynamic", "static", "expected"),
    [
        ({"abcd": "X"}, {}, NOTHING),
        ({"abcd": "XXY"}, {}, ("X", "dynamic", 4)),
        ({"abcd": "XXYY"}, {}, NOTHING),
        ({"bcd": "XX"}, {}, ("X", "dynamic", 3)),
        ({"cd": "XX"}, {}, NOTHING),
        ({"cd": "XXX"}, {}, ("X", "dynamic", 2)),
        ({"d": "XXX"}, {}, NOTHING),
        ({"d": "XXXX"}, {}, ("X", "dynamic", 1)),
        ({"d": "XXXXYY"}, {}, NOTHING),
        ({"d": "XXXY"}, {}, ("X", "dynamic", 1)),
        ({"abcd": "X", "cd": "YYY"}, {}, ("Y", "dynamic", 2)),
        ({}, {"cd": "X"}, NOTHING),
        ({}, {"cd": "YX"}, ("X", "static", 2)),
        ({}, {"cd": "XYZ"}, NOTHING),
    ],
)
def test_statistics_behind_a_text_that_stands_nowhere_else(dynamic, static, expected):
    assert drafted("abcd", dynamic=dynamic, static=static, n_draft=1) == expected


def test_dynamic_statistics_of_longer_ngrams():
    dynamic = {"zabcd": "XX", "abcd": "YYYY"}
    assert drafted("zabcd", dynamic=dynamic, n_draft=1) == ("X", "dynamic", 5)


def test_context_comes_first_then_dynamic_then_static():
    dynamic, static = {"abcd": "YY"}, {"cd": "ZZ"}
    both = {"dynamic": dynamic, "static": static}
    assert drafted("abcdX!abcd", n_draft=1, **both) == ("X", "context", 4)
    assert drafted("abcd", n_draft=1, **both) == ("Y", "dynamic", 4)
    assert drafted("abcd", n_draft=1, static=static) == ("Z", "static", 2)


def test_static_decides_between_what_the_context_has_seen():
    text = "abcdX,abcdY;abcd"
    assert drafted(text, n_draft=1) == ("X", "context", 4)
    assert drafted(text, static={"cd": "Y"}, n_draft=1) == ("Y", "context", 4)


def test_static_that_prefers_a_rare_token_leaves_nothing_sure():
    text = "abcdX,abcdX,abcdY;abcd"
    assert drafted(text, n_draft=1) == ("X", "context", 4)
    assert drafted(text, static={"cd": "Y"}, n_draft=1) == NOTHING
    assert drafted(text, static={"cd": "Z"}, n_draft=1) == ("X", "context", 4)


def test_each_token_is_drafted_behind_the_ones_before():
    assert drafted("abcdXYZ!abcd") == ("XYZ!abcd", "context", 4)
    assert drafted("abcdXYZ!abcd", n_max=2) == ("XY", "context", 4)
    assert drafted("abcdXYZ!abcd", n_draft=3) == ("XYZ", "context", 4)
    assert drafted("abcd", dynamic={"abcd": "XX", "bcdX": "YY"}) == ("XY", "dynamic", 4)


def test_ngrams_that_span_two_calls_are_counted():
    drafter = NgramCacheDrafter(n_draft=8)
    drafter.begin(where("ab"))
    generated: list[int] = []
    for token in ids("cdX!abcd").tolist():
        drafter.draft(generated, 8)
        generated.append(token)
    assert drafter.draft(generated, 1) == Draft((ord("X"),), "context", 4, (0.5,))


def test_several_sources_count_as_their_sum():
    drafter = NgramCacheDrafter(n_draft=1)
    sources = (FixedCounts({"abcd": "XY"}), FixedCounts({"abcd": "XX"}), FixedCounts({}))
    drafter.begin(where("abcd", statistics=Statistics(dynamic=sources)))
    assert drafter.draft([], 8) == Draft((ord("X"),), "dynamic", 4, (0.6,))


def test_the_setting_bounds_the_draft():
    drafter = create(Settings(drafters="ngram-cache", draft_max=5))
    drafter.begin(where("abcd" * 4))
    draft = drafter.draft([], 100)
    assert len(draft.tokens) == len(draft.probabilities) == 5


def test_the_thresholds_are_llama_cpps():
    assert [(t.n_seen, t.percent) for t in LAX] == [(2, 66), (2, 50), (1, 50), (1, 50)]
    assert [(t.n_seen, t.percent) for t in STRICT] == [(4, 75), (3, 66), (2, 66), (2, 66)]


def test_large_counts_do_not_overflow():
    most = 2**31 - 1
    followers = {5: most, 6: most}
    static = {6: most}
    alone = best_token(followers, {}, Threshold(1, 50))
    confirmed = best_token(followers, static, Threshold(1, 50))
    assert alone is not None
    assert confirmed is not None
    assert (alone.token, confirmed.token) == (5, 6)


Cache = dict[tuple[int, ...], dict[int, int]]


def llama_cpp_step(tail: list[int], context: Cache, dynamic: Cache, static: Cache) -> int:
    """``common_ngram_cache_draft`` for one token, as llama.cpp has it; -1 for none."""
    part_static = static.get(tuple(tail[-2:]), {})
    for cache, thresholds in ((context, LAX), (dynamic, STRICT)):
        for order in (4, 3, 2, 1):
            max_primary = max_static = total = 0
            max_token = -1
            for token, count in sorted(cache.get(tuple(tail[-order:]), {}).items()):
                count_static = 100 * part_static[token] if token in part_static else 1
                if count * count_static > max_primary * max_static:
                    max_token, max_primary, max_static = token, count, count_static
                total += count
            limit = thresholds[order - 1]
            if total >= limit.n_seen and 100 * max_primary >= limit.percent * total and total:
                return max_token
    total = sum(part_static.values())
    best = max(sorted(part_static), key=part_static.__getitem__, default=-1)
    if best < 0 or total < LAX[1].n_seen or 100 * part_static[best] < LAX[1].percent * total:
        return -1
    return best


class DictCounts:
    max_order = 4

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def followers(self, ngram: tuple[int, ...]) -> dict[int, int]:
        return self._cache.get(ngram, {})


texts = st.lists(st.integers(0, 3), max_size=60)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=60), texts, texts, st.booleans())
def test_drafts_are_llama_cpps(text, other, large, reads_buffer):
    context = counted(text, range(1, 5)) if reads_buffer else {}
    dynamic = counted(other, range(1, 5))
    static = counted(large, [2])
    sources: tuple[NgramCounts, ...] = (DictCounts(dynamic),)
    drafter = NgramCacheDrafter(n_draft=8, reads_buffer=reads_buffer)
    drafter.begin(
        DraftContext(
            prompt=(0,),
            prefix=np.array(text, np.int32),
            statistics=Statistics(dynamic=sources, static=(DictCounts(static),)),
        )
    )
    expected: list[int] = []
    while len(expected) < 8:
        token = llama_cpp_step([*text, *expected][-4:], context, dynamic, static)
        if token < 0:
            break
        expected.append(token)
    assert list(drafter.draft([], 100).tokens) == expected


class TestWithoutTheBuffer:
    def drafted(self, prefix: str, generated: str = "", **statistics: Mapping[str, str]) -> str:
        drafter = NgramCacheDrafter(n_draft=8, reads_buffer=False)
        sources = {kind: (FixedCounts(counts),) for kind, counts in statistics.items()}
        drafter.begin(where(prefix, statistics=Statistics(**sources)))
        return "".join(map(chr, drafter.draft([ord(c) for c in generated], 100).tokens))

    def test_the_context_is_left_to_others(self):
        assert self.drafted("abcdX!abcd") == ""

    def test_dynamic_statistics_are_followed_token_by_token(self):
        dynamic = {"ab": "ccc", "bc": "ddd"}
        assert self.drafted("ab", dynamic=dynamic) == "cd"
        assert self.drafted("a", "b", dynamic=dynamic) == "cd"

    def test_static_ones_propose_where_nobody_else_does(self):
        assert self.drafted("ab", static={"ab": "cc"}) == "c"
        assert self.drafted("ab", dynamic={"ab": "ddd"}, static={"ab": "cc"}) == "d"
