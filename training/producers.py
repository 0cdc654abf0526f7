"""Rows of samples from several processes, for machines that train faster than one makes them."""

from __future__ import annotations

import itertools
import queue
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from training.samples import SampleStream

StreamMaker = Callable[[int], SampleStream]
"""Makes the stream of a seed; it must be a function that can be pickled."""

_N_BLOCK_TOKENS: Final = 16_384
_N_WAITING: Final = 64
"""Blocks of one length that may wait: more would only take memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a :class:`~training.layouts.Sample` has, in arrays (positions)."""

    tokens: NDArray[np.uint16]
    targets: NDArray[np.uint16]
    weights: NDArray[np.float32]


class ProducedRows:
    """Rows that other processes make, each used up to ``n_uses`` times, not twice in a row."""

    def __init__(
        self,
        stream_of: StreamMaker,
        lengths: Sequence[tuple[int, float]],
        *,
        seed: int,
        n_processes: int,
        n_uses: int,
    ) -> None:
        """``lengths`` has positions of a row, and how often such rows are asked for."""
        context = get_context("spawn")
        self._n_uses = n_uses
        self._rng = random.Random(seed)
        self._queues: dict[int, Queue[list[Row]]] = {
            n_positions: context.Queue(_N_WAITING) for n_positions, _ in lengths
        }
        self._kept: dict[int, list[tuple[list[Row], int]]] = {one: [] for one in self._queues}
        for idx in range(n_processes):
            arguments = (stream_of, lengths, seed * n_processes + idx, self._queues)
            context.Process(target=_produce, args=arguments, daemon=True).start()

    def rows(self, n_positions: int) -> Iterator[Row]:
        """Yield rows of ``n_positions`` without end; wait where the processes lag behind."""
        waiting, kept = self._queues[n_positions], self._kept[n_positions]
        while True:
            while True:
                try:
                    kept.append((waiting.get(block=not kept), self._n_uses))
                except queue.Empty:
                    break
            block, n_uses = kept.pop(self._rng.randrange(len(kept)))
            yield from block
            if n_uses > 1:
                kept.append((block, n_uses - 1))


def _produce(
    stream_of: StreamMaker,
    lengths: Sequence[tuple[int, float]],
    seed: int,
    queues: dict[int, Any],
) -> None:
    stream, rng = stream_of(seed), random.Random(seed)
    sizes, shares = zip(*lengths, strict=True)
    while True:
        (n_positions,) = rng.choices(sizes, weights=shares)
        n_rows = max(1, _N_BLOCK_TOKENS // n_positions)
        made = itertools.islice(stream.rows(n_positions), n_rows)
        queues[n_positions].put(
            [
                Row(
                    np.array(row.tokens, dtype=np.uint16),
                    np.array(row.targets, dtype=np.uint16),
                    np.array(row.weights, dtype=np.float32),
                )
                for row in made
            ]
        )
