"""Stores files' tokens, so that nothing is tokenised again after a restart.

The key is the hash of a file's content with the vocabulary; no path is stored.  For each workspace,
identified by the hash of its path, the store records which tokens it uses.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import numpy as np

from speclsp.drafting.drafter import TokenArray
from speclsp.errors import StoreError
from speclsp.storage.database import BusyError, Report, WorkspaceStore
from speclsp.storage.locations import WaitLimit, token_store_path, workspace_id

MAX_BYTES: Final = 512 * 2**20
"""Maximum bytes of compressed tokens; the longest unused are removed first."""

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

_DAY_S: Final = 86_400
_MAX_PENDING: Final = 20_000
"""Contents that stay pending while another process writes; more are tokenised again later."""
_COMPRESSION: Final = 1


class TokenStore(WorkspaceStore):
    """Writes in batches, so that transactions are short."""

    table = "tokens LEFT JOIN use ON use.tokens = tokens.id"
    columns = "workspace, count(*), sum(n_bytes), sum(n_tokens)"
    forget_one = (
        """DELETE FROM tokens WHERE id IN (SELECT tokens FROM use WHERE workspace = :workspace)
        AND id NOT IN (SELECT tokens FROM use WHERE workspace <> :workspace)""",
        "DELETE FROM use WHERE workspace = :workspace",
    )
    forget_every = ("DELETE FROM tokens", "DELETE FROM vocabulary")

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
        limit: WaitLimit | None = None,
    ) -> None:
        super().__init__(path, _SCHEMA, _VERSION, report, limit)
        self._max_bytes = max_bytes
        self._clock = clock
        self._pending_lock = threading.Lock()
        self._pending: dict[tuple[str, bytes], tuple[bytes, int, bytes]] = {}

    @classmethod
    def open(cls, report: Report = lambda _error: None, limit: WaitLimit | None = None) -> Self:
        """Open the user's store.  ``report`` is called where a damaged file was replaced."""
        return cls(token_store_path(), report=report, limit=limit)

    def get(self, fingerprint: str, content: bytes) -> TokenArray | None:
        """Return the tokens of a content; None if they are missing or damaged."""
        with self._pending_lock:
            pending = self._pending.get((fingerprint, content))
        if pending is not None:
            return _unpacked(pending[2], pending[1])
        try:
            row = self.run(
                lambda connection: connection.execute(
                    "SELECT compressed, n_tokens FROM tokens WHERE content = ? AND vocabulary = "
                    "(SELECT id FROM vocabulary WHERE fingerprint = ?) "
                    "AND typeof(compressed) = 'blob'",
                    (content, fingerprint),
                ).fetchone()
            )
        except BusyError:
            return None
        return None if row is None else _unpacked(*row)

    def put(self, root: str, fingerprint: str, content: bytes, tokens: TokenArray) -> None:
        """Store the tokens of a content that the workspace ``root`` uses with the next flush."""
        packed = zlib.compress(np.asarray(tokens, dtype="<i4").tobytes(), _COMPRESSION)
        with self._pending_lock:
            self._pending[fingerprint, content] = (workspace_id(root), len(tokens), packed)

    def flush(self) -> None:
        """Write pending tokens and remove the longest unused ones where there are too many.

        While another process writes, tokens stay pending, up to a limit.
        """
        with self._pending_lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            self.run(lambda connection: self._write(connection, pending))
        except BusyError:
            if len(pending) < _MAX_PENDING:
                with self._pending_lock:
                    self._pending = pending | self._pending

    def note_use(self, root: str, fingerprint: str, contents: Iterable[bytes]) -> None:
        """Record which contents a workspace uses, so that others are removed first."""
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
            self.run(replace)

    def close(self) -> None:
        """Write pending tokens and close; never raises."""
        try:
            self.flush()
        except StoreError:
            # Tokens can be computed again.
            self._pending.clear()
        super().close()

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
