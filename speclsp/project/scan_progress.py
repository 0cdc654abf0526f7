"""Tells the user how far a scan is, not too often, and about small ones not at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from speclsp.request import Event, Progress

_MANY_FILES: Final = 200
"""A scan that finds this much news is shown, even if it is not the first."""
_EVERY_S: Final = 0.2


class ScanProgress:
    """Begins, reports and ends under one token; a context manager, so that it always ends."""

    def __init__(
        self, emit: Callable[[Event], None], token: str, title: str, *, is_first: bool
    ) -> None:
        self._emit = emit
        self._token = token
        self._title = title
        self._is_first = is_first
        self._is_shown = False
        self._n_files = 0
        self._next_s = 0.0

    def __enter__(self) -> Self:
        if self._is_first:
            self._begin("looking for files")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._emit(Progress(token=self._token, stage="end", message=f"{self._n_files} files"))

    def start(self, n_files: int) -> None:
        """So many files are to be read."""
        self._n_files = n_files
        if n_files >= _MANY_FILES and not self._is_shown:
            self._begin("")

    def report(self, n_done: int) -> None:
        """So many files have been read."""
        now_s = time.monotonic()
        if not self._is_shown or now_s < self._next_s:
            return
        self._next_s = now_s + _EVERY_S
        self._emit(
            Progress(
                token=self._token,
                stage="report",
                message=f"{n_done}/{self._n_files} files",
                percentage=100 * n_done // max(1, self._n_files),
            )
        )

    def _begin(self, message: str) -> None:
        self._is_shown = True
        self._emit(
            Progress(
                token=self._token,
                stage="begin",
                title=self._title,
                message=message,
                percentage=0,
            )
        )
