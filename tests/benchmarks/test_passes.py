"""``python -m benchmarks passes``: which passes are timed, never how long they take."""

from collections import Counter
from collections.abc import Sequence

import pytest
from scripted_target import ScriptedTarget, hashing

from benchmarks import passes
from benchmarks.passes import pass_times
from speclsp.decoding.target import Logits
from speclsp.drafting.cost import SHAPES
from speclsp.settings import Settings


class CountingTarget(ScriptedTarget):
    """Counts the shapes of its passes."""

    def __init__(self) -> None:
        super().__init__(hashing(1024), 1024)
        self.shapes: Counter[tuple[str, int, int]] = Counter()

    def decode(self, tokens: Sequence[int], n_outputs: int) -> Logits:
        self.shapes["chain", len(tokens), n_outputs] += 1
        return super().decode(tokens, n_outputs)

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        self.shapes["tree", len(pending) + len(tokens), len(set(parents))] += 1
        return super().decode_tree(pending, tokens, parents)


N_MORE = 2
"""Passes of each shape beside the timed ones: one that says how long it takes, one to warm up."""


def test_every_shape_is_timed_as_often_behind_the_same_tokens():
    target = CountingTarget()
    found = pass_times(target, 5)
    chains = [one.n_tokens for one in found if one.shape == "chain"]
    trees = [one.n_tokens for one in found if one.shape == "tree"]
    assert chains == list(SHAPES)
    assert trees == [size for size in SHAPES if size > 4]
    n_each = {
        count
        for (shape, n_tokens, _), count in target.shapes.items()
        if shape == "tree" or 1 < n_tokens <= 64
    }
    assert n_each == {5 + N_MORE, 2 * (5 + N_MORE)}
    # One token alone is timed, and three times behind each larger chain.
    assert target.shapes["chain", 1, 1] == (5 + N_MORE) * (1 + 3 * (len(SHAPES) - 1))
    assert list(target.cached) == []


@pytest.mark.parametrize(("ms", "n_timed"), [(1.0, 30), (40.0, 29), (1000.0, 3)])
def test_slow_passes_are_timed_less_often(ms, n_timed):
    target = CountingTarget()
    n_done: list[tuple[int, int]] = []

    def clock():
        return ms / 1e3 * sum(target.shapes.values())

    found = pass_times(target, 30, lambda *done: n_done.append(done), clock)
    assert {one.n_timed for one in found} == {n_timed}
    assert [one.p50 for one in found] == pytest.approx([ms] * len(found))
    assert n_done == [(n, n_done[0][1]) for n in range(n_done[0][1])]


def test_the_table_has_a_row_for_each_shape(model_folder):
    model = str(model_folder / "embedded-target-f16.gguf")
    (table,) = passes.run(Settings(model=model, threads=1), 2, [8, 64]).parts
    assert [row[0] for row in table.rows] == [str(size) for size in SHAPES]
    assert table.rows[0][3] == "1.00"
    # Padded to eight tokens, four and the single ones behind them are one graph; 16 are another.
    behind = {row[0]: row[-1] for row in table.rows}
    assert behind["4"] == "100 %, 100 %, 100 %"
    assert behind["16"] == "0 %, 100 %, 100 %"
