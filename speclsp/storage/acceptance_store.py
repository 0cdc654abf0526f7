"""How often suggestions were accepted, per model and by how sure the model was of them.

Numbers only: no text, no path, no workspace.  Counts are added where they are kept, so that several
servers may learn at once, and they age: a count is halved in every half-life, and one that has
grown large loses of the old what comes anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final, NamedTuple

from speclsp.storage.locations import acceptance_store_path
from speclsp.storage.per_model_store import PerModelStore

HALF_LIFE_DAYS: Final = 30
MAX_SHOWN: Final = 400.0
"""Suggestions that one count remembers: what is older loses weight to what is newer."""

_DAY_S: Final = 86_400
_SCHEMA: Final = """
CREATE TABLE count (
    model TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    n_shown REAL NOT NULL,
    n_chars REAL NOT NULL,
    day INTEGER NOT NULL,
    last_day INTEGER NOT NULL,
    PRIMARY KEY (model, bucket)
) WITHOUT ROWID
"""


class AcceptanceCount(NamedTuple):
    """What became of suggestions of one bucket."""

    n_shown: float
    n_chars: float
    """Characters of them that were accepted."""


class AcceptanceStore(PerModelStore):
    """What became of suggestions, by model and bucket."""

    schema = _SCHEMA
    version = 1
    users_path = staticmethod(acceptance_store_path)

    def add(self, model: str, counts: Mapping[int, AcceptanceCount]) -> None:
        """Add what became of a model's suggestions, by bucket."""
        aging = self._aging()
        rows = [
            {"model": model, "bucket": bucket, **count._asdict(), **aging}
            for bucket, count in counts.items()
        ]

        def count(connection: sqlite3.Connection) -> None:
            connection.execute(_AGE, {"model": model, **aging})
            connection.executemany(_ADD, rows)
            connection.execute(_KEEP_TO_LIMIT, {"model": model, "max_shown": MAX_SHOWN})
            connection.execute(_KEEP_LATEST_MODELS, {"max_models": self._max_models})

        self._database.run(count)

    def load(self, model: str) -> dict[int, AcceptanceCount]:
        """Return a model's counts by bucket, aged."""
        values = {"model": model, **self._aging()}

        def read(connection: sqlite3.Connection) -> list[tuple[int, float, float, float]]:
            connection.execute(_AGE, values)
            return connection.execute(_LOAD, values).fetchall()

        return {bucket: AcceptanceCount(*count) for bucket, *count in self._database.run(read)}

    def n_models(self) -> int:
        """Return for how many models something is kept."""
        (n_models,) = self._database.run(
            lambda connection: connection.execute(
                "SELECT count(DISTINCT model) FROM count"
            ).fetchone()
        )
        return int(n_models)

    def forget_all(self) -> int:
        """Remove everything; returns how many counts that were."""
        return self._database.delete("DELETE FROM count")

    def _aging(self) -> dict[str, int]:
        """Return what the statements need to age counts."""
        return {"day": int(self._clock() // _DAY_S), "half_life": HALF_LIFE_DAYS}


# All counts of a model are aged before any is added to: halved for each half-life that has passed,
# at most 60 times, as far as shifts go; never the other way, should the clock be set back.
_AGE: Final = """
UPDATE count SET
    n_shown = n_shown / (1 << min(60, (:day - day) / :half_life)),
    n_chars = n_chars / (1 << min(60, (:day - day) / :half_life)),
    day = day + (:day - day) / :half_life * :half_life
WHERE model = :model AND :day - day >= :half_life
"""
_ADD: Final = """
INSERT INTO count (model, bucket, n_shown, n_chars, day, last_day)
VALUES (:model, :bucket, :n_shown, :n_chars, :day, :day)
ON CONFLICT (model, bucket) DO UPDATE SET
    n_shown = count.n_shown + excluded.n_shown,
    n_chars = count.n_chars + excluded.n_chars,
    last_day = excluded.last_day
"""
_LOAD: Final = """
SELECT bucket, n_shown, n_chars FROM count WHERE model = :model ORDER BY bucket
"""
_KEEP_TO_LIMIT: Final = """
UPDATE count SET
    n_chars = n_chars * :max_shown / n_shown,
    n_shown = :max_shown
WHERE model = :model AND n_shown > :max_shown
"""
_KEEP_LATEST_MODELS: Final = """
DELETE FROM count WHERE model NOT IN (
    SELECT model FROM count GROUP BY model ORDER BY max(last_day) DESC, model LIMIT :max_models
)
"""
