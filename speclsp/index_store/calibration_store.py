"""How often drafts were right, per model: two numbers for each cell of the calibration."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from speclsp.index_store.database import Database, Report
from speclsp.index_store.locations import calibration_store_path

MAX_MODELS: Final = 64
"""Models that are kept; those not used for longest go first."""

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE model (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    saved_s INTEGER NOT NULL
);
CREATE TABLE cell (
    model INTEGER NOT NULL REFERENCES model ON DELETE CASCADE,
    name TEXT NOT NULL,
    n_right REAL NOT NULL,
    n_seen REAL NOT NULL,
    PRIMARY KEY (model, name)
) WITHOUT ROWID
"""


class CalibrationStore:
    """Safe to use from any thread, and from several servers at once: who saves last is kept.

    All methods raise :class:`~speclsp.errors.StoreError` where the disk or the file is at fault.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_models: int = MAX_MODELS,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        self._database = Database(path, _SCHEMA, _VERSION, report)
        self._max_models = max_models
        self._clock = clock

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Open the user's store.  ``report`` hears of a damaged file that was replaced."""
        return cls(calibration_store_path(), report=report)

    def load(self, model: str) -> dict[str, tuple[float, float]]:
        """Return a model's cells by name: how often right, how often seen."""
        rows = self._database.run(
            lambda connection: connection.execute(
                "SELECT cell.name, n_right, n_seen FROM cell JOIN model ON model.id = cell.model "
                "WHERE model.name = ?",
                (model,),
            ).fetchall()
        )
        return {name: (n_right, n_seen) for name, n_right, n_seen in rows}

    def save(self, model: str, cells: Mapping[str, tuple[float, float]]) -> None:
        """Keep a model's cells in the place of those that were kept."""
        now_s = int(self._clock())

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM model WHERE name = ?", (model,))
            row_id = connection.execute(
                "INSERT INTO model (name, saved_s) VALUES (?, ?)", (model, now_s)
            ).lastrowid
            connection.executemany(
                "INSERT INTO cell VALUES (?, ?, ?, ?)",
                [(row_id, name, n_right, n_seen) for name, (n_right, n_seen) in cells.items()],
            )
            connection.execute(
                "DELETE FROM model WHERE id NOT IN "
                "(SELECT id FROM model ORDER BY saved_s DESC, id DESC LIMIT ?)",
                (self._max_models,),
            )

        self._database.run(replace)

    def n_models(self) -> int:
        """Return for how many models something is kept."""
        (n_models,) = self._database.run(
            lambda connection: connection.execute("SELECT count(*) FROM model").fetchone()
        )
        return int(n_models)

    def forget_all(self) -> int:
        """Remove everything; returns for how many models that was."""
        return self._database.delete("DELETE FROM model")

    def close(self) -> None:
        """Close; calling it again changes nothing."""
        self._database.close()
