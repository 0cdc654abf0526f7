"""What is known of the tokens that follow n-grams, from files and from what was accepted before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

_NONE: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
_NONE.setflags(write=False)


class Followers(NamedTuple):
    """Tokens that followed an n-gram, each of them once, and how often each did; shapes [n]."""

    tokens: NDArray[np.int32]
    counts: NDArray[np.integer]


NO_FOLLOWERS = Followers(_NONE, _NONE)


class NgramCounts(Protocol):
    """Counts of what followed n-grams.  Look-ups are safe from any thread."""

    @property
    def max_order(self) -> int:
        """Tokens of the longest n-grams."""

    def followers(self, ngram: tuple[int, ...]) -> Followers:
        """Return what followed an n-gram; nothing where it was never seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The sources of n-gram counts that a request may use.

    Several sources of a kind count as their sum.
    """

    static: tuple[NgramCounts, ...] = ()
    """From large texts: they confirm what others propose, and propose where nobody else does."""
    dynamic: tuple[NgramCounts, ...] = ()
    """From what this user wrote or accepted before."""


NO_STATISTICS = Statistics()


def sum_of(sources: Sequence[NgramCounts], ngram: tuple[int, ...]) -> Followers:
    """Return what followed an n-gram in all sources together."""
    return merged([source.followers(ngram) for source in sources])


def merged(parts: Sequence[Followers]) -> Followers:
    """Add followers up; of two or more parts the tokens are sorted."""
    parts = [part for part in parts if part.tokens.size]
    if len(parts) < 2:
        return parts[0] if parts else NO_FOLLOWERS
    tokens, places = np.unique(np.concatenate([part.tokens for part in parts]), return_inverse=True)
    counts = np.zeros(tokens.size, dtype=np.int64)
    np.add.at(counts, places, np.concatenate([part.counts for part in parts]))
    return Followers(tokens, counts)
