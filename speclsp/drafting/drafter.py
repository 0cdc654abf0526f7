"""The drafters' interface, its input and its output.

Third-party drafters implement :class:`Drafter` and register a factory under the entry point group
``speclsp.drafters``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.cost import AskingCost, VerifyCurve

MOST_DRAFTED: Final = 96
"""Most draft tokens of a pass; llama.cpp has room for a few more rows of logits."""

TokenArray: TypeAlias = NDArray[np.int32]
"""Token ids, shape [n]."""

EMPTY_TOKENS: TokenArray = np.zeros(0, dtype=np.int32)
EMPTY_TOKENS.setflags(write=False)


class NgramCounts(Protocol):
    """Counts of the tokens that followed n-grams.  Any thread may look up."""

    @property
    def max_order(self) -> int:
        """Tokens of the longest n-grams."""

    def followers(self, ngram: tuple[int, ...]) -> Mapping[int, int]:
        """Return how often each token followed an n-gram; empty if it was never seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The n-gram counts that a request may use; sources of one kind are added up."""

    static: tuple[NgramCounts, ...] = ()
    """From large texts: they confirm other proposals, and propose where there are none."""
    dynamic: tuple[NgramCounts, ...] = ()
    """From what the user wrote or accepted before."""


NO_STATISTICS = Statistics()


def sum_of(sources: Sequence[NgramCounts], ngram: tuple[int, ...]) -> Mapping[int, int]:
    """Return how often each token followed an n-gram in all sources together."""
    found = [followers for source in sources if (followers := source.followers(ngram))]
    if len(found) < 2:
        return found[0] if found else {}
    total: Counter[int] = Counter()
    for followers in found:
        total.update(followers)
    return total


@dataclass(frozen=True, slots=True)
class HeldText:
    """The bytes that the output must begin with (see :mod:`speclsp.prompt.healing`)."""

    data: bytes
    piece: Callable[[int], bytes]
    """The bytes of a token."""

    def admits(self, generated: Sequence[int], draft: Sequence[int]) -> bool:
        """Whether ``draft`` after ``generated`` agrees with the bytes."""
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
"""Admits every draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftContext:
    """A request's input for drafters.  Arrays are read-only."""

    prompt: Sequence[int]
    """The target model's prompt, special tokens included."""
    prefix: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The whole buffer before the cursor, without special tokens."""
    suffix: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The buffer after the cursor."""
    buffers: tuple[TokenArray, ...] = ()
    """Other open buffers, the most recently used first."""
    generated: tuple[TokenArray, ...] = ()
    """The model's texts for the last requests with some tokens before each, the latest first."""
    deleted: tuple[TokenArray, ...] = ()
    """Texts that were deleted or replaced in the open buffers, the latest first."""
    regions: tuple[TokenArray, ...] = ()
    """What the output would be if it changed nothing, and if it repeated an earlier change, where
    the output rewrites a text."""
    ends_line: Callable[[int], bool] = lambda _token: False
    """Whether a token ends a line; read by what follows regions."""
    corpora: tuple[TokenCorpus, ...] = ()
    """The project's files and the like."""
    statistics: Statistics = NO_STATISTICS
    """N-gram counts from files and from what was accepted before."""
    verify_curve: VerifyCurve | None = None
    """T(k) / T(1); None if it was not measured."""
    single_s: float = 0.0
    """T(1), the seconds of a pass without a draft; 0 if it was not measured."""
    held: HeldText = NOTHING_HELD
    """The typed text that the prompt leaves out: the output must begin with it."""
    end_tokens: frozenset[int] = frozenset()
    """Tokens that end the output.  Drafts end before them: the target emits the last token of its
    output itself, in the pass that verifies the tokens before it."""
    n_vocab: int = 0
    """Size of the target's vocabulary; 0 if unknown.  Set by the decoding loop."""
    n_branches: int = 1
    """Most leaves of a tree; 1 if the target cannot verify branches.  Set by the decoding loop."""


NO_CONTEXT = DraftContext(prompt=())


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens and their source."""

    tokens: tuple[int, ...] = ()
    source: str = ""
    """``buffer``, ``open``, ``project``, ``draft`` …: the text that was searched."""
    match_length: int = 0
    """Tokens of context that matched, which p̂ follows; 0 where that has no meaning."""
    probabilities: tuple[float, ...] = ()
    """Each token's probability given those before it; empty if unknown."""


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
    """Each node's probability given its parent; empty if unknown."""


NO_TREE = DraftTree()


class Drafter(Protocol):
    """Proposes tokens.  All calls happen on the engine's thread.

    ``begin`` is called at most once per request, before its first ``draft``; then ``draft`` before
    target passes, and ``accept`` after each pass that verified a draft of this drafter.  A drafter
    that is not worth its time is not called.
    """

    @property
    def name(self) -> str:
        """The name in settings and statistics."""

    def begin(self, context: DraftContext) -> None:
        """Start a request."""

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Propose at most ``n_max`` tokens to follow the prompt and ``generated``.

        ``generated`` are the tokens emitted so far; the same list grows from call to call and
        must not be changed or kept.
        """

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """The target verified the first ``n_verified`` tokens of the last draft.

        The first ``n_accepted`` of these became output; about tokens after ``n_verified`` nothing
        is known.  A drafter with candidates gets sums over all of them.  If ``accept`` has a single
        parameter, it gets ``n_accepted``.
        """


@runtime_checkable
class ModelDrafter(Drafter, Protocol):
    """A drafter with a model of its own."""

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside that model's decode since it was loaded."""

    @property
    def n_most(self) -> int:
        """Most tokens of a draft."""

    @property
    def token_cost(self) -> AskingCost | None:
        """What a token of a draft takes; None before that and a prompt's time were measured."""

    def asking_cost(self, generated: Sequence[int]) -> AskingCost | None:
        """Return what :meth:`draft` would take; None if that is not known."""


class Candidate(NamedTuple):
    """The tokens that followed at one text place, or at several that continue alike.

    A named tuple, since dozens are made for each target pass.
    """

    tokens: Sequence[int]
    source: str
    """``buffer``, ``open``, ``project`` …: the text that was searched."""
    match_length: int
    """Tokens of context that matched, which p̂ follows; 0 where that has no meaning."""
    n_places: float = 1.0
    """Text places that it represents; not whole if only a sample of them was read."""
    probabilities: Sequence[float] = ()
    """Each token's probability by the drafter; empty if unknown."""


class TokenCorpus(Protocol):
    """Many token sequences that can be searched, for example the project's files."""

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Find the longest suffix of ``tail``, of ``n_min`` to ``n_max`` tokens.

        Returns at most ``n_tokens`` tokens that followed it, and its length; (empty, 0) if there is
        none.
        """

    def candidates(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> list[Candidate]:
        """Return what followed suffixes of ``tail``, ``n_tokens`` each at most."""


@runtime_checkable
class TreeDrafter(Drafter, Protocol):
    """A drafter that gives alternatives.  ``draft`` returns the one that it would choose."""

    def candidates(self, generated: Sequence[int], n_max: int) -> Sequence[Candidate]:
        """Return continuations of the prompt and ``generated``, ``n_max`` tokens each at most."""
