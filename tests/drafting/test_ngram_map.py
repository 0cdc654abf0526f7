"""ngram-map-k and ngram-map-k4v: which value of a key is drafted, and how far."""

import numpy as np
import pytest
from character_tokens import FREE, drafted, text_of, where
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.lookup_text import Continuation
from speclsp.drafting.ngram_map import (
    MAX_KEYS,
    MAX_PLACES,
    NgramDrafter,
    create_k,
    create_k4v,
    dominant,
)
from speclsp.drafting.registry import load_drafter
from speclsp.settings import Settings


def k(n: int = 3, m: int = 6, min_hits: int = 1) -> NgramDrafter:
    return create_k(
        Settings(spec_ngram_size_n=n, spec_ngram_size_m=m, spec_ngram_min_hits=min_hits)
    )


def k4v(n: int = 3, m: int = 3, min_hits: int = 1) -> NgramDrafter:
    return create_k4v(
        Settings(spec_ngram_size_n=n, spec_ngram_size_m=m, spec_ngram_min_hits=min_hits)
    )


def test_k_drafts_what_followed_the_last_place():
    assert drafted(k(), where("abcXXXXXX_abcYYYYYY_abc")) == "YYYYYY"
    assert drafted(k(), where("__abc", "..abcXYZ", ["abcUVW"])) == "XYZ"
    assert drafted(k(), where("__abc", "", ["abcUVW"])) == "UVW"
    assert drafted(k(), where("abX__ab")) == ""


@pytest.mark.parametrize(("min_hits", "expected"), [(1, "YYYYYY"), (2, "YYYYYY"), (3, "")])
def test_min_hits_of_k(min_hits, expected):
    assert drafted(k(min_hits=min_hits), where("abcXXXXXX_abcYYYYYY_abc")) == expected


def test_accepted_tokens_limit_the_key_s_next_draft_of_k_until_its_drafts_are_right_again():
    drafter = k(m=16)
    text, other = where("abcABCDEFGHIJKLMNOP__abc"), where("xyzABCDEFGHIJKLMNOP__xyz")
    lengths = [len(drafted(drafter, text))]
    for n_accepted, n_verified in ((5, 16), (5, 5), (10, 10), (0, 16), (1, 1), (2, 2), (4, 4)):
        drafter.accept(n_accepted, n_verified)
        assert len(drafted(drafter, other)) == 16  # another key
        lengths.append(len(drafted(drafter, text)))
    assert lengths == [16, 5, 10, 16, 1, 2, 4, 8]
    # A draft of which less was verified, and that was right, says nothing about the rest.
    drafter.accept(3, 3)
    assert len(drafted(drafter, text)) == 8
    drafter.accept(8, 8)
    assert len(drafted(drafter, text)) == 16


def test_what_is_remembered_of_keys_is_bounded():
    drafter = k(n=1, m=4)
    for key in range(MAX_KEYS + 2):
        prefix = np.array([key, 7, 8, 9, 7, key], dtype=np.int32)
        drafter.begin(DraftContext(prompt=(0,), prefix=prefix, verify_curve=FREE))
        drafter.draft([], 9)
        drafter.accept(0, 4)
    assert len(drafter._limits) == MAX_KEYS


K4V = {
    "one value": (where("abcXXX_abc"), "XXX"),
    "twice as often as the other": (where("abcXXX_abcXXX_abcYYY_abc"), "XXX"),
    "not twice as often": (where("abcXXX_abcYYY_abc"), ""),
    "the four most frequent of five values count": (
        where("abcR..abcS..abcT..abcU.." + 6 * "abcX.." + "abc"),
        "X..",
    ),
    "none of the four dominates": (where("abcR..abcS..abcT..abcU.." + 5 * "abcX.." + "abc"), ""),
    "the chosen value, not the latest": (where("abcXYZ_abcXYZ_abcUVW_abc"), "XYZ"),
    "values are told apart by m tokens": (where("abcXYZ1abcXYZ2abc"), "XYZ"),
    "values of other buffers count": (where("abcXXX_abc", "abcYYY", ["abcXXX"]), "XXX"),
    "a short value agrees with a longer one": (where("abcXYZ_abcXYZ_abc", "abcX"), "XYZ"),
    "a short value is lengthened": (where("__abc", "abcX", ["abcXYZ"]), "XYZ"),
    "a value that ends at the cursor is compared as it is": (where("_aaaa", "aaaab_"), "ab_"),
    "a loop": (where("xyabababababab"), "aba"),
    "no place": (where("abX__ab"), ""),
    "nothing behind it": (where("__abc", "__abc"), ""),
}


@pytest.mark.parametrize("case", K4V)
def test_k4v_drafts_a_value_that_dominates(case):
    context, expected = K4V[case]
    assert drafted(k4v(), context) == expected


@pytest.mark.parametrize(("min_hits", "expected"), [(1, "XXX"), (3, "XXX"), (4, "")])
def test_min_hits_of_k4v(min_hits, expected):
    assert drafted(k4v(min_hits=min_hits), where(3 * "abcXXX_" + "abc")) == expected


def test_many_hits_may_be_wanted():
    hits = MAX_PLACES + 5
    for n_there, expected in ((hits - 1, ""), (hits, "XXX")):
        assert drafted(k4v(min_hits=hits), where(n_there * "abcXXX_" + "abc")) == expected


def test_k4v_looks_at_the_nearest_places():
    old, new = MAX_PLACES * "abcXXX_", MAX_PLACES * "abcYYY_"
    assert drafted(k4v(), where(old + new + "abc")) == "YYY"


@pytest.mark.parametrize("name", ["ngram-map-k", "ngram-map-k4v", "ngram-simple"])
def test_upstream_s_names_and_defaults(name):
    drafter = load_drafter(name, Settings())
    text = np.arange(60, dtype=np.int32)
    for n_shared, n_drafted in ((11, 0), (12, 48)):
        prefix = np.concatenate([text, text[:n_shared]])
        drafter.begin(DraftContext(prompt=(0,), prefix=prefix, verify_curve=FREE))
        assert len(drafter.draft([], 99).tokens) == n_drafted
    assert drafter.name == name


def test_the_loop_s_limit_is_kept():
    for drafter in (k(), k4v()):
        context = where("abcXYZUVW__abc")
        assert drafted(drafter, context, n_max=2) == "XY"
        assert drafted(drafter, context, n_max=0) == ""


small = st.lists(st.integers(1, 2), max_size=16)


@given(prefix=small, generated=small, n=st.integers(1, 3), m=st.integers(1, 4))
def test_k_equals_a_naive_search(prefix, generated, n, m):
    drafter = k(n, m)
    drafter.begin(
        DraftContext(prompt=(0,), prefix=np.array(prefix, dtype=np.int32), verify_curve=FREE)
    )
    for end in range(len(generated) + 1):
        text = prefix + generated[:end]
        key = tuple(text[-n:])
        place = next(
            (p for p in range(len(text) - 1, n - 1, -1) if tuple(text[p - n : p]) == key), None
        )
        expected: list[int] = []
        if place is not None and len(key) == n:
            expected = (text[place:] * m)[:m]
        assert list(drafter.draft(generated[:end], 99).tokens) == expected


values = st.lists(
    st.lists(st.integers(1, 2), min_size=1, max_size=2).map(tuple), min_size=1, max_size=12
)


@given(found=values)
def test_dominance_equals_a_naive_count(found):
    found = [(*value, 0, 0)[:2] for value in found]  # all of one length
    chosen = dominant([Continuation(value, "buffer") for value in found])
    best = max(found, key=found.count)
    others = sorted((found.count(value) for value in set(found) - {best}), reverse=True)[:3]
    dominates = found.count(best) >= 2 * sum(others)
    assert (chosen.tokens if chosen else None) == (best if dominates else None)


def test_drafts_name_their_source():
    drafter = k4v()
    drafter.begin(where("__abc", "", ["abcXYZ"]))
    draft = drafter.draft([], 9)
    assert (text_of(draft.tokens), draft.source, draft.match_length) == ("XYZ", "open", 3)
