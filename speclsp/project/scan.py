"""Walks a workspace folder and yields the files that may be indexed."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from speclsp.project.ignore import IgnoreRules
from speclsp.project.source_text import MAX_BYTES
from speclsp.secrets.paths import is_secret_path

MAX_FILES: Final = 20_000
"""Files of a folder that is indexed: walking 6,564 of them takes 0.13 s of processor time."""
_FOREIGN_TREES = frozenset({"pyvenv.cfg", "CACHEDIR.TAG", "conda-meta"})
"""Files that mark a folder as generated."""


class Signature(NamedTuple):
    """File status that changes with the file's content."""

    n_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be indexed; ``path`` is absolute, ``relative`` uses slashes."""

    path: str
    relative: str
    signature: Signature


@dataclass(slots=True)
class ScanTally:
    """Counts of a scan."""

    n_files: int = 0
    n_skipped: int = 0
    """Files that are too large or look secret."""
    n_unreadable: int = 0
    """Unreadable folders."""
    truncated: bool = False
    """Whether there were more files than the maximum."""
    folders: dict[str, bool] = field(default_factory=dict)
    """All scanned folders, each with whether it contains a folder that was not scanned."""


def scan(
    root: Path,
    rules: IgnoreRules,
    tally: ScanTally,
    *,
    max_files: int = MAX_FILES,
    pause: Callable[[], None] = lambda: None,
) -> Iterator[FoundFile]:
    """Yield the files below ``root`` breadth-first.

    As in git, links are not followed.  A folder that is reached twice, by a mount or by a junction
    of Windows, is scanned once.  Files that vanish or cannot be read are skipped.
    ``pause`` is called before each folder, and its exceptions are passed on.
    """
    waiting: deque[str] = deque([""])
    walked: set[tuple[int, int]] = set()
    while waiting:
        pause()
        folder = waiting.popleft()
        entries = _entries(root / folder, walked, tally)
        if folder and not _FOREIGN_TREES.isdisjoint(entry.name for entry in entries):
            tally.folders[folder.rpartition("/")[0]] = True
            continue
        tally.folders[folder] = False
        for entry in entries:
            relative = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder(entry):
                if rules.ignored(relative + "/"):
                    tally.folders[folder] = True
                else:
                    waiting.append(relative)
            elif not rules.ignored(relative):
                found = examine(root, relative, tally)
                if found is None:
                    continue
                if tally.n_files >= max_files:
                    tally.truncated = True
                    return
                tally.n_files += 1
                yield found


def examine(root: Path, relative: str, tally: ScanTally | None = None) -> FoundFile | None:
    """Return a file by its path; None if it is missing or must not be indexed.

    Does not consult the ignore rules.
    """
    path = root / relative
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > MAX_BYTES or is_secret_path(relative, str(path)):
        if tally is not None:
            tally.n_skipped += 1
        return None
    if not status.st_size:
        return None
    found = Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return FoundFile(str(path), relative, found)


def _entries(
    folder: Path, walked: set[tuple[int, int]], tally: ScanTally
) -> list[os.DirEntry[str]]:
    """Return a folder's entries; none if the folder is in ``walked``, its device and inode."""
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


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
