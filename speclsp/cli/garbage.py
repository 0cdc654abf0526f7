"""Python's garbage collector, which stops every thread, works while nobody types.

What is left to collect is little: what no cycle holds is freed at once.  But a full collection
looks at every object there is, among them some 90,000 of imported modules alone, and takes 30 to
80 ms in whichever thread happens to cause it.  So the modules' objects are set aside for good,
full collections wait for a pause, and only those of young objects happen at any time.
"""

from __future__ import annotations

import gc
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

QUIET_S: Final = 1.0
"""Seconds without a message after which a keystroke is not expected soon."""
N_WANTED: Final = 10
"""Collections of the middle generation after which a full one is wanted, as is Python's default."""
N_FORCED: Final = 200
"""As many do not wait for a pause any longer: that is more than a million objects."""
_MIDDLE: Final = 1
_NEVER: Final = 2**31 - 1


@contextmanager
def collected_in_pauses(
    quiet_s: Callable[[], float], collect: Callable[[], object] = gc.collect
) -> Iterator[None]:
    """Let full collections wait until ``quiet_s``, the seconds since the last message, is long."""
    young, middle, old = gc.get_threshold()
    pauses = _Pauses(quiet_s, collect)
    gc.set_threshold(young, middle, _NEVER)
    gc.callbacks.append(pauses.collected)
    thread = threading.Thread(target=pauses.run, name="speclsp-garbage", daemon=True)
    thread.start()
    try:
        yield
    finally:
        gc.callbacks.remove(pauses.collected)
        gc.set_threshold(young, middle, old)
        pauses.end()
        thread.join()


class _Pauses:
    def __init__(self, quiet_s: Callable[[], float], collect: Callable[[], object]) -> None:
        self._quiet_s = quiet_s
        self._collect = collect
        self._n_since = 0
        """Collections of the middle generation since the last full one."""
        self._wanted: queue.SimpleQueue[None] = queue.SimpleQueue()
        """What wakes the thread.  Of all that does, this alone may be used within a collection,
        which can begin in the midst of any other's work."""
        self._ending = threading.Event()

    def collected(self, phase: str, info: dict[str, Any]) -> None:
        """Count a collection; called by the one that makes it."""
        if phase == "stop" and info["generation"] == _MIDDLE:
            self._n_since += 1
            if self._n_since >= N_WANTED and self._wanted.empty():
                self._wanted.put(None)

    def end(self) -> None:
        self._ending.set()
        self._wanted.put(None)

    def run(self) -> None:
        while True:
            self._wanted.get()
            if self._n_since < N_WANTED and not self._ending.is_set():
                continue  # the last collection came after it was asked for
            while self._n_since < N_FORCED and (left_s := QUIET_S - self._quiet_s()) > 0:
                if self._ending.wait(left_s):
                    break
            if self._ending.is_set():
                return
            self._n_since = 0
            self._collect()
