import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import counted

from speclsp.ngrams.learned import LearnedCounts, count_accepted


def followers(counts: LearnedCounts, *ngram: int) -> dict[int, int]:
    return dict(counts.followers(ngram))


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 30))
def test_only_what_was_accepted_counts_as_a_follower(text, n_known):
    whole, known = counted(text, range(1, 5)), counted(text[:n_known], range(1, 5))
    expected = {
        (ngram, token): count - known.get(ngram, {}).get(token, 0)
        for ngram, after in whole.items()
        for token, count in after.items()
    }
    found = count_accepted(np.array(text, np.int32), n_known)
    assert found == {pair: count for pair, count in expected.items() if count}


def test_counts_grow():
    counts = LearnedCounts(100)
    counts.add([(((1, 2), 3), 1), (((1, 2), 4), 2)])
    counts.add([(((1, 2), 3), 5)])
    assert followers(counts, 1, 2) == {3: 6, 4: 2}
    assert followers(counts, 2) == {}


def test_too_many_are_halved_until_they_fit():
    counts = LearnedCounts(3)
    counts.add([(((1,), 1), 9), (((1,), 2), 5), (((2,), 1), 2), (((3,), 1), 1)])
    assert followers(counts, 1) == {1: 4, 2: 2}
    assert followers(counts, 2) == {1: 1}
    assert followers(counts, 3) == {}
