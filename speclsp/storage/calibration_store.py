"""How often drafts were right, per model: two numbers for each cell of the calibration."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from speclsp.storage.locations import calibration_store_path
from speclsp.storage.per_model_store import PerModelStore

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


class CalibrationStore(PerModelStore):
    """A calibration's cells, by model.  Of several servers, who saves last is kept."""

    schema = _SCHEMA
    version = 1
    users_path = staticmethod(calibration_store_path)

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
