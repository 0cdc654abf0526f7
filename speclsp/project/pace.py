"""Lets indexing make way for completions, and get on all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.25
"""A busy engine holds indexing up this long at most; it then works as long before it waits."""


class Pace:
    """Belongs to one thread.  ``busy`` says whether a completion is being computed."""

    def __init__(self, busy: Callable[[], bool], closing: Callable[[], bool]) -> None:
        self._busy = busy
        self._closing = closing
        self._working_until_s = 0.0

    def make_way(self) -> None:
        """Wait while a completion is computed; but work at least half of the time."""
        start_s = time.monotonic()
        if start_s < self._working_until_s:
            return
        while self._busy() and not self._closing():
            if time.monotonic() >= start_s + _LONGEST_PAUSE_S:
                self._working_until_s = time.monotonic() + _LONGEST_PAUSE_S
                break
            time.sleep(_PAUSE_S)
