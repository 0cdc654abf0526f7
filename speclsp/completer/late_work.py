"""Work that takes longer than whoever asks for it can wait, on a thread of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

_JOIN_S: Final = 5.0


class _Job(NamedTuple):
    run: Callable[[], None]
    dropped: Callable[[], None]


def _nothing() -> None:
    """Tell nobody."""


class LateWork:
    """Runs jobs one after the other; of those with the same key only the newest.

    Any thread may call it.  The thread starts with the first job, and a job's failure does not end
    it: ``failed`` is told.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, _Job] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._is_running = False
        self._closing = False

    def put(
        self, key: Hashable, run: Callable[[], None], dropped: Callable[[], None] = _nothing
    ) -> None:
        """Run something soon; ``dropped`` is called instead where that is not to be any more."""
        with self._changed:
            older = self._waiting.pop(key, None)
            is_late = self._closing
            if not is_late:
                self._waiting[key] = _Job(run, dropped)
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="speclsp-late", daemon=True)
                    thread.start()
                    self._thread = thread
                self._changed.notify_all()
        if older is not None:
            older.dropped()
        if is_late:
            dropped()

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until nothing waits or runs; whether that came about."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._is_running, timeout_s
            )

    def close(self) -> None:
        """Drop what waits, and end the thread when its job is done."""
        with self._changed:
            self._closing = True
            dropped = list(self._waiting.values())
            self._waiting.clear()
            self._changed.notify_all()
        for job in dropped:
            job.dropped()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                _, job = self._waiting.popitem(last=False)
                self._is_running = True
            try:
                job.run()
            except Exception as error:  # noqa: BLE001 - the next jobs are to be run all the same
                self._failed(error)
            del job  # and the text with it that it was about
