"""Cancellation: one token per request, checked between decode steps and prefill micro-batches."""

import threading


class CancellationToken:
    """A flag that any thread may raise and the engine thread reads.

    It is the one callable thing that crosses the completer seam.
    """

    __slots__ = ("_event", "is_for_good")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.is_for_good = False
        """Whether no newer request may get what is generated, either."""

    def cancel(self, *, for_good: bool = False) -> None:
        """Ask the work to stop at its next check.

        Unless it is ``for_good``, a generation may wait a moment for a newer request to join it.
        """
        self.is_for_good = self.is_for_good or for_good
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._event.is_set()
