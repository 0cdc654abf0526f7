"""Rows of samples made in advance, for machines that train faster than samples can be made.

A shard is a compressed NumPy archive of ``tokens`` and ``targets`` (rows, positions) as uint16
and ``weights`` in quarters as uint8.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from training.layouts import Sample
from training.presets import Preset
from training.samples import SampleStream

_WEIGHT_STEPS = 4

StreamMaker = Callable[[int], SampleStream]
"""Makes the stream of one process; it must be a function that can be pickled."""


def write_shard(path: Path, rows: Sequence[Sample]) -> None:
    """Write rows of the same length."""
    np.savez_compressed(
        path,
        tokens=np.array([row.tokens for row in rows], dtype=np.uint16),
        targets=np.array([row.targets for row in rows], dtype=np.uint16),
        weights=(_WEIGHT_STEPS * np.array([row.weights for row in rows])).astype(np.uint8),
    )


def read_shard(path: Path) -> Iterator[Sample]:
    """Yield a shard's rows."""
    with np.load(path) as shard:
        tokens, targets, weights = shard["tokens"], shard["targets"], shard["weights"]
    for row_idx in range(len(tokens)):
        yield Sample(
            tokens[row_idx].tolist(),
            targets[row_idx].tolist(),
            (weights[row_idx] / _WEIGHT_STEPS).tolist(),
        )


class ShardedRows:
    """Rows from a folder of shards, again and again in another order."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._rng = random.Random(seed)

    def rows(self, n_tokens: int) -> Iterator[Sample]:
        """Yield rows of ``n_tokens``.  Raises FileNotFoundError where there are none."""
        paths = sorted(self._folder.glob(f"rows-{n_tokens}-*.npz"))
        if not paths:
            raise FileNotFoundError(f"{self._folder} has no rows of {n_tokens} tokens")
        while True:
            self._rng.shuffle(paths)
            for path in paths:
                rows = list(read_shard(path))
                self._rng.shuffle(rows)
                yield from rows


def shard_plan(preset: Preset, n_tokens: int, n_shard_tokens: int) -> list[tuple[int, int, int]]:
    """Return (positions, shard, rows) of all shards that hold ``n_tokens`` in the preset's mix."""
    total = sum(share for _, share in preset.lengths)
    plan: list[tuple[int, int, int]] = []
    for n_positions, share in preset.lengths:
        n_shards = max(1, round(n_tokens * share / total / n_shard_tokens))
        plan += [(n_positions, i, n_shard_tokens // n_positions) for i in range(n_shards)]
    return plan


def write_shards(
    stream_of: StreamMaker, folder: Path, plan: Sequence[tuple[int, int, int]], n_processes: int
) -> None:
    """Write the planned shards in several processes; shards that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [(stream_of, folder, list(plan[i::n_processes]), i) for i in range(n_processes)]
    with get_context("spawn").Pool(n_processes) as pool:
        pool.starmap(_write_some, chunks)


def _write_some(
    stream_of: StreamMaker, folder: Path, plan: list[tuple[int, int, int]], seed: int
) -> None:
    stream: SampleStream = stream_of(seed)
    for n_positions, shard_idx, n_rows in plan:
        path = folder / f"rows-{n_positions}-{shard_idx:04}.npz"
        if not path.is_file():
            write_shard(path, list(itertools.islice(stream.rows(n_positions), n_rows)))
