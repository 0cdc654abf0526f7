"""What a drafter is, and what it may look at.

Third-party drafters implement :class:`Drafter` and register a factory under the entry point group
``speclsp.drafters``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.distribution import Distribution, DraftSampling
from speclsp.drafting.held_text import NOTHING_HELD, HeldText
from speclsp.drafting.ngram_statistics import NO_STATISTICS, Statistics

TokenArray: TypeAlias = NDArray[np.int32]
"""Token ids, shape [n]."""

EMPTY_TOKENS: TokenArray = np.zeros(0, dtype=np.int32)
EMPTY_TOKENS.setflags(write=False)


class TokenCorpus(Protocol):
    """Many token sequences that can be searched, for example the project's files."""

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Find what followed the longest suffix of ``tail`` elsewhere.

        The match is at least ``n_min`` and counts up to ``n_max`` tokens.  Returns at most
        ``n_tokens`` tokens that followed it, and the match's length; (empty, 0) for no match.
        """


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
    corpora: tuple[TokenCorpus, ...] = ()
    """The project's files, what was accepted before, and the like."""
    statistics: Statistics = NO_STATISTICS
    """Counts of what followed n-grams elsewhere, from files and from what was accepted before."""
    verify_curve: VerifyCurve | None = None
    """What verifying a draft costs by its size; None where it was not measured."""
    tree_curve: VerifyCurve | None = None
    """The same for trees with branches, which cost a little more; None as above."""
    single_s: float = 0.0
    """T(1) in seconds, what a pass without a draft takes; 0 where it was not measured."""
    held: HeldText = NOTHING_HELD
    """What the output has to begin with: what was typed, and is left out of the prompt."""
    n_vocab: int = 0
    """Size of the target's vocabulary: token ids are below it.  The decoding loop fills it in."""
    n_branches: int = 1
    """Most leaves of a tree; 1 where the target can verify drafts without branches only.  The
    decoding loop fills it in."""
    sampling: DraftSampling | None = None
    """Draws as the request's sampling asks; None where it takes the most probable token.  The
    decoding loop fills it in."""

    @property
    def verify_cost(self) -> float | None:
        """c in T(k + 1) ≈ T(1) · (1 + c · k), what a draft token adds; None if not measured."""
        return self.verify_curve.slope if self.verify_curve is not None else None


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
    distributions: tuple[Distribution, ...] = ()
    """For each token, what it was drawn from at random; empty where nothing was drawn.

    What is drafted and how much of it must then not depend on what was drawn, else the output's
    law would: a token that came up may not be left out because it is improbable.
    """


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
    distributions: tuple[Distribution, ...] = ()
    """For each node of a tree without branches, what it was drawn from; empty as for drafts."""


NO_TREE = DraftTree()


class Drafter(Protocol):
    """Proposes tokens.  Its three calls all happen on the engine's thread.

    ``begin`` at most once per request, before its first ``draft``; then ``draft`` before target
    passes, and ``accept`` after each pass in which a draft of this drafter was verified.  While
    drafting rests, nothing is called.
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

    def accept(self, n_accepted: int) -> None:
        """Of this drafter's last draft the first ``n_accepted`` tokens became output."""


@runtime_checkable
class ModelDrafter(Drafter, Protocol):
    """A drafter that asks a model of its own."""

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside that model's decode since it was loaded."""


@runtime_checkable
class PromptedDrafter(ModelDrafter, Protocol):
    """One that can say beforehand how much its model would have to evaluate."""

    def n_unseen(self, generated: Sequence[int]) -> int:
        """Return how many tokens of prompt and ``generated`` its model has not evaluated yet."""
