"""Which files of a project, and which windows of them, share names with the text at the cursor.

The outline of a file is the set of names in it.  Names are weighted by their inverse document
frequency in the project (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009).
Files are ranked by the sum of the weights of the shared names, windows within the best files by the
weighted Jaccard index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

NameCodes = NDArray[np.uint32]
"""Checksums of names, sorted, each once: the same in every process, and 4 bytes a name."""

_NAME: Final = re.compile(r"[^\W\d]\w{2,}")
_PIECE_CHARS: Final = 65_536
"""Characters searched at a time, in a millisecond: no other thread runs meanwhile."""

_WINDOW_LINES: Final = 24
_LEAST_SIMILARITY: Final = 0.05
"""Weighted Jaccard index below which a window is left out."""


def names_in(text: str) -> list[str]:
    """Return the names in a text, in the order of their first mention.

    Keywords are among them: they have no weight, since most files have them.
    In a text longer than a piece, a name where two pieces meet may count as two.
    """
    names: dict[str, None] = {}
    for start in range(0, len(text), _PIECE_CHARS):
        names.update(dict.fromkeys(_NAME.findall(text, start, start + _PIECE_CHARS)))
    return list(names)


def codes_of(names: Iterable[str]) -> NameCodes:
    """Return the checksums of names."""
    codes = [crc32(name.encode("utf-8", "replace")) for name in names]
    return np.unique(np.array(codes, dtype=np.uint32))


class NameTable:
    """The names of a project's files as they are on disk."""

    def __init__(self, by_path: Mapping[str, NameCodes]) -> None:
        """``by_path`` has paths relative to the project's folder, with slashes."""
        self.files = sorted(by_path)
        files = [by_path[path] for path in self.files]
        codes = np.concatenate([np.empty(0, np.uint32), *files])
        owners = np.repeat(np.arange(len(files)), [file.size for file in files])
        order = np.argsort(codes, kind="stable")
        self._codes, self._owners = codes[order], owners[order]

    def rarity(self, codes: NameCodes) -> NDArray[np.float64]:
        """Return each name's inverse document frequency, shape [len(codes)]."""
        n_with = np.searchsorted(self._codes, codes, "right") - np.searchsorted(self._codes, codes)
        return np.asarray(np.log(1 + (len(self.files) - n_with + 0.5) / (n_with + 0.5)))

    def best_files(self, query: NameCodes, n_best: int) -> list[str]:
        """Return the files that share the rarest names with ``query``, the best first."""
        scores = np.zeros(len(self.files))
        starts = np.searchsorted(self._codes, query)
        ends = np.searchsorted(self._codes, query, "right")
        for start, end, weight in zip(starts, ends, self.rarity(query), strict=True):
            scores[self._owners[start:end]] += weight
        order = np.argsort(-scores, kind="stable")[:n_best]
        return [self.files[file_idx] for file_idx in order if scores[file_idx] > 0]


@dataclass(frozen=True, slots=True)
class SimilarWindow:
    """Lines ``first_line`` to ``end_line`` (exclusive, from 0)."""

    first_line: int
    end_line: int
    similarity: float


def best_window(lines: Sequence[str], query: NameCodes, table: NameTable) -> SimilarWindow | None:
    """Return the window of 24 lines that is most similar to the query; None if none is enough.

    Windows overlap by half.
    """
    best: SimilarWindow | None = None
    for first in range(0, max(1, len(lines) - _WINDOW_LINES // 2), _WINDOW_LINES // 2):
        end = min(first + _WINDOW_LINES, len(lines))
        names = codes_of(names_in("\n".join(lines[first:end])))
        similarity = _weighted_jaccard(names, query, table)
        if similarity >= _LEAST_SIMILARITY and (best is None or similarity > best.similarity):
            best = SimilarWindow(first, end, similarity)
    return best


def _weighted_jaccard(one: NameCodes, other: NameCodes, table: NameTable) -> float:
    both = np.intersect1d(one, other, assume_unique=True)
    if not both.size:
        return 0.0
    return float(table.rarity(both).sum() / table.rarity(np.union1d(one, other)).sum())
