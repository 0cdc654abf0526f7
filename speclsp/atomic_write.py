"""Atomic writes: a file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
"""Mode of files that only the user may read."""
UMASKED: Final = 0o666
"""Mode of ordinary files, which the process's umask restricts."""


@contextmanager
def write_atomically(path: Path, partial_prefix: str, mode: int) -> Iterator[Path]:
    """Yield an empty file beside ``path`` that replaces it unless the block raises.

    Its name begins with ``partial_prefix``.  Processes that have the previous file open or mapped
    keep it, and symbolic links stay.  Raises OSError, also where ``path`` is a device or a pipe.
    """
    path = Path(os.path.realpath(path))  # resolve() raises RuntimeError for links in a circle
    if os.path.lexists(path) and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    partial = path.with_name(f"{partial_prefix}{secrets.token_hex(8)}")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield partial
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
