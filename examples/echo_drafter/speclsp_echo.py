"""Drafts what followed the last token where it stood last before."""

from collections.abc import Sequence

from speclsp.drafting.drafter import NO_DRAFT, Draft, DraftContext
from speclsp.settings import Settings


class EchoDrafter:
    """Looks one token back; see speclsp's prompt-lookup for a drafter that looks further."""

    name = "echo"

    def __init__(self) -> None:
        self._prefix: list[int] = []

    def begin(self, context: DraftContext) -> None:
        """Take the text before the cursor."""
        self._prefix = context.prefix.tolist()

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Propose what followed the last token before."""
        tokens = [*self._prefix, *generated]
        for idx in range(len(tokens) - 2, -1, -1):
            if tokens[idx] == tokens[-1]:
                return Draft(tuple(tokens[idx + 1 : idx + 1 + n_max]), "buffer", 1)
        return NO_DRAFT

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Learn nothing from what was accepted."""


def create(_: Settings) -> EchoDrafter:
    """Make the drafter; speclsp calls this when `drafters` names it."""
    return EchoDrafter()
