"""Several drafters in order of precedence: the first non-empty draft wins, nothing is merged.

The chain is where drafters meet the loop: it measures them, cuts what they return to what the loop
can verify, and keeps their exceptions away from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext, Drafter
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats


class _Measured:
    """One drafter of the chain and its counts in the present request."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.name = drafter.name
        self.reset()

    def reset(self) -> None:
        self.failure: DrafterError | None = None
        self.n_begin_calls = self.n_draft_calls = self.n_accept_calls = 0
        self.n_drafts = self.n_accepted_drafts = self.n_drafted = self.n_accepted = 0
        self.n_drafted_at: list[int] = []
        self.n_accepted_at: list[int] = []
        self.s_begin = self.s_draft = self.s_accept = 0.0

    def count(self, n_drafted: int, n_accepted: int) -> None:
        self.n_drafts += 1
        self.n_accepted_drafts += n_accepted > 0
        self.n_drafted += n_drafted
        self.n_accepted += n_accepted
        missing = n_drafted - len(self.n_drafted_at)
        if missing > 0:
            self.n_drafted_at.extend([0] * missing)
            self.n_accepted_at.extend([0] * missing)
        for place in range(n_drafted):
            self.n_drafted_at[place] += 1
            self.n_accepted_at[place] += place < n_accepted

    def stats(self) -> DrafterStats:
        return DrafterStats(
            n_begin_calls=self.n_begin_calls,
            n_draft_calls=self.n_draft_calls,
            n_accept_calls=self.n_accept_calls,
            n_drafts=self.n_drafts,
            n_accepted_drafts=self.n_accepted_drafts,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
            n_drafted_at=tuple(self.n_drafted_at),
            n_accepted_at=tuple(self.n_accepted_at),
            ms_begin=self.s_begin * 1e3,
            ms_draft=self.s_draft * 1e3,
            ms_accept=self.s_accept * 1e3,
        )


def _no_clock() -> float:
    return 0.0


class DrafterChain:
    """A drafter made of drafters.  It never raises, whatever they do.

    A drafter that raises is left out until the next request begins; :attr:`failures` says why.
    Names must differ, as the registry sees to.
    """

    name = "chain"

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._members = [_Measured(drafter) for drafter in drafters]
        self.clock: Callable[[], float] = _no_clock
        """Returns seconds; the decoding loop lends its own, without one all times are 0."""
        self._n_vocab = 0
        self._winner: _Measured | None = None
        self._n_drafted = 0

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """What made drafters of this request drop out."""
        return tuple(member.failure for member in self._members if member.failure is not None)

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0, and drafters that had failed get a new chance."""
        self._n_vocab = context.n_vocab
        self._winner = None
        for member in self._members:
            member.reset()
            started = self.clock()
            member.n_begin_calls += 1
            try:
                member.drafter.begin(context)
            except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
                _drop(member, "begin", error)
            member.s_begin += self.clock() - started

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Return the first non-empty draft, at most ``n_max`` tokens of the vocabulary."""
        self._winner = None
        for member in self._members:
            if member.failure is not None:
                continue
            started = self.clock()
            member.n_draft_calls += 1
            try:
                draft = usable(member.drafter.draft(generated, n_max), n_max, self._n_vocab)
            except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
                _drop(member, "draft", error)
                draft = NO_DRAFT
            member.s_draft += self.clock() - started
            if draft.tokens:
                self._winner = member
                self._n_drafted = len(draft.tokens)
                return draft
        return NO_DRAFT

    def accept(self, n_accepted: int) -> None:
        """Tell the drafter of the last draft how many of its tokens became output."""
        member = self._winner
        if member is None:
            return
        self._winner = None
        member.count(self._n_drafted, n_accepted)
        started = self.clock()
        member.n_accept_calls += 1
        try:
            member.drafter.accept(n_accepted)
        except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
            _drop(member, "accept", error)
        member.s_accept += self.clock() - started

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""
        return {member.name: member.stats() for member in self._members}


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
    return Draft(tokens, draft.source, draft.match_length) if tokens else NO_DRAFT


def _drop(member: _Measured, call: str, error: Exception) -> None:
    member.failure = DrafterError(
        f"drafter {member.name!r} failed in {call}(): {type(error).__name__}: {error}.",
        remedy="It is left out of this completion; take it out of `drafters` if that goes on.",
    )
    member.failure.__cause__ = error
