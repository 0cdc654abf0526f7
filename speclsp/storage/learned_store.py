"""Stores counts of the n-grams that the user accepted, per workspace and vocabulary.

The database adds the counts, so several servers may learn at once.  Counts age: a count is halved
for every half-life in which it did not grow.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from speclsp.storage.database import Report, WorkspaceStore
from speclsp.storage.locations import learned_store_path, workspace_id

MAX_NGRAMS: Final = 200_000
"""Pairs of n-gram and follower kept per workspace; the smallest counts are removed first."""
MAX_NGRAMS_IN_ALL: Final = 2_000_000
HALF_LIFE_DAYS: Final = 90

_DAY_S: Final = 86_400
_MAX_COUNT: Final = 2**31 - 1
_KEPT_SHARE: Final = 0.9
"""Share that is left after removal, so that the next addition does not remove again."""
_BYTES_PER_ROW: Final = 48
"""Estimated size in the file, besides the tokens and their index entry."""

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE vocabulary (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE
);
CREATE TABLE ngram (
    id INTEGER PRIMARY KEY,
    workspace BLOB NOT NULL,
    vocabulary INTEGER NOT NULL REFERENCES vocabulary ON DELETE CASCADE,
    tokens BLOB NOT NULL,
    follower INTEGER NOT NULL,
    count INTEGER NOT NULL,
    day INTEGER NOT NULL,
    UNIQUE (workspace, vocabulary, tokens, follower)
)
"""


class Sighting(NamedTuple):
    """An n-gram, a token that followed it, and how often."""

    ngram: tuple[int, ...]
    follower: int
    n_seen: int


class LearnedStore(WorkspaceStore):
    """Added counts are on disk when the call returns."""

    table = "ngram"
    columns = f"workspace, count(*), sum(2 * length(tokens) + {_BYTES_PER_ROW})"

    def __init__(
        self,
        path: Path,
        *,
        max_ngrams: int = MAX_NGRAMS,
        max_ngrams_in_all: int = MAX_NGRAMS_IN_ALL,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        super().__init__(path, _SCHEMA, _VERSION, report)
        self._max_ngrams = max_ngrams
        self._max_ngrams_in_all = max_ngrams_in_all
        self._clock = clock

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Open the user's store.  ``report`` is called where a damaged file was replaced."""
        return cls(learned_store_path(), report=report)

    def add(self, root: str, fingerprint: str, sightings: Sequence[Sighting]) -> None:
        """Add counts of what was accepted in the workspace ``root``."""
        aging = self._aging()
        workspace = workspace_id(root)
        rows = [
            {
                "tokens": _packed(seen.ngram),
                "follower": seen.follower,
                "count": seen.n_seen,
                "workspace": workspace,
                "fingerprint": fingerprint,
                **aging,
            }
            for seen in sightings
        ]

        def count(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO vocabulary (fingerprint) VALUES (?) ON CONFLICT DO NOTHING",
                (fingerprint,),
            )
            connection.executemany(_ADD, rows)
            self._make_room(connection, {"workspace": workspace, **aging})

        self.run(count)

    def load(self, root: str, fingerprint: str) -> list[Sighting]:
        """Return the aged counts of a workspace and vocabulary."""
        values = {
            "workspace": workspace_id(root),
            "fingerprint": fingerprint,
            **self._aging(),
        }
        rows = self.run(lambda connection: connection.execute(_LOAD, values).fetchall())
        return [Sighting(_unpacked(packed), follower, count) for packed, follower, count in rows]

    def _make_room(self, connection: sqlite3.Connection, values: dict[str, bytes | int]) -> None:
        """Remove the smallest counts where there are too many, the oldest first."""
        for workspace, n_max in (
            (values["workspace"], self._max_ngrams),
            (None, self._max_ngrams_in_all),
        ):
            chosen = {**values, "workspace": workspace}
            (n_ngrams,) = connection.execute(_COUNT, chosen).fetchone()
            if n_ngrams > n_max:
                n_surplus = n_ngrams - int(_KEPT_SHARE * n_max)
                connection.execute(_DROP, {**chosen, "n_surplus": n_surplus})

    def _aging(self) -> dict[str, int]:
        """Return the statements' parameters for aging."""
        day = int(self._clock() // _DAY_S)
        return {"day": day, "half_life": HALF_LIFE_DAYS, "most": _MAX_COUNT}


# Counts are shifted right by the half-lives since they last grew; max() is for clocks set back.
_ADD: Final = """
INSERT INTO ngram (workspace, vocabulary, tokens, follower, count, day)
SELECT :workspace, id, :tokens, :follower, :count, :day FROM vocabulary
WHERE fingerprint = :fingerprint
ON CONFLICT (workspace, vocabulary, tokens, follower) DO UPDATE SET
    count = min(
        (ngram.count >> max(0, excluded.day - ngram.day) / :half_life) + excluded.count, :most
    ),
    day = excluded.day
"""
_LOAD: Final = """
SELECT tokens, follower, min(count >> max(0, :day - day) / :half_life, :most) AS aged FROM ngram
WHERE workspace = :workspace AND aged > 0 AND typeof(aged) = 'integer'
AND typeof(tokens) = 'blob' AND length(tokens) % 4 = 0
AND typeof(follower) = 'integer' AND follower BETWEEN 0 AND :most
AND vocabulary = (SELECT id FROM vocabulary WHERE fingerprint = :fingerprint)
"""
_COUNT: Final = "SELECT count(*) FROM ngram WHERE :workspace IS NULL OR workspace = :workspace"
_DROP: Final = """
DELETE FROM ngram WHERE id IN (
    SELECT id FROM ngram WHERE :workspace IS NULL OR workspace = :workspace
    ORDER BY count >> max(0, :day - day) / :half_life, day, id LIMIT :n_surplus
)
"""


def _packed(ngram: tuple[int, ...]) -> bytes:
    return np.array(ngram, dtype="<i4").tobytes()


def _unpacked(packed: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(packed, dtype="<i4").tolist())
