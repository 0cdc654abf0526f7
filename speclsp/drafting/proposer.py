"""What the decoding loop asks for drafts, and drafters whose calls are guarded and counted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import index
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from speclsp.drafting.protocol import (
    NO_DRAFT,
    NOTHING_HELD,
    Candidate,
    Draft,
    DraftContext,
    Drafter,
    DraftTree,
    ModelDrafter,
    TreeDrafter,
)
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats

Clock: TypeAlias = Callable[[], float]
"""Returns seconds."""


def stopped_clock() -> float:
    """Return 0: all times are 0 where nobody lends a clock."""
    return 0.0


@runtime_checkable
class Proposer(Protocol):
    """Speaks for all drafters.  It never raises, whatever they do.

    ``begin`` once per request, then ``propose`` before each target pass, and ``accept`` after each
    pass that verified a tree with nodes.
    """

    clock: Clock
    """The decoding loop lends its own."""

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """What made drafters of this request drop out."""

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0."""

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return at most ``n_max`` nodes to follow the prompt and ``generated``.

        ``generated`` is the same list throughout a request and stays as it is afterwards.
        The tree is usable as it is and has no more leaves than the
        context's ``n_branches``.
        """

    def accept(self, path: Sequence[int]) -> None:
        """The nodes ``path`` of the last tree, from the root down, became output; maybe none."""

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""


class DraftLimits(NamedTuple):
    """The least and the most tokens of a draft; shorter ones are dropped."""

    n_min: int = 0
    n_max: int | None = None


NO_LIMITS: Final = DraftLimits()


def no_limits(_name: str) -> DraftLimits:
    """Return no limits, for a drafter of any name."""
    return NO_LIMITS


class MeasuredDrafter:
    """Calls a drafter, counts and times its calls, and keeps its exceptions to itself.

    A drafter that raised is not called again until the next request begins; :attr:`failure` says
    why.
    """

    def __init__(self, drafter: Drafter, limits: DraftLimits = NO_LIMITS) -> None:
        self.drafter = drafter
        self._limits = limits
        self._branching = drafter if isinstance(drafter, TreeDrafter) else None
        self._asks_model = drafter if isinstance(drafter, ModelDrafter) else None
        self.name = drafter.name
        self._held = NOTHING_HELD
        # Foreign drafters may know the first argument only.
        self._tells_verified = len(inspect.signature(drafter.accept).parameters) > 1
        self.start_anew()

    @property
    def branches(self) -> bool:
        """Whether it gives several candidates."""
        return self._branching is not None

    @property
    def asks_model(self) -> bool:
        """Whether it asks a model of its own."""
        return self._asks_model is not None

    @property
    def has_begun(self) -> bool:
        """Whether it was told of the present request."""
        return self._n_begin_calls > 0

    def start_anew(self) -> None:
        """Begin a request's counts and times; a drafter that had failed gets a new chance."""
        self.failure: DrafterError | None = None
        self._n_begin_calls = self._n_draft_calls = self._n_accept_calls = 0
        self._n_drafts = self._n_accepted_drafts = self._n_drafted = self._n_accepted = 0
        self._n_proposed_drafts = self._n_proposed = 0
        self._n_drafted_at: list[int] = []
        self._n_accepted_at: list[int] = []
        self._s_begin = self._s_draft = self._s_accept = 0.0
        self._ns_native = 0

    def begin(self, context: DraftContext, clock: Clock) -> None:
        """Let the drafter begin the request that was started."""
        started = clock()
        self._n_begin_calls += 1
        self._held = context.held
        try:
            self.drafter.begin(context)
        except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
            self._drop("begin", error)
        self._s_begin += clock() - started

    def draft(self, generated: Sequence[int], n_max: int, n_vocab: int, clock: Clock) -> Draft:
        """Return the drafter's draft, at most ``n_max`` tokens below ``n_vocab`` (0: any)."""
        if self.failure is not None:
            return NO_DRAFT
        started = clock()
        self._n_draft_calls += 1
        n_max = self._most(n_max)
        try:
            draft = usable(self._drafted(generated, n_max), n_max, n_vocab)
        except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
            self._drop("draft", error)
            draft = NO_DRAFT
        self._s_draft += clock() - started
        n_tokens = len(draft.tokens)
        if n_tokens < self._limits.n_min or not self._held.admits(generated, draft.tokens):
            return NO_DRAFT
        self._n_proposed_drafts += n_tokens > 0
        self._n_proposed += n_tokens
        return draft

    def _most(self, n_max: int) -> int:
        return n_max if self._limits.n_max is None else min(n_max, self._limits.n_max)

    def _drafted(self, generated: Sequence[int], n_max: int) -> Draft:
        asks_model = self._asks_model
        if asks_model is None:
            return self.drafter.draft(generated, n_max)
        native_before = asks_model.ns_native
        draft = asks_model.draft(generated, n_max)
        self._ns_native += asks_model.ns_native - native_before
        return draft

    def candidates(
        self, generated: Sequence[int], n_max: int, n_vocab: int, clock: Clock
    ) -> list[Candidate]:
        """Return the candidates of a drafter that gives several, usable as :meth:`draft`'s."""
        if self.failure is not None or self._branching is None:
            return []
        started = clock()
        self._n_draft_calls += 1
        n_max = self._most(n_max)
        try:
            found = self._branching.candidates(generated, n_max)
            candidates = list(found)
            if not _are_usable(candidates, n_max, n_vocab):
                candidates = [one for one in candidates if _are_usable([one], n_max, n_vocab)]
            if self._limits.n_min:
                n_min = self._limits.n_min
                candidates = [one for one in candidates if len(one.tokens) >= n_min]
            if self._held.data:
                candidates = [one for one in candidates if self._held.admits(generated, one.tokens)]
        except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
            self._drop("candidates", error)
            candidates = []
        self._s_draft += clock() - started
        self._n_proposed_drafts += len(candidates) > 0
        for candidate in candidates:
            self._n_proposed += len(candidate.tokens)
        return candidates

    def accept(self, n_accepted: int, n_verified: int, clock: Clock) -> None:
        """Tell the drafter how much of its draft was verified, and how much became output."""
        if self.failure is not None:
            return
        started = clock()
        self._n_accept_calls += 1
        try:
            if self._tells_verified:
                self.drafter.accept(n_accepted, n_verified)
            else:
                self.drafter.accept(n_accepted)  # type: ignore[call-arg]
        except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
            self._drop("accept", error)
        self._s_accept += clock() - started

    def count(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count one verified draft by its tokens' positions (depths in a tree), from 0.

        ``accepted`` are the positions of those that became output.
        """
        self._n_drafts += 1
        self._n_accepted_drafts += len(accepted) > 0
        self._n_drafted += len(drafted)
        self._n_accepted += len(accepted)
        missing = max(drafted, default=-1) + 1 - len(self._n_drafted_at)
        if missing > 0:
            self._n_drafted_at.extend([0] * missing)
            self._n_accepted_at.extend([0] * missing)
        for place in drafted:
            self._n_drafted_at[place] += 1
        for place in accepted:
            self._n_accepted_at[place] += 1

    def stats(self) -> DrafterStats:
        """Return the counts and times of the present request."""
        return DrafterStats(
            n_begin_calls=self._n_begin_calls,
            n_draft_calls=self._n_draft_calls,
            n_accept_calls=self._n_accept_calls,
            n_proposed_drafts=self._n_proposed_drafts,
            n_proposed=self._n_proposed,
            n_drafts=self._n_drafts,
            n_accepted_drafts=self._n_accepted_drafts,
            n_drafted=self._n_drafted,
            n_accepted=self._n_accepted,
            n_drafted_at=tuple(self._n_drafted_at),
            n_accepted_at=tuple(self._n_accepted_at),
            ms_begin=self._s_begin * 1e3,
            ms_draft=self._s_draft * 1e3,
            ms_accept=self._s_accept * 1e3,
            ms_decode=self._ns_native / 1e6,
        )

    def _drop(self, call: str, error: Exception) -> None:
        self.failure = DrafterError(
            f"drafter {self.name!r} failed in {call}(): {type(error).__name__}: {error}.",
            remedy="It is left out of this completion; take it out of `drafters` if that goes on.",
        )
        self.failure.__cause__ = error


def _are_usable(candidates: Sequence[Candidate], n_max: int, n_vocab: int) -> bool:
    """Whether the tokens of all are token ids and not too many, and their counts are in range.

    Raises TypeError for what is no number.  All are checked at once: one by one that would take as
    long as finding them.
    """
    every_token: list[int] = []
    n_matched = 0
    for tokens, _, match_length, n_places, probabilities in candidates:
        if not 0 < len(tokens) <= n_max or match_length < 0 or not n_places > 0.0:
            return False
        if probabilities:
            sum(probabilities)
        every_token += tokens
        n_matched += match_length
    if not every_token:
        return True
    # The sum is an integer only where all its terms are.
    index(sum(every_token) + n_matched)
    return min(every_token) >= 0 and (not n_vocab or max(every_token) < n_vocab)


def usable(draft: Draft, n_max: int, n_vocab: int) -> Draft:
    """Return ``draft`` cut to ``n_max`` tokens and before the first that is no token id.

    ``n_vocab`` 0 means that the vocabulary's size is not known.  Raises TypeError for what is no
    integer at all.
    """
    tokens = tuple(map(index, draft.tokens[: max(n_max, 0)]))
    for place, token in enumerate(tokens):
        if token < 0 or (n_vocab and token >= n_vocab):
            tokens = tokens[:place]
            break
    if not tokens:
        return NO_DRAFT
    return Draft(tokens, draft.source, draft.match_length, draft.probabilities[: len(tokens)])
