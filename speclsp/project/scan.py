"""Walks a workspace folder and yields the files that may be indexed."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from speclsp.project.ignore import IgnoreRules
from speclsp.secrets.paths import is_secret_path

_FOREIGN_TREES = frozenset({"pyvenv.cfg", "CACHEDIR.TAG", "conda-meta"})
"""What stands in a folder that a program made for itself, whatever its name."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What changes when a file's content does."""

    n_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        """Take it from a file's status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def as_tuple(self) -> tuple[int, ...]:
        """Return it as plain numbers."""
        return (self.n_bytes, self.mtime_ns, self.ctime_ns, self.inode)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be indexed.  ``path`` is absolute, ``relative`` has slashes."""

    path: str
    relative: str
    signature: Signature


@dataclass(slots=True)
class ScanTally:
    """What a scan saw beside the files that it yielded."""

    n_files: int = 0
    n_skipped: int = 0
    """Files that are too big, or look secret."""
    n_unreadable: int = 0
    """Folders that could not be read."""
    truncated: bool = False
    """Whether there are more files than may be indexed."""
    folders: dict[str, bool] = field(default_factory=dict)
    """Every folder walked, and whether something in it is a folder that was not."""


def scan(
    root: Path,
    rules: IgnoreRules,
    tally: ScanTally,
    *,
    max_file_size: int,
    max_files: int,
    start: str = "",
    pause: Callable[[], None] = lambda: None,
) -> Iterator[FoundFile]:
    """Yield the files below ``start`` (relative to ``root``), nearer ones first.

    Links are not followed, as in git: a target inside the folder is found at its own place, and
    one outside does not belong to it.  So there are no loops; a folder that is reached twice all
    the same (a mount) is walked once.  What vanishes meanwhile or cannot be read is passed over.
    ``pause`` is called before each folder; what it raises is passed on.
    """
    waiting: deque[str] = deque([start])
    walked: set[tuple[int, int]] = set()
    while waiting:
        pause()
        folder = waiting.popleft()
        entries = _entries(root / folder, walked, tally)
        if folder and not _FOREIGN_TREES.isdisjoint(entry.name for entry in entries):
            _mark_parent(tally, folder)
            continue
        tally.folders[folder] = False
        for entry in entries:
            relative = f"{folder}/{entry.name}" if folder else entry.name
            kind = _kind(entry)
            if kind == "folder":
                if rules.ignored(relative + "/"):
                    tally.folders[folder] = True
                else:
                    waiting.append(relative)
            elif kind == "file" and not rules.ignored(relative):
                found = _found(entry, relative, max_file_size, tally)
                if found is None:
                    continue
                if tally.n_files >= max_files:
                    tally.truncated = True
                    return
                tally.n_files += 1
                yield found


def examine(root: Path, relative: str, *, max_file_size: int) -> FoundFile | None:
    """Look at one file by its path; None where it may not be indexed or is not there.

    Whether it is ignored is not asked here.
    """
    path = root / relative
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > max_file_size:
        return None
    if status.st_size == 0 or is_secret_path(relative):
        return None
    return FoundFile(str(path), relative, Signature.of(status))


def _entries(
    folder: Path, walked: set[tuple[int, int]], tally: ScanTally
) -> list[os.DirEntry[str]]:
    try:
        status = folder.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in walked:
            return []
        walked.add(identity)
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        tally.n_unreadable += 1
        return []


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if entry.is_file(follow_symlinks=False):
            return "file"
    except OSError:
        return ""
    return ""


def _found(
    entry: os.DirEntry[str], relative: str, max_file_size: int, tally: ScanTally
) -> FoundFile | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    if status.st_size > max_file_size or is_secret_path(relative):
        tally.n_skipped += 1
        return None
    if status.st_size == 0:
        return None
    return FoundFile(entry.path, relative, Signature.of(status))


def _mark_parent(tally: ScanTally, folder: str) -> None:
    tally.folders[folder.rpartition("/")[0]] = True
