"""Stores completions that the user accepted, per workspace.

They are the user's text, so the store is in the state folder and limited in number and age.
The counts of their n-grams follow from them and are not stored.  A text that a statistics file
counts, too, has that file's id, so that it counts once.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Self

from speclsp.storage.database import Report, WorkspaceStore
from speclsp.storage.locations import WaitLimit, accepted_store_path, workspace_id

MAX_TEXTS: Final = 2_000
"""Texts kept per workspace; the oldest are removed first."""
MAX_AGE_S: Final = 180 * 86_400
"""Seconds that a text is kept."""
MAX_TEXT_BYTES: Final = 16_384
"""Longer texts are not stored."""

_VERSION: Final = 3
_SCHEMA: Final = """
CREATE TABLE accepted (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace BLOB NOT NULL,
    accepted_s INTEGER NOT NULL,
    text TEXT NOT NULL,
    n_before INTEGER NOT NULL,
    counted_as TEXT NOT NULL DEFAULT ''
);
CREATE INDEX accepted_by_workspace ON accepted (workspace, id);
CREATE INDEX accepted_by_time ON accepted (accepted_s)
"""


class KeptText(NamedTuple):
    """The last lines before an accepted text, and that text itself."""

    text: str
    n_before: int
    """Characters of ``text`` before the accepted part."""
    counted_as: str
    """The id of the statistics file that counts it; "" for none."""


class AcceptedStore(WorkspaceStore):
    """Appended texts are on disk when the call returns."""

    table = "accepted"
    columns = "workspace, count(*), sum(length(CAST(text AS BLOB)))"
    forget_one = ("DELETE FROM accepted WHERE workspace = :workspace",)
    forget_every = ("DELETE FROM accepted",)

    def __init__(
        self,
        path: Path,
        *,
        max_texts: int = MAX_TEXTS,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
        limit: WaitLimit | None = None,
    ) -> None:
        super().__init__(path, _SCHEMA, _VERSION, report, limit)
        self._max_texts = max_texts
        self._clock = clock

    @classmethod
    def open(cls, report: Report = lambda _error: None, limit: WaitLimit | None = None) -> Self:
        """Open the user's store.  ``report`` is called where a damaged file was replaced."""
        return cls(accepted_store_path(), report=report, limit=limit)

    def append(self, root: str, text: str, n_before: int = 0) -> int | None:
        """Store a text accepted in the workspace ``root``; see :class:`KeptText`.

        Returns its number; None for a text that is too long.
        """
        text_bytes = text.encode("utf-8", errors="replace")
        if len(text_bytes) > MAX_TEXT_BYTES:
            return None
        workspace, now_s = workspace_id(root), int(self._clock())

        def insert(connection: sqlite3.Connection) -> int | None:
            number = connection.execute(
                "INSERT INTO accepted (workspace, accepted_s, text, n_before) VALUES (?, ?, ?, ?)",
                (workspace, now_s, text_bytes.decode(), n_before),
            ).lastrowid
            connection.execute(
                "DELETE FROM accepted WHERE workspace = ? AND id <= (SELECT id FROM accepted "
                "WHERE workspace = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (workspace, workspace, self._max_texts),
            )
            connection.execute("DELETE FROM accepted WHERE accepted_s < ?", (now_s - MAX_AGE_S,))
            return number

        return self.run(insert)

    def mark(self, number: int, counted_as: str) -> None:
        """Store the id of the statistics file that counts a text; "" for none."""
        self.run(
            lambda connection: connection.execute(
                "UPDATE accepted SET counted_as = ? WHERE id = ?", (counted_as, number)
            )
        )

    def texts(self) -> list[str]:
        """Return the texts of all workspaces."""
        rows = self.run(
            lambda connection: connection.execute(
                "SELECT text FROM accepted WHERE typeof(text) = 'text'"
            ).fetchall()
        )
        return [text for (text,) in rows]

    def remove(self, is_removed: Callable[[str], bool]) -> int:
        """Remove the texts of all workspaces of which this is true; return how many there were."""

        def remove(connection: sqlite3.Connection) -> int:
            rows = connection.execute(
                "SELECT id, text FROM accepted WHERE typeof(text) = 'text'"
            ).fetchall()
            removed = [(number,) for number, text in rows if is_removed(text)]
            connection.executemany("DELETE FROM accepted WHERE id = ?", removed)
            return len(removed)

        return self.run(remove)

    def recent(self, root: str, n_texts: int) -> list[KeptText]:
        """Return at most the ``n_texts`` newest texts of a workspace, the oldest first."""
        oldest_s = int(self._clock()) - MAX_AGE_S
        rows = self.run(
            lambda connection: connection.execute(
                "SELECT text, n_before, counted_as FROM accepted "
                "WHERE workspace = ? AND accepted_s >= ? AND typeof(text) = 'text' "
                "AND typeof(n_before) = 'integer' AND typeof(counted_as) = 'text' "
                "ORDER BY id DESC LIMIT ?",
                (workspace_id(root), oldest_s, n_texts),
            ).fetchall()
        )
        return [KeptText(*row) for row in reversed(rows)]
