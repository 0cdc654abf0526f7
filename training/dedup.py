"""Files that are the same, or nearly the same, as one that was taken before."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable

_N_LINES = 5
"""Lines of one shingle."""

_MIN_LINE_CHARS = 4
"""Shorter lines (a bracket, ``else:``) say nothing about where a text comes from."""


def shingles(text: str) -> frozenset[int]:
    """Return hashes of all runs of five lines that say something, white space left aside."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if len(line) >= _MIN_LINE_CHARS]
    hashes = [zlib.crc32(line.encode("utf-8", "replace")) for line in lines]
    n_runs = max(1, len(hashes) - _N_LINES + 1)
    return frozenset(hash(tuple(hashes[i : i + _N_LINES])) for i in range(n_runs))


def fingerprint(text: str) -> bytes:
    """Return a hash of the text without its white space."""
    return hashlib.sha256("".join(text.split()).encode("utf-8", "replace")).digest()


class SeenTexts:
    """Texts that were taken, to compare others with."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._fingerprints: set[bytes] = set()
        self._shingles: set[int] = set()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Take a text into account from now on."""
        self._fingerprints.add(fingerprint(text))
        self._shingles |= shingles(text)

    def share_seen(self, text: str) -> float:
        """Return which share of the text's runs of five lines was seen before: 0 to 1."""
        if fingerprint(text) in self._fingerprints:
            return 1.0
        own = shingles(text)
        return sum(shingle in self._shingles for shingle in own) / len(own)
