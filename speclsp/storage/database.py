"""SQLite databases: private to the user, shared by processes, replaced where damaged.

They keep a rollback journal.  A write-ahead log is faster (0.02 instead of 0.6 ms per commit), but
maps its index into memory: a process that uses it ends by SIGBUS when another cuts that file.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from filelock import Timeout

from speclsp.errors import StoreError
from speclsp.storage.locations import WaitLimit, locked, make_private

Report = Callable[[StoreError], None]
"""Receives a problem that was handled."""

_Result = TypeVar("_Result")

_BUSY_S: Final = 2.0
"""Seconds that a transaction waits for another process."""
_PARTS: Final = ("", "-journal")
"""Endings of a database's files."""
_ASIDE: Final = ".damaged"
_NO_DAMAGE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""Result codes that mean the disk, the memory or another process, not the database."""


_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""Python raises the second where SQLite's message quotes a damaged name."""


class _OtherVersionError(sqlite3.DatabaseError):
    """The database has another version's schema."""


class BusyError(StoreError):
    """Another process is writing; a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class WorkspaceUse:
    """How much a store holds for one workspace."""

    workspace: bytes | None
    """The workspace's id; None for tokens that no workspace uses any more."""
    n_items: int
    n_bytes: int
    n_tokens: int = 0


class Database:
    """A database with a schema.  Safe to use from any thread and several processes.

    A damaged file, or one of another version, is renamed to ``….damaged`` and replaced by a new
    one; ``report`` is called.  All other failures are raised as StoreError.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        version: int,
        report: Report,
        limit: WaitLimit | None = None,
    ) -> None:
        """Open or create the database; ``limit`` bounds waits for other processes.

        Raises StoreError where that is impossible.
        """
        self.path = path
        self._schema = schema
        self._version = version
        self._report = report
        self._limit = limit or WaitLimit()
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened_file: tuple[int, int] | None = None
        with self._lock:
            try:
                self._connection = self._connect()
            except _ERRORS as error:
                if not _is_damage(error):
                    raise self._failure(error) from error
                self._reconnect(error)

    def run(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Run ``work`` in one transaction and return its result.

        Where the database is damaged, ``work`` runs again: by a new connection, since a read error
        of the disk looks like damage and may not return, and then in a new database.
        Raises StoreError, or its subclass BusyError where another process is writing.
        """
        with self._lock:
            for recover in (self._reconnect, self._start_anew):
                try:
                    return self._attempt(work)
                except _ERRORS as error:
                    # A database that was moved or removed by another process is read-only.
                    if not _is_damage(error) and self._file_now() == self._opened_file:
                        raise self._failure(error) from error
                    recover(error)
            try:
                return self._attempt(work)
            except _ERRORS as error:
                raise self._failure(error) from error

    def _reconnect(self, _cause: Exception) -> None:
        try:
            connection = self._connect()
        except _ERRORS as error:
            if not _is_damage(error):
                raise self._failure(error) from error
            self._start_anew(error)
        else:
            self._disconnect()
            self._connection = connection

    def _attempt(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        if self._connection is None:
            raise StoreError(f"{self.path} is closed.")
        with self._connection as connection:
            connection.execute(f"PRAGMA busy_timeout = {self._busy_s() * 1000:.0f}")
            return work(connection)

    def _busy_s(self) -> float:
        return self._limit.seconds(_BUSY_S)

    def compact(self) -> None:
        """Return the space of deleted rows to the file system.  Raises StoreError."""
        self.run(lambda connection: connection.execute("VACUUM"))

    def close(self) -> None:
        """Close; further calls do nothing."""
        self._disconnect()

    def _disconnect(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                try:
                    connection.close()
                except _ERRORS as error:
                    self._report(self._failure(error))

    def _connect(self) -> sqlite3.Connection:
        make_private(self.path)
        self._opened_file = self._file_now()
        connection = sqlite3.connect(self.path, timeout=self._busy_s(), check_same_thread=False)
        try:
            # A damaged database may hold other bytes.
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            if _version_of(connection) == 0:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    if _version_of(connection) == 0:  # no other process was faster
                        for statement in self._schema.split(";"):
                            connection.execute(statement)
                        connection.execute(f"PRAGMA user_version = {self._version}")
            self._check_version(_version_of(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, version: int) -> None:
        if version != self._version:
            raise _OtherVersionError(f"its version is {version}, not {self._version}")

    def _file_now(self) -> tuple[int, int] | None:
        """Return device and inode of the file at ``path``; None if there is no file."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _start_anew(self, cause: Exception) -> None:
        """Rename the damaged file and create a new one, unless another process did so."""
        try:
            with locked(lock_of(self.path), _BUSY_S, self._limit):
                self._disconnect()
                if self._file_now() != self._opened_file:
                    self._connection = self._connect()
                    return
                # The database itself is renamed last: another process that creates a new one keeps
                # the files beside it.
                for part in reversed(_PARTS):
                    source = Path(f"{self.path}{part}")
                    if source.exists():
                        source.replace(f"{self.path}{_ASIDE}{part}")
                self._connection = self._connect()
        except Timeout as error:
            raise BusyError(f"{self.path}: another server is replacing it.") from error
        except (OSError, *_ERRORS) as error:
            raise self._failure(error) from error
        self._report(
            StoreError(
                f"{self.path} is damaged ({cause}).",
                remedy=f"It was set aside as {self.path.name}{_ASIDE}, and a new one was created.",
            )
        )

    def _failure(self, error: Exception) -> StoreError:
        if _is_busy(error):
            remedy = "Close the program that keeps it locked, such as a database browser."
            return BusyError(f"{self.path}: {error}.", remedy=remedy)
        remedy = "Check the disk's space and the folder's permissions, or set persist to false."
        return StoreError(f"{self.path}: {error}.", remedy=remedy)


class WorkspaceStore(Database):
    """Base of the stores, whose rows belong to workspaces.

    All methods raise StoreError where the disk or the file is at fault.
    """

    table: ClassVar[str]
    columns: ClassVar[str]
    """SQL for the fields of :class:`WorkspaceUse`, grouped by workspace."""
    forget_one: ClassVar[tuple[str, ...]]
    """Statements that remove the rows of ``:workspace``; the first one counts."""
    forget_every: ClassVar[tuple[str, ...]]
    """Statements that remove all rows; the first one counts."""

    def uses(self) -> list[WorkspaceUse]:
        """Return how much is stored by workspace, the largest number of items first."""
        query = (
            f"SELECT {self.columns} FROM {self.table} "  # noqa: S608  constants
            "WHERE typeof(workspace) IN ('blob', 'null') GROUP BY workspace ORDER BY 2 DESC"
        )
        return [WorkspaceUse(*row) for row in self.run(lambda c: c.execute(query).fetchall())]

    def forget(self, workspace: bytes) -> int:
        """Remove what only this workspace uses, by its id; return how many items there were."""
        return self._remove(self.forget_one, workspace)

    def forget_all(self) -> int:
        """Remove everything; return how many items there were."""
        return self._remove(self.forget_every, b"")

    def _remove(self, statements: tuple[str, ...], workspace: bytes) -> int:
        def remove(connection: sqlite3.Connection) -> int:
            values = {"workspace": workspace}
            n_items, *_ = [connection.execute(each, values).rowcount for each in statements]
            return n_items

        n_removed = self.run(remove)
        self.compact()
        return n_removed


def lock_of(path: Path) -> Path:
    """Return the file that is locked while a damaged database is replaced."""
    return path.with_name(f"{path.name}.lock")


def files_of(path: Path) -> list[Path]:
    """Return the existing files of a database."""
    return [file for part in _PARTS if (file := Path(f"{path}{part}")).exists()]


def aside_files_of(path: Path) -> list[Path]:
    """Return the files of a damaged database that were set aside."""
    return files_of(Path(f"{path}{_ASIDE}"))


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_busy(error: Exception) -> bool:
    return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _is_damage(error: Exception) -> bool:
    """Whether an error means a damaged file: the statements are right, so most errors do."""
    code = _code(error)
    if code is None:
        return isinstance(error, (_OtherVersionError, UnicodeDecodeError))
    return code not in _NO_DAMAGE


def _code(error: Exception) -> int | None:
    """Return SQLite's primary result code; None where Python's module raised the error."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
