"""Cancellation: one token per request, checked between decode steps and prefill micro-batches."""

import threading
from collections.abc import Callable


class CancellationToken:
    """A flag that any thread may set and the engine thread reads."""

    __slots__ = ("_event", "_watcher", "is_for_good")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._watcher: Callable[[], object] = lambda: None
        self.is_for_good = False
        """Whether no newer request may join the generation either."""

    def cancel(self, *, for_good: bool = False) -> None:
        """Ask the work to stop at its next check.

        Without ``for_good`` a generation may wait briefly for a newer request to join it.
        """
        self.is_for_good = self.is_for_good or for_good
        self._event.set()
        self._watcher()

    def watch(self, watcher: Callable[[], object]) -> None:
        """Call ``watcher`` at each :meth:`cancel`, and now if one came before."""
        self._watcher = watcher
        if self.cancelled:
            watcher()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._event.is_set()
