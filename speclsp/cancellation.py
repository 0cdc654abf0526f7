"""Cancellation: one token per request, checked between decode steps and prefill micro-batches."""

import threading


class CancellationToken:
    """A flag that any thread may raise and the engine thread reads.

    It is the one callable thing that crosses the completer seam.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask the work to stop at its next check; calling it again changes nothing."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._event.is_set()
