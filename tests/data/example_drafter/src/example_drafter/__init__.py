"""Drafts what followed the last token the last time it stood in the buffer."""

from collections.abc import Sequence
from itertools import pairwise

from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext
from speclsp.settings import Settings


class IdentifierDrafter:
    """Remembers for each token of the buffer the one that followed it last."""

    name = "identifiers"

    def __init__(self, n_max: int) -> None:
        self._n_max = n_max
        self._following: dict[int, int] = {}
        self._last: int | None = None

    def begin(self, context: DraftContext) -> None:
        """Learn the buffer's pairs of tokens."""
        tokens = [*context.suffix.tolist(), *context.prefix.tolist()]
        self._following = dict(pairwise(tokens))
        self._last = tokens[-1] if tokens else None

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Follow the pairs from the last token on."""
        token = generated[-1] if generated else self._last
        tokens: list[int] = []
        while token in self._following and len(tokens) < min(n_max, self._n_max):
            token = self._following[token]
            tokens.append(token)
        return Draft(tuple(tokens), source="buffer", match_length=1) if tokens else NO_DRAFT

    def accept(self, n_accepted: int) -> None:
        """Learn nothing from it."""


def create(settings: Settings) -> IdentifierDrafter:
    """Make the drafter; the entry point names this function."""
    return IdentifierDrafter(n_max=min(3, settings.num_pred_tokens))
