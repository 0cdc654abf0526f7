"""Where n-grams stand while a sequence's end changes."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.ngram_stack import (
    FACTOR,
    NgramStack,
    hash_weights,
    n_shared_at_start,
    ngram_hashes,
)

few = st.lists(st.integers(0, 2), max_size=14)


def tokens_of(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def places(stack: NgramStack, ngram: list[int]) -> list[int]:
    weights = hash_weights(len(ngram))
    key = int(ngram_hashes(tokens_of(ngram), weights)[0])
    return list(stack.places(key, array("i", ngram)))


@pytest.mark.parametrize("n", [1, 2, 3, 24])
def test_the_hash_is_the_polynomial(n: int):
    values = [token * 37 % 101 for token in range(n + 5)]
    expected = []
    for start in range(6):
        hashed = 0
        for token in values[start : start + n]:
            hashed = (hashed * FACTOR + token) % 2**64
        expected.append(hashed)
    assert ngram_hashes(tokens_of(values), hash_weights(n)).tolist() == expected
    assert ngram_hashes(tokens_of(values[: n - 1]), hash_weights(n)).tolist() == []


@given(left=few, right=few)
def test_what_two_sequences_share(left: list[int], right: list[int]):
    n_shared = n_shared_at_start(tokens_of(left), tokens_of(right))
    assert left[:n_shared] == right[:n_shared]
    assert left[n_shared : n_shared + 1] != right[n_shared : n_shared + 1] or n_shared == min(
        len(left), len(right)
    )


@given(versions=st.lists(few, min_size=1, max_size=6), n=st.integers(1, 3))
def test_after_any_changes_the_places_are_those_of_the_last_version(
    versions: list[list[int]], n: int
):
    stack = NgramStack(hash_weights(n))
    for version in versions:
        stack.set(tokens_of(version))
        assert list(stack.tokens) == version
        for start in range(len(version) - n + 1):
            ngram = version[start : start + n]
            naive = [
                place
                for place in range(len(version), n - 1, -1)
                if version[place - n : place] == ngram
            ]
            assert places(stack, ngram) == naive
    stack.set(tokens_of([]))
    assert stack._last == {}
    assert len(stack._before) == 0


def test_only_what_changed_is_indexed_again(monkeypatch: pytest.MonkeyPatch):
    stack = NgramStack(hash_weights(3))
    text = np.arange(1000, dtype=np.int32)
    stack.set(text)
    n_hashed = []
    hashes = stack._hashes_from

    def counting(first_place: int) -> list[int]:
        found = hashes(first_place)
        n_hashed.append(len(found))
        return found

    monkeypatch.setattr(stack, "_hashes_from", counting)
    stack.set(np.append(text[:990], [7, 7]).astype(np.int32))
    assert n_hashed == [10, 2]
    stack.extend(tokens_of([1]))
    assert n_hashed[2:] == [1]


def test_equal_hashes_of_different_ngrams_are_told_apart():
    stack = NgramStack(np.zeros(2, dtype=np.uint64))  # every hash is 0
    stack.set(tokens_of([1, 2, 3, 1, 2]))
    assert list(stack.places(0, array("i", [1, 2]))) == [5, 2]
    assert list(stack.places(0, array("i", [2, 3]))) == [3]
    assert list(stack.places(0, array("i", [3, 3]))) == []
