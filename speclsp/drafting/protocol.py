"""What a drafter is, what it may look at, and what it proposes.

Third-party drafters implement :class:`Drafter` and register a factory under the entry point group
``speclsp.drafters``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.cost import VerifyCurve

TokenArray: TypeAlias = NDArray[np.int32]
"""Token ids, shape [n]."""

EMPTY_TOKENS: TokenArray = np.zeros(0, dtype=np.int32)
EMPTY_TOKENS.setflags(write=False)


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


@dataclass(frozen=True, slots=True)
class HeldText:
    """The bytes that the sampler holds the target to (see :mod:`speclsp.prompt.healing`)."""

    data: bytes
    piece: Callable[[int], bytes]
    """The bytes of a token."""

    def admits(self, generated: Sequence[int], draft: Sequence[int]) -> bool:
        """Whether ``draft`` behind ``generated`` goes along with the text."""
        data = self.data
        n_said = 0
        for token in generated:
            if n_said >= len(data):
                return True
            n_said += len(self.piece(token))
        for token in draft:
            if n_said >= len(data):
                return True
            piece = self.piece(token)
            if piece[: len(data) - n_said] != data[n_said : n_said + len(piece)]:
                return False
            n_said += len(piece)
        return True


NOTHING_HELD = HeldText(b"", lambda _token: b"")
"""Every draft goes along with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftContext:
    """What is known when a request begins.  Arrays are read-only."""

    prompt: Sequence[int]
    """The prompt exactly as the target model gets it, special tokens included."""
    prefix: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The buffer before the cursor, beyond the prompt's window too, without special tokens."""
    suffix: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The buffer after the cursor."""
    buffers: tuple[TokenArray, ...] = ()
    """Other open buffers, the most recently used first."""
    generated: tuple[TokenArray, ...] = ()
    """What the model generated for the last requests, the latest first, and what stood before."""
    deleted: tuple[TokenArray, ...] = ()
    """What was deleted or replaced in the open buffers, the latest first."""
    corpora: tuple[TokenCorpus, ...] = ()
    """The project's files, what was accepted before, and the like."""
    statistics: Statistics = NO_STATISTICS
    """Counts of what followed n-grams elsewhere, from files and from what was accepted before."""
    verify_curve: VerifyCurve | None = None
    """What verifying a draft costs by its size; None where it was not measured."""
    single_s: float = 0.0
    """T(1) in seconds, what a pass without a draft takes; 0 where it was not measured."""
    held: HeldText = NOTHING_HELD
    """What the output has to begin with: what was typed, and is left out of the prompt."""
    n_vocab: int = 0
    """Size of the target's vocabulary: token ids are below it.  The decoding loop fills it in."""
    n_branches: int = 1
    """Most leaves of a tree; 1 where the target can verify drafts without branches only.  The
    decoding loop fills it in."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens and where they come from."""

    tokens: tuple[int, ...] = ()
    source: str = ""
    """``buffer``, ``open``, ``project``, ``draft`` …: what the drafter looked at."""
    match_length: int = 0
    """Tokens of context that matched; 0 where that has no meaning."""
    probabilities: tuple[float, ...] = ()
    """For each token, the chance that it is right if those before it are; empty if not known."""


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Alternative drafts that share their beginnings; a draft is a tree without branches.

    Node i continues node ``parents[i]``, which is smaller than i, or the text itself where that is
    -1.  Children of one node have different tokens.  All tuples have one entry per node.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    """The name of the drafter that each node is credited to."""
    probabilities: tuple[float, ...] = ()
    """For each node, the chance that it is right if its parent is; empty if not known."""


NO_TREE = DraftTree()


class Drafter(Protocol):
    """Proposes tokens.  Its three calls all happen on the engine's thread.

    ``begin`` at most once per request, before its first ``draft``; then ``draft`` before target
    passes, and ``accept`` after each pass in which a draft of this drafter was verified.  Where a
    drafter is not worth its time, nothing is called.
    """

    @property
    def name(self) -> str:
        """The name in settings and statistics."""

    def begin(self, context: DraftContext) -> None:
        """A request starts."""

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Propose at most ``n_max`` tokens to follow the prompt and ``generated``.

        ``generated`` are the tokens emitted so far; the same list grows from call to call and
        must not be changed or kept.
        """

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """The first ``n_verified`` tokens of its last draft were verified.

        Of these the first ``n_accepted`` became output; nobody knows of the others behind them.
        A drafter that gives candidates is told sums over all of them.  One whose ``accept`` has a
        single parameter is told ``n_accepted``.
        """


@runtime_checkable
class ModelDrafter(Drafter, Protocol):
    """A drafter that asks a model of its own."""

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside that model's decode since it was loaded."""


class Candidate(NamedTuple):
    """What followed at a place, or at several that continue alike.

    A named tuple, since dozens are made for each target pass.
    """

    tokens: Sequence[int]
    source: str
    """``buffer``, ``open``, ``project`` …: what the drafter looked at."""
    match_length: int
    """Tokens of context that matched; 0 where that has no meaning."""
    n_places: float = 1.0
    """Places that it stands for; a fraction where these were thinned out."""
    probabilities: Sequence[float] = ()
    """For each token, the chance that it is right as the drafter sees it; empty if unknown."""


class TokenCorpus(Protocol):
    """Many token sequences that can be searched, for example the project's files."""

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Find what followed the longest suffix of ``tail`` elsewhere.

        The match is at least ``n_min`` and counts up to ``n_max`` tokens.  Returns at most
        ``n_tokens`` tokens that followed it, and the match's length; (empty, 0) for no match.
        """

    def candidates(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> list[Candidate]:
        """Return what followed suffixes of ``tail``, the longest first, ``n_tokens`` at most."""


@runtime_checkable
class TreeDrafter(Drafter, Protocol):
    """A drafter that gives alternatives.  ``draft`` is what it would choose alone."""

    def candidates(self, generated: Sequence[int], n_max: int) -> Sequence[Candidate]:
        """Return what may follow the prompt and ``generated``, each at most ``n_max`` tokens."""
