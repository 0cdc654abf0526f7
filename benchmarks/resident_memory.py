"""How much memory processes occupy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MIB: Final = 1 << 20


def resident_bytes() -> int | None:
    """Return this process's resident memory; None where the system does not say."""
    pages = _resident_pages(Path("/proc/self"))
    return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")


def tree_resident_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return the resident memory of a process and all below it; None where that is not told.

    Pages that several of them share, as those of a model file are, count for each.
    """
    parents = dict(_parents(proc))
    tree, found = {pid}, True
    while found:
        below = {child for child, parent in parents.items() if parent in tree} - tree
        tree |= below
        found = bool(below)
    pages = [n for member in tree if (n := _resident_pages(proc / str(member))) is not None]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") if pages else None


def tree_resident_mib(pid: int) -> float:
    """Return the same in MiB, 0 where it is not told, as of a process that has ended."""
    return (tree_resident_bytes(pid) or 0) / _MIB


def _parents(proc: Path) -> Iterator[tuple[int, int]]:
    """Yield each process with its parent."""
    for folder in proc.glob("[0-9]*"):
        try:
            # The second field is the program's name in brackets, which may hold anything.
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            yield int(folder.name), int(fields[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile


def _resident_pages(folder: Path) -> int | None:
    try:
        return int((folder / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return None
