"""A SQLite database: private to the user, shared between servers, replaced where it is damaged."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from speclsp.errors import StoreError
from speclsp.storage.locations import make_private

if sys.platform != "win32":
    import fcntl

Report = Callable[[StoreError], None]
"""Hears of a problem that was dealt with."""

_Result = TypeVar("_Result")

_BUSY_S: Final = 2.0
_POLL_S: Final = 0.01
_PARTS: Final = ("", "-wal", "-shm")
_ASIDE: Final = ".damaged"


class BusyError(StoreError):
    """Another process is writing; later it may go well."""


class Database:
    """A database with a schema.  Safe to use from any thread, one at a time.

    A damaged file, or one of another version, is set aside under the name ``….damaged`` and a new
    one is begun; ``report`` hears of it.  All other failures are raised as StoreError.
    """

    def __init__(self, path: Path, schema: str, version: int, report: Report) -> None:
        """Open or make the database.  Raises StoreError where that is impossible."""
        self.path = path
        self._schema = schema
        self._version = version
        self._report = report
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened_file: tuple[int, int] | None = None
        with self._lock:
            try:
                self._connection = self._connect()
            except sqlite3.Error as error:
                if not _is_damage(error):
                    raise self._failure(error) from error
                self._start_anew(error)

    def run(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Run statements that are committed together, or not at all; return what ``work`` does.

        In a damaged database the work is done again after a new one was begun.
        Raises StoreError where it fails, and of that BusyError where another process is writing.
        """
        with self._lock:
            try:
                return self._attempt(work)
            except sqlite3.Error as error:
                if not _is_damage(error):
                    raise self._failure(error) from error
                self._start_anew(error)
            try:
                return self._attempt(work)
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def _attempt(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        connection = self._opened()
        with connection:
            return work(connection)

    def delete(self, statement: str, *parameters: bytes) -> int:
        """Run a DELETE and compact; returns how many rows it removed.  Raises StoreError."""
        n_removed = self.run(lambda connection: connection.execute(statement, parameters).rowcount)
        self.compact()
        return n_removed

    def compact(self) -> None:
        """Return the space of deleted rows to the file system.  Raises StoreError."""
        with self._lock:
            connection = self._opened()
            try:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def close(self) -> None:
        """Close; calling it again changes nothing."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                try:
                    connection.close()
                except sqlite3.Error as error:
                    self._report(self._failure(error))

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self.path} is closed.")
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        make_private(self.path)
        self._opened_file = self._file_now()
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version == 0:
                    for statement in self._schema.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {self._version}")
                else:
                    self._check_version(version)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, version: int) -> None:
        if version != self._version:
            raise sqlite3.DatabaseError(f"its version is {version}, not {self._version}")

    def _file_now(self) -> tuple[int, int] | None:
        """Return the identity of the file at ``path``; None if there is no file."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _start_anew(self, cause: sqlite3.Error) -> None:
        """Rename the damaged file and create a new one, unless another server has done so."""
        try:
            with file_lock(self.path.parent, _BUSY_S):
                self.close()
                if self._file_now() != self._opened_file:
                    self._connection = self._connect()
                    return
                # The database itself goes last: what another server begins in its place keeps
                # the files that it makes beside it.
                for part in reversed(_PARTS):
                    source = Path(f"{self.path}{part}")
                    if source.exists():
                        source.replace(f"{self.path}{_ASIDE}{part}")
                self._connection = self._connect()
        except (OSError, sqlite3.Error) as error:
            raise self._failure(error) from error
        self._report(
            StoreError(
                f"{self.path} is damaged ({cause}).",
                remedy=f"It was set aside as {self.path.name}{_ASIDE} and begun anew.",
            )
        )

    def _failure(self, error: Exception) -> StoreError:
        kind = BusyError if _is_busy(error) else StoreError
        return kind(
            f"{self.path}: {error}.",
            remedy="Check the disk's space and the folder's permissions, or set persist to false.",
        )


def files_of(path: Path) -> list[Path]:
    """Return the files that a database consists of now."""
    return [file for part in _PARTS if (file := Path(f"{path}{part}")).exists()]


def aside_files_of(path: Path) -> list[Path]:
    """Return the files of a damaged database that was set aside."""
    return files_of(Path(f"{path}{_ASIDE}"))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch the database to write-ahead logging, which lets readers work beside a writer.

    SQLite refuses at once, whatever the time it may wait, where another process is writing a file
    that has not been switched yet.  Until a later connection switches it, its old mode serves.
    """
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise


def _is_busy(error: Exception) -> bool:
    if isinstance(error, TimeoutError):
        return True
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether an error means that the file is damaged, and not busy or unreachable."""
    if isinstance(error, sqlite3.OperationalError):
        # What a half-written schema looks like.
        return str(error).startswith("no such ")
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.NotSupportedError)
    )


@contextmanager
def file_lock(folder: Path, patience_s: float) -> Iterator[None]:
    """Hold a lock on a folder, after waiting for any process or thread that holds it.

    Where folders cannot be locked, nothing is waited for.
    Raises TimeoutError if the lock is not free within ``patience_s`` seconds.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        yield
        return
    try:
        until_s = time.monotonic() + patience_s
        while not _is_locked_by(descriptor):
            if time.monotonic() >= until_s:
                raise TimeoutError(f"another server has been busy in it for {patience_s:g} s")
            time.sleep(_POLL_S)
        yield
    finally:
        # The lock goes with its descriptor, and with the process.
        os.close(descriptor)


def _is_locked_by(descriptor: int) -> bool:
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True
