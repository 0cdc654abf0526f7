"""Which files of which folders hold which content.

A content is indexed once, however many files hold it: copies, renamed files and files that two
overlapping folders share cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain

from speclsp.project.scan import Signature


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was when last read; ``content`` is None for one that is not indexed."""

    signature: Signature
    content: bytes | None


class FileTable:
    """Safe to use from any thread.  Paths are absolute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, FileRecord]] = {}
        self._holders: dict[bytes, set[tuple[str, str]]] = {}

    def record(self, root: str, path: str) -> FileRecord | None:
        """Return what is known of a file of the folder ``root``."""
        return self._records.get(root, {}).get(path)

    def put(self, root: str, path: str, record: FileRecord) -> bytes | None:
        """Note a file; returns a content that no file holds any more."""
        with self._lock:
            orphan = self._drop(root, path)
            self._records.setdefault(root, {})[path] = record
            if record.content is not None:
                self._holders.setdefault(record.content, set()).add((root, path))
        return None if orphan == record.content else orphan

    def remove(self, root: str, path: str) -> bytes | None:
        """Forget a file; returns a content that no file holds any more."""
        with self._lock:
            return self._drop(root, path)

    def paths(self, root: str) -> list[str]:
        """Return all files known of a folder."""
        return list(self._records.get(root, ()))

    def paths_below(self, root: str, folder: str) -> list[str]:
        """Return the files known in a folder of a workspace folder, at any depth."""
        start = folder.rstrip("/") + "/"
        return [path for path in self._records.get(root, ()) if path.startswith(start)]

    def held_only_by(self, paths: Collection[str]) -> set[bytes]:
        """Return the contents that no other files hold than these."""
        with self._lock:
            contents = {
                record.content
                for records in self._records.values()
                for path in paths
                if (record := records.get(path)) is not None and record.content is not None
            }
            return {
                content
                for content in contents
                if all(path in paths for _, path in self._holders[content])
            }

    def forget_skipped(self, root: str) -> None:
        """Forget the files of a folder that were read and are not indexed."""
        with self._lock:
            records = self._records.get(root, {})
            for path in [path for path, record in records.items() if record.content is None]:
                del records[path]

    def records(self, root: str) -> Iterator[tuple[str, FileRecord]]:
        """Iterate over a folder's files."""
        yield from list(self._records.get(root, {}).items())

    def contents(self, root: str) -> Iterator[bytes]:
        """Iterate over the contents of a folder's files."""
        for record in list(self._records.get(root, {}).values()):
            if record.content is not None:
                yield record.content

    @property
    def n_files(self) -> int:
        """Files that are indexed, each path once."""
        with self._lock:
            return len({path for _, path in chain.from_iterable(self._holders.values())})

    @property
    def n_skipped(self) -> int:
        """Files that were read and are not indexed."""
        with self._lock:
            return sum(
                record.content is None
                for records in self._records.values()
                for record in records.values()
            )

    def _drop(self, root: str, path: str) -> bytes | None:
        record = self._records.get(root, {}).pop(path, None)
        if record is None or record.content is None:
            return None
        holders = self._holders[record.content]
        holders.discard((root, path))
        if holders:
            return None
        del self._holders[record.content]
        return record.content
