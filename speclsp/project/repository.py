"""Finds the git repository of a folder, and names folders, without running git."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speclsp.project.source_text import read_regular

_MAX_BYTES: Final = 1 << 20
"""Maximum bytes that are read of one of git's files."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The folders of a repository."""

    work_tree: Path
    common_dir: Path
    """Shared by all work trees: contains ``info/exclude``."""


def find_repository(folder: Path) -> Repository | None:
    """Return the repository that contains ``folder``, or None."""
    for work_tree in (folder, *folder.parents):
        git_dir = _git_dir(work_tree)
        if git_dir is not None:
            return Repository(work_tree, _common_dir(git_dir))
    return None


def name_elsewhere(root: str) -> str:
    """Return a folder's name on another machine: a hash, the same in each session."""
    home = os.path.expanduser("~")  # noqa: PTH111  Path.home() may raise RuntimeError
    owner = f"{platform.node()} {home} {root}".encode("utf-8", "surrogatepass")
    return f"speclsp-{hashlib.blake2b(owner, digest_size=12).hexdigest()}"


def repository_name(root: Path) -> str:
    """Return the name of the repository's folder, or of a folder that is in no repository."""
    try:
        folder = root.resolve()
    except (OSError, RuntimeError):
        folder = root
    repository = find_repository(folder)
    return (folder if repository is None else repository.work_tree).name or "root"


def _git_dir(work_tree: Path) -> Path | None:
    """Return the git directory of a work tree; linked work trees name it in a ``.git`` file."""
    git = work_tree / ".git"
    try:
        if git.is_dir():
            return git if (git / "HEAD").exists() else None
    except OSError:
        return None
    prefix, _, target = _text(git).partition(":")
    if prefix.strip() != "gitdir" or not target.strip():
        return None
    return work_tree / target.strip()


def _common_dir(git_dir: Path) -> Path:
    return git_dir / _text(git_dir / "commondir").strip()


def _text(file: Path) -> str:
    """Return the text of one of git's files; empty if it cannot be read, or is a pipe or device."""
    try:
        return read_regular(file, _MAX_BYTES).decode("utf-8", "replace").replace("\0", "\ufffd")
    except (OSError, ValueError):
        return ""
