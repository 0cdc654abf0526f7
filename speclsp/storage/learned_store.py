"""Counts of the n-grams that the user accepted, per workspace and vocabulary.

Counts are added where they are kept, so that several servers may learn at once.  They age: a count
is halved for every half-life without news, and what fades to nothing no longer counts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from speclsp.storage.database import Database, Report
from speclsp.storage.locations import learned_store_path, workspace_id

MAX_NGRAMS: Final = 200_000
"""Pairs of n-gram and follower that are kept per workspace; the least counted go first."""
MAX_NGRAMS_IN_ALL: Final = 2_000_000
HALF_LIFE_DAYS: Final = 90

_DAY_S: Final = 86_400
_KEPT_SHARE: Final = 0.9
"""What is left after there was too much, so that this is not so again at once."""
_BYTES_PER_ROW: Final = 48

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


@dataclass(frozen=True, slots=True)
class LearnedUse:
    """What the store keeps for one workspace."""

    workspace: bytes
    n_ngrams: int
    n_bytes: int
    """About so much of the file."""


class LearnedStore:
    """Safe to use from any thread, and from several servers at once.

    What is added is on disk when the call returns.  All methods raise
    :class:`~speclsp.errors.StoreError` where the disk or the file is at fault, and of that
    :class:`~speclsp.storage.database.BusyError` where another process is writing.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_ngrams: int = MAX_NGRAMS,
        max_ngrams_in_all: int = MAX_NGRAMS_IN_ALL,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        self._database = Database(path, _SCHEMA, _VERSION, report)
        self._max_ngrams = max_ngrams
        self._max_ngrams_in_all = max_ngrams_in_all
        self._clock = clock

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Open the user's store.  ``report`` hears of a damaged file that was replaced."""
        return cls(learned_store_path(), report=report)

    def add(self, root: str, fingerprint: str, sightings: Sequence[Sighting]) -> None:
        """Count what was accepted in the workspace ``root``."""
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

        self._database.run(count)

    def load(self, root: str, fingerprint: str) -> list[Sighting]:
        """Return what was counted in a workspace with a vocabulary, aged."""
        values = {
            "workspace": workspace_id(root),
            "fingerprint": fingerprint,
            **self._aging(),
        }
        rows = self._database.run(lambda connection: connection.execute(_LOAD, values).fetchall())
        return [Sighting(_unpacked(packed), follower, count) for packed, follower, count in rows]

    def uses(self) -> list[LearnedUse]:
        """Return what is kept, by workspace."""
        rows = self._database.run(
            lambda connection: connection.execute(
                "SELECT workspace, count(*), sum(2 * length(tokens)) FROM ngram "
                "GROUP BY workspace ORDER BY 2 DESC"
            ).fetchall()
        )
        return [LearnedUse(place, n, n_bytes + n * _BYTES_PER_ROW) for place, n, n_bytes in rows]

    def forget(self, workspace: bytes) -> int:
        """Remove the counts of a workspace, given by its id; returns how many they were."""
        return self._database.delete("DELETE FROM ngram WHERE workspace = ?", workspace)

    def forget_all(self) -> int:
        """Remove everything; returns how many counts that were."""
        return self._database.delete("DELETE FROM ngram")

    def close(self) -> None:
        """Close; calling it again changes nothing."""
        self._database.close()

    def _make_room(self, connection: sqlite3.Connection, values: dict[str, bytes | int]) -> None:
        """Where there is too much, drop what is least counted, of that the oldest."""
        (n_here,) = connection.execute(
            "SELECT count(*) FROM ngram WHERE workspace = :workspace", values
        ).fetchone()
        if n_here > self._max_ngrams:
            n_surplus = n_here - int(_KEPT_SHARE * self._max_ngrams)
            connection.execute(_DROP_IN_WORKSPACE, {**values, "n_surplus": n_surplus})
        (n_in_all,) = connection.execute("SELECT count(*) FROM ngram").fetchone()
        if n_in_all > self._max_ngrams_in_all:
            n_surplus = n_in_all - int(_KEPT_SHARE * self._max_ngrams_in_all)
            connection.execute(_DROP_ANYWHERE, {**values, "n_surplus": n_surplus})

    def _aging(self) -> dict[str, int]:
        """Return what the statements need to age counts."""
        return {"day": int(self._clock() // _DAY_S), "half_life": HALF_LIFE_DAYS}


# A count shifted by the half-lives since it last grew; never the other way, should the clock be
# set back.
_ADD: Final = """
INSERT INTO ngram (workspace, vocabulary, tokens, follower, count, day)
SELECT :workspace, id, :tokens, :follower, :count, :day FROM vocabulary
WHERE fingerprint = :fingerprint
ON CONFLICT (workspace, vocabulary, tokens, follower) DO UPDATE SET
    count = (ngram.count >> max(0, excluded.day - ngram.day) / :half_life) + excluded.count,
    day = excluded.day
"""
_LOAD: Final = """
SELECT tokens, follower, count >> max(0, :day - day) / :half_life AS aged FROM ngram
WHERE workspace = :workspace AND aged > 0
AND vocabulary = (SELECT id FROM vocabulary WHERE fingerprint = :fingerprint)
"""
_DROP_IN_WORKSPACE: Final = """
DELETE FROM ngram WHERE id IN (
    SELECT id FROM ngram WHERE workspace = :workspace
    ORDER BY count >> max(0, :day - day) / :half_life, day, id LIMIT :n_surplus
)
"""
_DROP_ANYWHERE: Final = """
DELETE FROM ngram WHERE id IN (
    SELECT id FROM ngram
    ORDER BY count >> max(0, :day - day) / :half_life, day, id LIMIT :n_surplus
)
"""


def _packed(ngram: tuple[int, ...]) -> bytes:
    return np.array(ngram, dtype="<i4").tobytes()


def _unpacked(packed: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(packed, dtype="<i4").tolist())
