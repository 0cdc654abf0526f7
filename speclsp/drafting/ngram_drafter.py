"""What llama.cpp's history drafters share: look the last n tokens up, draft at most m from there.

They differ in which place they choose and in what they learn from a verified draft: that is a
:class:`Choice`.  How much of what was chosen pays to verify, :mod:`speclsp.drafting.draft_length`
says, as for prompt lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from speclsp.drafting.draft_length import AcceptanceEstimate
from speclsp.drafting.ngram_history import NgramHistory
from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext


class Choice(Protocol):
    """Which of the key's continuations to draft."""

    def choose(self, history: NgramHistory) -> Draft:
        """Return what to draft behind the history's key."""

    def learn(self, n_drafted: int, n_accepted: int) -> None:
        """Of what was chosen last ``n_drafted`` tokens were verified, and so many were right."""


class NgramDrafter:
    """Drafts what followed the last ``n`` tokens elsewhere.

    Acceptance is remembered from request to request.
    """

    def __init__(self, name: str, *, n: int, choice: Choice) -> None:
        self.name = name
        self._history = NgramHistory(n)
        self._choice = choice
        self._estimate = AcceptanceEstimate()
        self._last = NO_DRAFT

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffers."""
        self._history.begin(context)
        if context.verify_curve is not None:
            self._estimate.cost_per_token = context.verify_curve.slope
        self._last = NO_DRAFT

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft what was chosen, as far as it is likely to be right."""
        self._history.extend(generated)
        chosen = self._choice.choose(self._history)
        n_tokens = min(len(chosen.tokens), n_max)
        if n_tokens > 0:
            n_tokens = self._estimate.draft_length(chosen.source, chosen.match_length, n_tokens)
        self._last = NO_DRAFT
        if n_tokens > 0:
            self._last = Draft(chosen.tokens[:n_tokens], chosen.source, chosen.match_length)
        return self._last

    def accept(self, n_accepted: int) -> None:
        """Learn how far the last draft was right."""
        last = self._last
        self._estimate.observe(last.source, last.match_length, len(last.tokens), n_accepted)
        self._choice.learn(len(last.tokens), n_accepted)
