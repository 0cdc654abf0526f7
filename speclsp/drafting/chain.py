"""Several drafters in order of precedence: the first non-empty draft wins, nothing is merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from speclsp.drafting.measured import MeasuredDrafter
from speclsp.drafting.proposer import chain_tree
from speclsp.drafting.protocol import NO_TREE, DraftContext, Drafter, DraftTree
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats


def _no_clock() -> float:
    return 0.0


class DrafterChain:
    """Implements :class:`~speclsp.drafting.proposer.Proposer` with llama.cpp's precedence.

    A drafter that raises is left out until the next request begins; :attr:`failures` says why.
    Names must differ, as the registry sees to.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._members = [MeasuredDrafter(drafter) for drafter in drafters]
        self.clock: Callable[[], float] = _no_clock
        """Returns seconds; the decoding loop lends its own, without one all times are 0."""
        self._n_vocab = 0
        self._winner: MeasuredDrafter | None = None
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
            member.start_anew()
            member.begin(context, self.clock)

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return the first non-empty draft, at most ``n_max`` tokens of the vocabulary."""
        self._winner = None
        for member in self._members:
            draft = member.draft(generated, n_max, self._n_vocab, self.clock)
            if draft.tokens:
                self._winner = member
                self._n_drafted = len(draft.tokens)
                return chain_tree(draft, member.name)
        return NO_TREE

    def accept(self, path: Sequence[int]) -> None:
        """Tell the drafter of the last draft how many of its tokens became output."""
        member = self._winner
        if member is None:
            return
        self._winner = None
        member.count(range(self._n_drafted), range(len(path)))
        member.accept(len(path), self.clock)

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""
        return {member.name: member.stats() for member in self._members}
