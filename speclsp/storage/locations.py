"""Where things are kept on disk: the XDG cache and state folders, for nobody but the user."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import platformdirs

from speclsp.errors import StoreError

_NAME: Final = "speclsp"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_ID_BYTES: Final = 16


def cache_dir() -> Path:
    """Folder of data that can be rebuilt: ``$XDG_CACHE_HOME/speclsp``.  May not exist yet."""
    return platformdirs.user_cache_path(_NAME, appauthor=False)


def state_dir() -> Path:
    """Folder of learned data: ``$XDG_STATE_HOME/speclsp``.  May not exist yet."""
    return platformdirs.user_state_path(_NAME, appauthor=False)


def token_store_path() -> Path:
    """The database of files' tokens."""
    return cache_dir() / "tokens.sqlite3"


def accepted_store_path() -> Path:
    """The database of accepted completions."""
    return state_dir() / "accepted.sqlite3"


def learned_store_path() -> Path:
    """The database of the n-grams that were accepted."""
    return state_dir() / "learned.sqlite3"


def calibration_store_path() -> Path:
    """A database that former versions kept: how often drafts were right."""
    return state_dir() / "calibration.sqlite3"


def acceptance_store_path() -> Path:
    """A database that former versions kept: how often suggestions were accepted."""
    return state_dir() / "acceptance.sqlite3"


def workspace_id(root: str) -> bytes:
    """Return the id of a workspace folder in the stores: a hash of its path, links resolved."""
    path = os.path.realpath(root)
    return hashlib.blake2b(os.fsencode(path), digest_size=_ID_BYTES).digest()


def make_private(path: Path) -> None:
    """Create a file and its folder if missing, readable by the user only.  Raises StoreError."""
    try:
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.chmod(_FOLDER_MODE)
        # SQLite gives the files beside a database the database's own mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
        path.chmod(_FILE_MODE)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be written: {error}.",
            remedy="Make the folder writable, or set persist to false.",
        ) from error
