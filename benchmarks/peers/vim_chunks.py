"""The ring of chunks of other places that llama.vim sends with a request."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.vim_buffer import N_PREFIX_LINES, N_SUFFIX_LINES, VimBuffer

N_CHUNKS: Final = 16
CHUNK_LINES: Final = 64
SCOPE_LINES: Final = 1024
"""How far above the cursor a chunk may begin that is picked after a request."""
MOVED_LINES: Final = 32
"""How far the cursor must have gone for chunks around it to be picked again."""

_N_QUEUED: Final = 16
_LEAST_LINES: Final = 3
_SAME: Final = 0.9
_DISTURBS: Final = 0.5
_HALF: Final = CHUNK_LINES // 2
_WORD: Final = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines of a file."""

    file: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines with their ends."""
        return "\n".join(self.lines) + "\n"


class ChunkRing:
    """Chunks wait in a queue, and get into the ring one by one; ``n_evicted`` were too alike."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._queued: list[Chunk] = []
        self._picked_row: int | None = None
        self.chunks: list[Chunk] = []
        self.n_evicted = 0

    @property
    def n_queued(self) -> int:
        """How many chunks wait."""
        return len(self._queued)

    def pick_around(self, buffer: VimBuffer) -> None:
        """Pick a chunk where the cursor is: on entering, leaving and writing a file."""
        self.pick(buffer.file, _around(buffer), evicts=True)

    def pick_beyond(self, buffer: VimBuffer) -> None:
        """Pick chunks from before and behind what a request shows, if the cursor went far."""
        row, n_rows = buffer.row, len(buffer.lines)
        if self._picked_row is not None and abs(row - self._picked_row) <= MOVED_LINES:
            return
        before = buffer.rows(row - SCOPE_LINES, max(1, row + 1 - N_PREFIX_LINES))
        self.pick(buffer.file, before, evicts=False)
        first = min(n_rows - 1, row + N_SUFFIX_LINES)
        after = buffer.rows(first, row + 1 + N_SUFFIX_LINES + CHUNK_LINES)
        self.pick(buffer.file, after, evicts=False)
        self._picked_row = row

    def pick(self, file: str, lines: Sequence[str], *, evicts: bool) -> None:
        """Queue a chunk of the lines, drawn evenly where they are many.

        A chunk that is very similar to others takes their places, or with ``evicts`` false is not
        taken.
        """
        if len(lines) < _LEAST_LINES:
            return
        whole = len(lines) + 1 < CHUNK_LINES
        chunk = Chunk(file, tuple(lines if whole else self._drawn(lines)))
        kept = [*self._queued, *self.chunks]
        if any(other.lines == chunk.lines for other in kept):
            return
        alike = [other for other in kept if similarity(other.lines, chunk.lines) > _SAME]
        if alike and not evicts:
            return
        self._evict(alike)
        if len(self._queued) == _N_QUEUED:
            self._queued.pop(0)
        self._queued.append(chunk)

    def evict_like(self, buffer: VimBuffer) -> None:
        """Remove chunks that are similar to the text at the cursor: they would be repeated."""
        here = self._drawn(_around(buffer))
        self._evict([other for other in self.chunks if similarity(other.lines, here) > _DISTURBS])

    def advance(self) -> bool:
        """Move the oldest queued chunk into the ring; whether there was one."""
        if not self._queued:
            return False
        if len(self.chunks) == N_CHUNKS:
            self.chunks.pop(0)
        self.chunks.append(self._queued.pop(0))
        return True

    def _drawn(self, lines: Sequence[str]) -> Sequence[str]:
        """Half a chunk's lines and one."""
        first = self._random.randint(0, max(0, len(lines) - _HALF))
        return lines[first : first + _HALF + 1]

    def _evict(self, chunks: list[Chunk]) -> None:
        self._queued = [chunk for chunk in self._queued if chunk not in chunks]
        self.chunks = [chunk for chunk in self.chunks if chunk not in chunks]
        self.n_evicted += len(chunks)


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how many words two texts share: from 0 to 1, repeated words counted in ``other``."""
    words, others = _WORD.findall("\n".join(one)), _WORD.findall("\n".join(other))
    if not words and not others:
        return 1.0
    known = set(words)
    return 2.0 * sum(word in known for word in others) / (len(words) + len(others))


def _around(buffer: VimBuffer) -> list[str]:
    return buffer.rows(buffer.row - _HALF, buffer.row + _HALF + 1)
