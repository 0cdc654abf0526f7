"""The git repository that a folder belongs to, read without running git."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SECTION = re.compile(r'\[\s*remote\s+"((?:[^"\\]|\\.)*)"\s*\]', re.IGNORECASE)
_URL = re.compile(r'url\s*=\s*"?(.*?)"?\s*(?:[#;].*)?', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a repository's parts lie."""

    work_tree: Path
    common_dir: Path
    """What all work trees of the repository share: the configuration, ``info/exclude``."""


def find_repository(folder: Path) -> Repository | None:
    """Return the repository that ``folder`` is in, or None."""
    for work_tree in (folder, *folder.parents):
        git_dir = _git_dir(work_tree)
        if git_dir is not None:
            return Repository(work_tree, _common_dir(git_dir))
    return None


def repository_name(root: Path) -> str:
    """Return the repository's name: the one in its origin's address, else its folder's."""
    try:
        folder = root.resolve()
    except (OSError, RuntimeError):
        folder = root
    repository = find_repository(folder)
    if repository is None:
        return folder.name or "root"
    remotes = dict(_remotes(repository.common_dir / "config"))
    address = remotes.get("origin") or next(iter(remotes.values()), "")
    return _name_in_address(address) or repository.work_tree.name or "root"


def _git_dir(work_tree: Path) -> Path | None:
    """The git directory of a work tree; a ``.git`` file names it in linked work trees."""
    git = work_tree / ".git"
    try:
        if git.is_dir():
            return git if (git / "HEAD").exists() else None
        text = git.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    prefix, _, target = text.partition(":")
    if prefix.strip() != "gitdir" or not target.strip():
        return None
    return work_tree / target.strip()


def _common_dir(git_dir: Path) -> Path:
    try:
        target = (git_dir / "commondir").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return git_dir
    return git_dir / target


def _remotes(config: Path) -> Iterator[tuple[str, str]]:
    """Names and addresses of the remotes in a git configuration."""
    try:
        lines = config.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    remote = ""
    for line in lines:
        if line.lstrip().startswith("["):
            section = _SECTION.match(line.strip())
            remote = section[1] if section else ""
        elif remote and (url := _URL.fullmatch(line.strip())):
            yield remote, url[1]


def _name_in_address(address: str) -> str:
    """The last part of an address: ``git@host:group/name.git``, a URL or a path."""
    name = re.split(r"[/\\:]", address.strip().rstrip("/\\"))[-1]
    name = name.removesuffix(".git")
    return "".join(char for char in name if char.isprintable()).strip()
