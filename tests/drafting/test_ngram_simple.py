"""ngram-simple: the nearest place of the last n tokens, and m tokens from there."""

from collections.abc import Sequence

import numpy as np
import pytest
from character_tokens import FREE, drafted, text_of, where
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.ngram_simple import create
from speclsp.settings import Settings


def make(n: int = 3, m: int = 6, min_hits: int = 1):
    return create(Settings(spec_ngram_size_n=n, spec_ngram_size_m=m, spec_ngram_min_hits=min_hits))


@pytest.mark.parametrize(("min_hits", "expected"), [(1, "YYYYYY"), (2, "YYYYYY"), (3, "")])
def test_min_hits_places_are_needed(min_hits, expected):
    context = where("abcXXXXXX_abcYYYYYY_abc")
    assert drafted(make(min_hits=min_hits), context) == expected
    everywhere = where("_abcYYYYYY_abc", "abc.", ["abc."])
    assert drafted(make(min_hits=min_hits), everywhere) == "YYYYYY"


def test_source_and_match_length():
    drafter = make()
    drafter.begin(where("__abc", "", ["..abcXYZ"]))
    draft = drafter.draft([], 2)
    assert (text_of(draft.tokens), draft.source, draft.match_length) == ("XY", "open", 3)
    drafter.begin(where("abc_abc"))
    assert drafter.draft([], 2).source == "buffer"


small = st.lists(st.integers(1, 2), max_size=12)


def naive(
    n: int, m: int, written: list[int], suffix: list[int], buffers: Sequence[list[int]]
) -> list[int]:
    key = written[-n:]
    if len(key) < n:
        return []
    for place in range(len(written) - 1, n - 1, -1):
        if written[place - n : place] == key:
            copied = list(written)
            for idx in range(m):
                copied.append(copied[place + idx])
            return copied[len(written) :]
    for place in range(n, len(suffix)):
        if suffix[place - n : place] == key:
            return suffix[place : place + m]
    for tokens in buffers:
        for place in range(len(tokens) - 1, n - 1, -1):
            if tokens[place - n : place] == key:
                return tokens[place : place + m]
    return []


@settings(max_examples=400)
@given(
    requests=st.lists(
        st.tuples(small, small, st.lists(small, max_size=2), small), min_size=1, max_size=4
    ),
    n=st.integers(1, 4),
    m=st.integers(1, 6),
)
def test_it_equals_a_naive_search(requests, n, m):
    drafter = make(n, m)
    for prefix, suffix, buffers, generated in requests:
        drafter.begin(
            DraftContext(
                prompt=(0,),
                prefix=np.array(prefix, dtype=np.int32),
                suffix=np.array(suffix, dtype=np.int32),
                buffers=tuple(np.array(b, dtype=np.int32) for b in buffers),
                verify_curve=FREE,
            )
        )
        for end in range(len(generated) + 1):
            draft = drafter.draft(generated[:end], 99)
            expected = naive(n, m, prefix + generated[:end], suffix, buffers)
            assert list(draft.tokens) == expected
