"""Which files, and which windows of them, share names with the text at the cursor.

Files are ranked by BM25 with each name counted once (Robertson and Zaragoza, "The Probabilistic
Relevance Framework", 2009), windows within the best files by the Jaccard index over names, each
weighted by how rare it is in the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

NameCodes = NDArray[np.uint32]
"""Checksums of names, sorted, each once: the same in every process, and 4 bytes a name."""

_NAME: Final = re.compile(r"[^\W\d]\w{2,}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS: Final = _words(
    """
    abstract alignas and any args array assert async auto await bool boolean break byte case catch
    char class const continue def default del delete dict double elif else elseif end enum error
    except export extends false final finally float fmt for foreach from func function global goto
    if impl implements import include init inline instanceof int int32 int64 interface is lambda
    len let list local long loop map match mod module mut namespace new nil none nonlocal not null
    nullptr object operator package pass print private protected pub public raise range ref repeat
    require return self set short signed sizeof static str string struct super switch template then
    this throw throws trait true try tuple type typedef typename typeof uint undefined union
    unsafe unsigned until use using val value var virtual void volatile where while with yield
    None True False String self cls the that are with from
    """
)

_PIECE_CHARS: Final = 65_536
"""Text that is searched at a time, in a millisecond: no other thread runs meanwhile."""

WINDOW_LINES: Final = 20
_MORE_LINES: Final = 6
LEAST_SIMILARITY: Final = 0.1
"""Weighted Jaccard index below which a window is left out."""
_B: Final = 0.75
"""BM25's usual share of length normalisation."""


def names_in(text: str) -> list[str]:
    """Return the names in a text in the order of their first mention, keywords left out.

    In a text that is longer than a piece, a name where two pieces meet may count as two.
    """
    names: dict[str, None] = {}
    for start in range(0, len(text), _PIECE_CHARS):
        names.update(dict.fromkeys(_NAME.findall(text, start, start + _PIECE_CHARS)))
    return [name for name in names if name not in _KEYWORDS]


def codes_of(names: Iterable[str]) -> NameCodes:
    """Return the checksums of names."""
    codes = [crc32(name.encode("utf-8", "replace")) for name in names]
    return np.unique(np.array(codes, dtype=np.uint32))


class NameTable:
    """The names of all files of a project.  A file's number is its index in the sequence."""

    def __init__(self, files: Sequence[NameCodes]) -> None:
        self._n_names = np.array([codes.size for codes in files], dtype=np.float64)
        codes = np.concatenate([np.empty(0, np.uint32), *files])
        owners = np.repeat(np.arange(len(files)), self._n_names.astype(int))
        order = np.argsort(codes, kind="stable")
        self._codes, self._owners = codes[order], owners[order]

    def rarity(self, codes: NameCodes) -> NDArray[np.float64]:
        """Return each name's inverse document frequency, shape [len(codes)]."""
        n_files = len(self._n_names)
        n_with = np.searchsorted(self._codes, codes, "right") - np.searchsorted(self._codes, codes)
        return np.asarray(np.log(1 + (n_files - n_with + 0.5) / (n_with + 0.5)))

    def best_files(self, query: NameCodes, n_best: int) -> list[tuple[int, float]]:
        """Return the files that share the rarest names with ``query``, with their scores."""
        if not len(self._n_names) or not query.size:
            return []
        scores = np.zeros(len(self._n_names))
        starts = np.searchsorted(self._codes, query)
        ends = np.searchsorted(self._codes, query, "right")
        for start, end, weight in zip(starts, ends, self.rarity(query), strict=True):
            scores[self._owners[start:end]] += weight
        mean = max(1.0, float(self._n_names.mean()))
        scores /= 1 - _B + _B * self._n_names / mean
        order = np.lexsort((np.arange(len(scores)), -scores))[:n_best]
        return [
            (int(file_idx), float(scores[file_idx])) for file_idx in order if scores[file_idx] > 0
        ]


@dataclass(frozen=True, slots=True)
class SimilarWindow:
    """Lines ``first_line`` to ``end_line`` (exclusive), from 0."""

    first_line: int
    end_line: int
    similarity: float


def best_window(lines: Sequence[str], query: NameCodes, table: NameTable) -> SimilarWindow | None:
    """Return the window of a text that is most similar to the query; None if none is enough."""
    best: SimilarWindow | None = None
    for first, end in windows(lines):
        similarity = _weighted_jaccard(
            codes_of(names_in("\n".join(lines[first:end]))), query, table
        )
        if similarity >= LEAST_SIMILARITY and (best is None or similarity > best.similarity):
            best = SimilarWindow(first, end, similarity)
    return best


def windows(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return windows that overlap by half and begin behind a blank line where one is near."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(lines):
        first = start
        for line_idx in range(start, min(start + WINDOW_LINES // 2, len(lines))):
            if line_idx and not lines[line_idx - 1].strip() and lines[line_idx].strip():
                first = line_idx
                break
        end = min(first + WINDOW_LINES, len(lines))
        last = min(end + _MORE_LINES, len(lines))
        while end < last and lines[end - 1].strip() and lines[end].strip():
            end += 1  # to the end of what is begun
        while end > first and not lines[end - 1].strip():
            end -= 1
        if end > first and (not found or found[-1][0] != first):
            found.append((first, end))
        start += WINDOW_LINES // 2
    return found


def _weighted_jaccard(one: NameCodes, other: NameCodes, table: NameTable) -> float:
    both = np.intersect1d(one, other, assume_unique=True)
    if not both.size:
        return 0.0
    n_both = float(table.rarity(both).sum())
    return n_both / (float(table.rarity(np.union1d(one, other)).sum()) or 1.0)
