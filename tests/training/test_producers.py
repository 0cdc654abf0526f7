"""Rows that other processes make."""

import itertools
from collections import Counter

import numpy as np
from counted_rows import counted_rows

from training.producers import ProducedRows

LENGTHS = ((1024, 0.5), (4096, 0.5))


def test_rows_are_used_as_often_as_they_may_be():
    produced = ProducedRows(counted_rows, LENGTHS, seed=1, n_processes=1, n_uses=3)
    drawn = list(itertools.islice(produced.rows(1024), 96))
    assert all(row.tokens.shape == row.targets.shape == (1024,) for row in drawn)
    assert {float(row.weights[0]) for row in drawn} == {0.5}
    counts = Counter(int(row.tokens[0]) for row in drawn)
    assert max(counts.values()) <= 3
    assert len(counts) >= len(drawn) / 3


def test_rows_have_the_length_that_was_asked_for():
    produced = ProducedRows(counted_rows, LENGTHS, seed=1, n_processes=1, n_uses=1)
    for n_positions, _ in LENGTHS:
        rows = list(itertools.islice(produced.rows(n_positions), 6))
        assert {row.tokens.shape for row in rows} == {(n_positions,)}
        assert {row.tokens.dtype for row in rows} == {np.dtype(np.uint16)}
