from __future__ import annotations

import random

import pytest

from speclsp.drafting.merge_policy import Sizes, best_run, run_to_settle

M = 1_000_000


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], None),
        ([5], None),
        ([5, 5], (0, 2)),
        ([900, 5, 6], (1, 3)),
        ([900, 5, 5, 5, 5], (1, 5)),  # many at once
        ([900, 800, 5, 100], (2, 4)),
        ([2 * M, 3 * M, 10, 2 * M], (2, 4)),  # a small one must go with a large one
        ([None, None], None),
        ([5, None, 9, 9], (2, 4)),
    ],
)
def test_best_run(sizes: Sizes, expected: tuple[int, int] | None) -> None:
    assert best_run(sizes) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], None),
        ([5], None),
        ([100, 20], None),  # five times as large
        ([100, 30], (0, 2)),
        ([1000, 90, 30], (1, 3)),
        ([9 * M, 50], None),
        ([3 * M, 3 * M, 3 * M], None),
        ([5 * M, 3 * M, 4 * M, 3 * M], (2, 4)),
        ([3 * M, 5 * M, 2 * M, 9 * M, 10], (1, 3)),
        ([3 * M, 10, 3 * M, 1000, 3 * M, 100], (3, 6)),
        ([3 * M, 10, 3 * M, 3 * M, 100], (0, 2)),
        ([None, 100, 30], (1, 3)),
        ([100, None, 30], None),
    ],
)
def test_run_to_settle(sizes: Sizes, expected: tuple[int, int] | None) -> None:
    assert run_to_settle(sizes) == expected


def test_settling_comes_to_an_end_with_few_large_segments() -> None:
    random_numbers = random.Random(1)
    for _ in range(200):
        sizes = [random_numbers.randrange(10 ** random_numbers.randrange(1, 8)) for _ in range(8)]
        n_tokens = sum(sizes)
        while (run := run_to_settle(sizes)) is not None:
            low, high = run
            sizes[low:high] = [sum(sizes[low:high])]
        assert sum(sizes) == n_tokens
        assert sum(16 * size >= n_tokens for size in sizes) <= 3
        assert len(sizes) <= 4


def test_tokens_are_sorted_few_times_while_files_are_replaced() -> None:
    random_numbers = random.Random(1)
    sizes = [3 * M, 3 * M, 4 * M]
    n_new = n_sorted = 0
    while n_new < M:
        n_tokens = random_numbers.randrange(200, 10_000)
        sizes.append(n_tokens)
        n_new += n_tokens
        n_sorted += n_tokens
        while len(sizes) > 8:
            run = best_run(sizes)
            assert run is not None
            low, high = run
            sizes[low:high] = [sum(sizes[low:high])]
            n_sorted += sizes[low]
    assert n_sorted < 7 * n_new
