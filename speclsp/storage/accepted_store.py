"""Completions that the user accepted, per workspace.

They are the user's own text, so they are kept in the state folder, few and not for ever.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from speclsp.storage.database import Database, Report
from speclsp.storage.locations import accepted_store_path, workspace_id

MAX_TEXTS: Final = 2_000
"""Texts that are kept per workspace; the oldest go first."""
MAX_AGE_S: Final = 180 * 86_400
"""Seconds that a text is kept."""
MAX_TEXT_BYTES: Final = 16_384
"""Longer texts are not kept."""

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE accepted (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace BLOB NOT NULL,
    accepted_s INTEGER NOT NULL,
    path TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX accepted_by_workspace ON accepted (workspace, id);
CREATE INDEX accepted_by_time ON accepted (accepted_s)
"""


@dataclass(frozen=True, slots=True)
class AcceptedUse:
    """What the store keeps for one workspace."""

    workspace: bytes
    n_texts: int
    n_bytes: int
    last_s: int
    """Seconds since the epoch of the newest."""


class AcceptedStore:
    """Safe to use from any thread, and from several servers at once.

    What is appended is on disk when the call returns.  All methods raise
    :class:`~speclsp.errors.StoreError` where the disk or the file is at fault.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_texts: int = MAX_TEXTS,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        self._database = Database(path, _SCHEMA, _VERSION, report)
        self._max_texts = max_texts
        self._clock = clock

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Open the user's store.  ``report`` hears of a damaged file that was replaced."""
        return cls(accepted_store_path(), report=report)

    def append(self, root: str, path: str, text: str) -> None:
        """Keep a text accepted in a file of the workspace ``root``; ``path`` is relative to it."""
        text_bytes = text.encode("utf-8", errors="replace")
        if len(text_bytes) > MAX_TEXT_BYTES:
            return
        workspace, now_s = workspace_id(root), int(self._clock())
        clean_path = path.encode("utf-8", errors="replace").decode()

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO accepted (workspace, accepted_s, path, text) VALUES (?, ?, ?, ?)",
                (workspace, now_s, clean_path, text_bytes.decode()),
            )
            connection.execute(
                "DELETE FROM accepted WHERE workspace = ? AND id <= (SELECT id FROM accepted "
                "WHERE workspace = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (workspace, workspace, self._max_texts),
            )
            connection.execute("DELETE FROM accepted WHERE accepted_s < ?", (now_s - MAX_AGE_S,))

        self._database.run(insert)

    def recent(self, root: str, n_texts: int) -> list[str]:
        """Return at most ``n_texts`` of the newest texts of a workspace, the oldest first."""
        oldest_s = int(self._clock()) - MAX_AGE_S
        rows = self._database.run(
            lambda connection: connection.execute(
                "SELECT text FROM accepted WHERE workspace = ? AND accepted_s >= ? "
                "ORDER BY id DESC LIMIT ?",
                (workspace_id(root), oldest_s, n_texts),
            ).fetchall()
        )
        return [text for (text,) in reversed(rows)]

    def uses(self) -> list[AcceptedUse]:
        """Return what is kept, by workspace."""
        rows = self._database.run(
            lambda connection: connection.execute(
                "SELECT workspace, count(*), sum(length(CAST(text AS BLOB))), max(accepted_s) "
                "FROM accepted GROUP BY workspace ORDER BY 4 DESC"
            ).fetchall()
        )
        return [AcceptedUse(*row) for row in rows]

    def forget(self, workspace: bytes) -> int:
        """Remove the texts of a workspace, given by its id; returns how many they were."""
        return self._database.delete("DELETE FROM accepted WHERE workspace = ?", workspace)

    def forget_all(self) -> int:
        """Remove everything; returns how many texts that were."""
        return self._database.delete("DELETE FROM accepted")

    def close(self) -> None:
        """Close; calling it again changes nothing."""
        self._database.close()
