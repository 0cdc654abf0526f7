"""Files' tokens, kept so that a restart tokenises nothing again.

Tokens are found by the hash of a file's content and by the vocabulary, so it does not matter
where the file lies or what it is called, and no path is kept.  For each workspace, known by the
hash of its path, the store notes which tokens it uses.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from speclsp.drafting.protocol import TokenArray
from speclsp.errors import StoreError
from speclsp.storage.database import BusyError, Database, Report
from speclsp.storage.locations import cache_dir, token_store_path, workspace_id

MAX_BYTES: Final = 512 * 2**20
"""Compressed tokens that are kept; the longest unused go first."""

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE vocabulary (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE
);
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY,
    vocabulary INTEGER NOT NULL REFERENCES vocabulary ON DELETE CASCADE,
    content BLOB NOT NULL,
    used INTEGER NOT NULL,
    n_tokens INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    compressed BLOB NOT NULL,
    UNIQUE (vocabulary, content)
);
CREATE INDEX tokens_by_use ON tokens (used, n_bytes);
CREATE TABLE use (
    workspace BLOB NOT NULL,
    tokens INTEGER NOT NULL REFERENCES tokens ON DELETE CASCADE,
    PRIMARY KEY (workspace, tokens)
) WITHOUT ROWID;
CREATE INDEX use_by_tokens ON use (tokens)
"""

_FORMER_INDEX: Final = "index"
_DAY_S: Final = 86_400
_MAX_PENDING_BYTES: Final = 8 * 2**20
_MOST_PENDING_BYTES: Final = 64 * 2**20
_COMPRESSION: Final = 1


@dataclass(frozen=True, slots=True)
class TokenUse:
    """What the store holds for one workspace; ``workspace`` is None for unused tokens."""

    workspace: bytes | None
    n_files: int
    n_tokens: int
    n_bytes: int


class TokenStore:
    """Safe to use from any thread, and from several servers at once.

    What is put is written in batches, so that no transaction is open for long.  All methods raise
    :class:`~speclsp.errors.StoreError` where the disk or the file is at fault.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        self._database = Database(path, _SCHEMA, _VERSION, report)
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, bytes], tuple[bytes, int, bytes]] = {}
        self._n_pending_bytes = 0

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Open the user's store.  ``report`` hears of a damaged file that was replaced.

        Removes the index that earlier versions kept beside it; it is sorted from the tokens now.
        """
        shutil.rmtree(cache_dir() / _FORMER_INDEX, ignore_errors=True)
        return cls(token_store_path(), report=report)

    def get(self, fingerprint: str, content: bytes) -> TokenArray | None:
        """Return the tokens of a content; None if they are missing or damaged."""
        with self._lock:
            pending = self._pending.get((fingerprint, content))
        if pending is not None:
            return _unpacked(pending[2], pending[1])
        try:
            row = self._database.run(
                lambda connection: connection.execute(
                    "SELECT compressed, n_tokens FROM tokens WHERE content = ? AND vocabulary = "
                    "(SELECT id FROM vocabulary WHERE fingerprint = ?)",
                    (content, fingerprint),
                ).fetchone()
            )
        except BusyError:
            return None
        return None if row is None else _unpacked(*row)

    def put(self, root: str, fingerprint: str, content: bytes, tokens: TokenArray) -> None:
        """Keep the tokens of a content that the workspace ``root`` uses."""
        packed = zlib.compress(np.asarray(tokens, dtype="<i4").tobytes(), _COMPRESSION)
        with self._lock:
            self._pending[fingerprint, content] = (workspace_id(root), len(tokens), packed)
            self._n_pending_bytes += len(packed)
            is_due = self._n_pending_bytes >= _MAX_PENDING_BYTES
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Write pending tokens, and evict the longest unused ones where there are too many.

        While another process writes, it waits for a later flush, up to a bound.
        """
        with self._lock:
            pending, self._pending = self._pending, {}
            n_bytes, self._n_pending_bytes = self._n_pending_bytes, 0
        if not pending:
            return
        try:
            self._database.run(lambda connection: self._write(connection, pending))
        except BusyError:
            if n_bytes < _MOST_PENDING_BYTES:
                with self._lock:
                    self._pending = pending | self._pending
                    self._n_pending_bytes += n_bytes

    def note_use(self, root: str, fingerprint: str, contents: Iterable[bytes]) -> None:
        """Record which contents a workspace uses, so that others are evicted first."""
        workspace, day = workspace_id(root), self._today()
        rows = [(workspace, content, fingerprint) for content in contents]
        self.flush()

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM use WHERE workspace = ?", (workspace,))
            connection.executemany(_NOTE_USE, rows)
            connection.execute(
                "UPDATE tokens SET used = ? WHERE used < ? AND id IN "
                "(SELECT tokens FROM use WHERE workspace = ?)",
                (day, day, workspace),
            )

        with suppress(BusyError):
            self._database.run(replace)

    def uses(self) -> list[TokenUse]:
        """Return what is kept, by workspace."""
        rows = self._database.run(
            lambda connection: connection.execute(
                "SELECT workspace, count(*), sum(n_tokens), sum(n_bytes) FROM tokens "
                "LEFT JOIN use ON use.tokens = tokens.id GROUP BY workspace ORDER BY 4 DESC"
            ).fetchall()
        )
        return [TokenUse(*row) for row in rows]

    def forget(self, workspace: bytes) -> int:
        """Remove what only this workspace uses; returns how many files' tokens that were.

        ``workspace`` is an id as :func:`~speclsp.storage.locations.workspace_id` gives it.
        """

        def delete(connection: sqlite3.Connection) -> int:
            n_removed = connection.execute(
                "DELETE FROM tokens WHERE id IN (SELECT tokens FROM use WHERE workspace = ?) "
                "AND id NOT IN (SELECT tokens FROM use WHERE workspace <> ?)",
                (workspace, workspace),
            ).rowcount
            connection.execute("DELETE FROM use WHERE workspace = ?", (workspace,))
            return n_removed

        n_removed = self._database.run(delete)
        self._database.compact()
        return n_removed

    def forget_all(self) -> int:
        """Remove everything; returns how many files' tokens that were."""

        def delete(connection: sqlite3.Connection) -> int:
            n_removed = connection.execute("DELETE FROM tokens").rowcount
            connection.execute("DELETE FROM vocabulary")
            return n_removed

        n_removed = self._database.run(delete)
        self._database.compact()
        return n_removed

    def close(self) -> None:
        """Write pending tokens and close; never raises."""
        try:
            self.flush()
        except StoreError:
            # Tokens can be made again: nothing is lost but time.
            self._pending.clear()
        self._database.close()

    def _write(
        self,
        connection: sqlite3.Connection,
        pending: Mapping[tuple[str, bytes], tuple[bytes, int, bytes]],
    ) -> None:
        day = self._today()
        connection.executemany(
            "INSERT INTO vocabulary (fingerprint) VALUES (?) ON CONFLICT DO NOTHING",
            {(fingerprint,) for fingerprint, _ in pending},
        )
        connection.executemany(
            _INSERT,
            [
                (content, day, n_tokens, len(packed), packed, fingerprint)
                for (fingerprint, content), (_, n_tokens, packed) in pending.items()
            ],
        )
        connection.executemany(
            _NOTE_USE,
            [
                (workspace, content, fingerprint)
                for (fingerprint, content), (workspace, _, _) in pending.items()
            ],
        )
        (n_bytes,) = connection.execute("SELECT sum(n_bytes) FROM tokens").fetchone()
        if n_bytes > self._max_bytes:
            connection.execute(_EVICT, (n_bytes - self._max_bytes,))

    def _today(self) -> int:
        return int(self._clock() // _DAY_S)


_INSERT: Final = (
    "INSERT INTO tokens (vocabulary, content, used, n_tokens, n_bytes, compressed) "
    "SELECT id, ?, ?, ?, ?, ? FROM vocabulary WHERE fingerprint = ? "
    "ON CONFLICT (vocabulary, content) DO UPDATE SET used = excluded.used, "
    "n_tokens = excluded.n_tokens, n_bytes = excluded.n_bytes, compressed = excluded.compressed"
)
_NOTE_USE: Final = (
    "INSERT OR IGNORE INTO use (workspace, tokens) SELECT ?, tokens.id FROM tokens "
    "WHERE tokens.content = ? AND tokens.vocabulary = "
    "(SELECT id FROM vocabulary WHERE fingerprint = ?)"
)
_EVICT: Final = """
DELETE FROM tokens WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(n_bytes) OVER (ORDER BY used, id) - n_bytes AS n_before FROM tokens
    ) WHERE n_before < ?
)
"""


def _unpacked(packed: bytes, n_tokens: int) -> TokenArray | None:
    try:
        data = zlib.decompress(packed)
    except zlib.error:
        return None
    if len(data) != 4 * n_tokens:
        return None
    return np.frombuffer(data, dtype="<i4").astype(np.int32)
