"""Restarts of an engine that ended: the pauses before them, and when to give up."""

from __future__ import annotations

from typing import Final

PAUSES_S: Final = (0.0, 1.0, 5.0, 30.0)
"""Seconds before the next attempt to have an engine, by the attempts since a model was ready."""
MAX_ENDS: Final = 3
"""Times that the engine may end without an answer in between; then it stays down."""


class Restarts:
    """Counts an engine's ends, and decides on pauses and giving up."""

    def __init__(self) -> None:
        self.n_losses = 0
        """Since a model was ready."""
        self._n_ends = 0
        """Since an answer, of engines that ran."""

    @property
    def pause_s(self) -> float:
        """Seconds to wait before the next start."""
        return PAUSES_S[min(self.n_losses, len(PAUSES_S)) - 1] if self.n_losses else 0.0

    def forget(self) -> None:
        """Reset the counts."""
        self.n_losses = self._n_ends = 0

    def answered(self) -> None:
        """Record that an engine answered a request."""
        self._n_ends = 0

    def lost(self) -> None:
        """Record that no engine can be had."""
        self.n_losses += 1

    def ended(self) -> bool:
        """Record that an engine ended; return whether to give up."""
        self.lost()
        self._n_ends += 1
        return self._n_ends >= MAX_ENDS
