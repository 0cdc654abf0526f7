"""How much memory a process occupies, and a page cache without its files."""

from __future__ import annotations

import os
from pathlib import Path


def resident_bytes() -> int | None:
    """Return this process's resident memory; None where the system does not say."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def drop_from_page_cache(folder: Path) -> bool:
    """Have a folder's files read from the disk next time; whether the system can do that."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    return True
