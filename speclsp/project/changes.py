"""Gathers changed paths until they come to rest, so that a branch switch is one piece of work."""

from __future__ import annotations

from typing import Final

_QUIET_S: Final = 0.15
_LONGEST_S: Final = 1.0


class ChangeBatch:
    """Paths that changed.  Times are seconds of any clock that only goes forward."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._first_s = 0.0
        self._last_s = 0.0

    def add(self, path: str, now_s: float) -> None:
        """Note a path."""
        if not self._paths:
            self._first_s = now_s
        self._last_s = now_s
        self._paths[path] = None

    @property
    def ready_s(self) -> float | None:
        """When the batch may be taken: after a short quiet, or a longer wait; None when empty."""
        if not self._paths:
            return None
        return min(self._last_s + _QUIET_S, self._first_s + _LONGEST_S)

    def take(self) -> list[str]:
        """Return the paths in the order in which they came, and start anew."""
        paths = list(self._paths)
        self._paths.clear()
        return paths
