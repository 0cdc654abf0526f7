"""What the user's numbers about models have in common: one file for all workspaces, few models."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Self

from speclsp.storage.database import Database, Report

MAX_MODELS: Final = 64
"""Models that are kept; those not used for longest go first."""


class PerModelStore:
    """Safe to use from any thread, and from several servers at once.

    All methods raise :class:`~speclsp.errors.StoreError` where the disk or the file is at fault.
    """

    schema: ClassVar[str]
    version: ClassVar[int]

    def __init__(
        self,
        path: Path,
        *,
        max_models: int = MAX_MODELS,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        self._database = Database(path, self.schema, self.version, report)
        self._max_models = max_models
        self._clock = clock

    @staticmethod
    def users_path() -> Path:
        """Return where the user's store lies."""
        raise NotImplementedError

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Open the user's store.  ``report`` hears of a damaged file that was replaced."""
        return cls(cls.users_path(), report=report)

    def close(self) -> None:
        """Close; calling it again changes nothing."""
        self._database.close()
