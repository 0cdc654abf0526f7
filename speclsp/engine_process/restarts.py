"""Restarts of a dead engine: the pauses before them, and when to give up."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from speclsp.project.source_text import open_regular

PAUSES_S: Final = (0.0, 1.0, 5.0, 30.0)
"""Seconds before the next attempt to have an engine, by the attempts since a model was ready."""
MAX_CRASHES: Final = 3
"""Crashes within a minute, or without a suggestion in between, after which it stays down."""
_MINUTE_S: Final = 60.0

_LOG_TAIL_BYTES: Final = 65_536
_N_LAST_LINES: Final = 8
_CRASH_MARK: Final = "Fatal Python error"
"""The engine's ``faulthandler`` writes it at SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL."""
_REAP_S: Final = 1.0


class Restarts:
    """Counts an engine's deaths, and decides on pauses and giving up."""

    def __init__(self) -> None:
        self.n_losses = 0
        """Since a model was ready."""
        self.n_texts = 0
        """Suggestions so far."""
        self._crashes: deque[tuple[float, int]] = deque(maxlen=MAX_CRASHES)
        """The time of each crash, and how many suggestions had come before."""

    @property
    def pause_s(self) -> float:
        """Seconds to wait before the next start."""
        return PAUSES_S[min(self.n_losses, len(PAUSES_S)) - 1] if self.n_losses else 0.0

    def forget(self) -> None:
        """Reset the counts."""
        self.n_losses = 0
        self._crashes.clear()

    def lost(self, *, is_crash: bool) -> bool:
        """Record a death of the engine; return whether to give up."""
        self.n_losses += 1
        if is_crash:
            self._crashes.append((time.monotonic(), self.n_texts))
        if not is_crash or len(self._crashes) < MAX_CRASHES:
            return False
        (first_at, n_texts), *_ = self._crashes
        return time.monotonic() - first_at <= _MINUTE_S or self.n_texts == n_texts


class EngineLife:
    """Finds out how an engine ended: from its log, its exit status and Linux's count of OOM kills.

    Create it before the engine is started, or when the window connects.  The exit status is known
    to the window that started the process only.
    """

    def __init__(
        self, log: Path | None = None, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._log = log
        self._process = process
        self._start = 0
        self._n_oom_kills = _n_oom_kills()
        if log is not None:
            with suppress(OSError):
                self._start = log.stat().st_size

    def cause(self) -> str | None:
        """Return how the engine, which has ended, failed; None where a signal ended it."""
        if _n_oom_kills() > self._n_oom_kills:
            return "ran out of memory"
        written = self._written()
        if _CRASH_MARK in written or self._status() > 0:
            return "crashed"
        return None

    def _status(self) -> int:
        """Return the exit status, 0 where it is not known; a signal's is negative."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(_REAP_S)
        except subprocess.TimeoutExpired:  # it ends, and only its connection is closed
            return 0

    def last_words(self) -> str:
        """Return the last lines that the engine logged before it crashed, for a message."""
        before = self._written().partition(_CRASH_MARK)[0].splitlines()
        lines = [line for line in before if line.strip()][-_N_LAST_LINES:]
        if not lines:
            return ""
        return f" The last lines of its log {self._log}: {' | '.join(map(str.strip, lines))}"

    def _written(self) -> str:
        """Return the end of what the engine has logged since this object was made."""
        if self._log is None:
            return ""
        try:
            with open_regular(self._log) as file:
                size = os.fstat(file.fileno()).st_size
                start = self._start if self._start <= size else 0  # the log was begun anew
                file.seek(max(start, size - _LOG_TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


def _n_oom_kills() -> int:
    """Return how many processes Linux has killed for memory; 0 elsewhere."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    counts = (line.split()[1] for line in text.splitlines() if line.startswith("oom_kill "))
    return int(next(counts, 0))
