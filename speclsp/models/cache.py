"""Hugging Face's cache, which other programs share: the models in it, and how one gets into it.

``models--OWNER--NAME/blobs/SHA256`` holds a file's bytes, ``snapshots/COMMIT/FILE`` links to them,
and ``refs/main`` names the newest commit.  Files are put there by us and not by huggingface_hub
(2.4), which joins a hub's headers into their paths unchecked; all parts of a path of ours are
checked by :class:`~speclsp.models.listing.RemoteFile`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from speclsp.atomic_write import UMASKED, write_atomically
from speclsp.errors import ModelError, ModelNotFoundError, SettingsError
from speclsp.models.listing import RemoteFile, is_commit
from speclsp.models.references import Reference, parts_of

PARTIAL: Final = ".speclsp.incomplete"
"""What the names of partly received files end in."""


def hub_constants() -> Any:
    """Return huggingface_hub's constants, which it reads from the environment at its import.

    Raises :class:`~speclsp.errors.SettingsError`.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        # Most windows need no model of the hub.
        from huggingface_hub import constants  # noqa: PLC0415
    except ValueError as error:
        raise SettingsError(
            f"A variable of Hugging Face's in the environment has a wrong value: {error}.",
            remedy="Check HF_ENDPOINT, and the others that begin with HF_.",
        ) from error
    return constants


def cache_folder() -> Path:
    """Return Hugging Face's cache of this user (``HF_HUB_CACHE``, ``HF_HOME``)."""
    return Path(hub_constants().HF_HUB_CACHE)


def cached_paths(reference: Reference) -> tuple[Path, ...] | None:
    """Return a model's files in the cache, the first part first; None unless all are there."""
    folder = _repository_folder(reference.repository)
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
        if not is_commit(commit):
            return None
        snapshot = folder / "snapshots" / commit
        names = [path.relative_to(snapshot).as_posix() for path in _models_below(snapshot)]
        return tuple(snapshot / name for name in parts_of(reference, names))
    except (OSError, ValueError, ModelNotFoundError):
        return None


def cached_models() -> list[tuple[str, Path]]:
    """Return all GGUFs in the cache, each with its repository."""
    return sorted(
        (folder.name.removeprefix("models--").replace("--", "/"), path)
        for folder in cache_folder().glob("models--*")
        if folder.name.isprintable()
        for path in _models_below(folder / "snapshots")
    )


def place_of(file: RemoteFile) -> Path:
    """Return where a file's bytes are or will be: under their SHA-256.

    Where links cannot be made, they are under the file's name.
    """
    pointer = _pointer(file)
    return pointer if pointer.is_file() and not pointer.is_symlink() else _blob(file)


def partial_of(place: Path, name: str) -> Path:
    """Return where the bytes of a file of this name are received: beside its place."""
    return place.with_name(place.name + _partial_suffix(name))


def received_bytes(reference: Reference) -> int:
    """Return how many bytes of a model are there, or of the latest download, if it is interrupted.

    Earlier ones, of former versions of the file, do not count.
    """
    try:
        found = cached_paths(reference)
        if found is not None:
            return sum(path.stat().st_size for path in found)
        partials = [path.stat() for path in interrupted(reference)]
    except OSError:  # a download ends meanwhile
        return 0
    return max(partials, key=lambda one: one.st_mtime_ns).st_size if partials else 0


def interrupted(reference: Reference) -> list[Path]:
    """Return what interrupted downloads of a model left; without a file's name, of all files."""
    return _partials(reference.repository, reference.file)


def remove_partials(file: RemoteFile) -> None:
    """Remove what interrupted downloads of a file's other versions left."""
    with suppress(OSError):  # the cache may be read-only
        for path in _partials(file.origin, file.name):
            path.unlink()


def _partials(repository: str, name: str) -> list[Path]:
    end = _partial_suffix(name) if name else PARTIAL
    return list(_repository_folder(repository).rglob(f"*{end}"))


def _partial_suffix(name: str) -> str:
    return f".{hashlib.sha256(name.encode()).hexdigest()[:16]}{PARTIAL}"


def add_name(file: RemoteFile) -> None:
    """Give a verified file its name in its snapshot.  Raises OSError."""
    blob, pointer = _blob(file), _pointer(file)
    if place_of(file) == pointer:
        return
    target = os.path.relpath(blob, pointer.parent)
    if pointer.is_symlink() and str(pointer.readlink()) == target:
        return  # nothing is written, since the cache may be read-only
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if hub_constants().HF_HUB_DISABLE_SYMLINKS or not _is_linked(pointer, target):
        # As huggingface_hub does on file systems without links, and on most Windows machines.
        blob.replace(pointer)


def _is_linked(pointer: Path, target: str) -> bool:
    """Make a link, and return whether the system could."""
    link = pointer.parent / f".speclsp.{secrets.token_hex(8)}"
    try:
        link.symlink_to(target)
    except OSError:
        return False
    try:
        link.replace(pointer)
    finally:
        link.unlink(missing_ok=True)
    return True


def set_newest(file: RemoteFile) -> None:
    """Make the commit of a file the one that :func:`cached_paths` looks at.  Raises OSError."""
    ref = _repository_folder(file.origin) / "refs" / "main"
    with suppress(OSError, ValueError):
        if ref.read_text(encoding="ascii") == file.commit:
            return
    ref.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(ref, ".speclsp.", UMASKED) as partial:
        partial.write_text(file.commit, encoding="ascii")


def remove(paths: Sequence[Path]) -> int:
    """Remove files from the cache, and return how many bytes that frees.

    Raises :class:`~speclsp.errors.ModelError`.
    """
    freed = 0
    for path in paths:
        try:
            target = path.parent / path.readlink() if path.is_symlink() else None
            if path.exists():  # names of the same bytes were removed with them
                freed += path.stat().st_size
            path.unlink()
            if target is not None and _is_blob_of(path, target):
                target.unlink(missing_ok=True)
        except OSError as error:
            raise ModelError(
                f"{path} cannot be removed: {error.strerror or error}.",
                remedy="Check who may write to its folder, and on Windows that no program uses it.",
            ) from error
    return freed


def _is_blob_of(path: Path, target: Path) -> bool:
    """Return whether a snapshot's link leads to the blobs of its repository."""
    repository = path.relative_to(cache_folder()).parts[0]
    return target.parent.samefile(cache_folder() / repository / "blobs")


def _models_below(folder: Path) -> Iterator[Path]:
    """Yield the GGUFs below a folder, but no links to removed files, and no unprintable names."""
    return (
        path
        for path in folder.rglob("*.gguf")
        if path.is_file() and str(path.relative_to(folder)).isprintable()
    )


def _repository_folder(repository: str) -> Path:
    return cache_folder() / f"models--{repository.replace('/', '--')}"


def _blob(file: RemoteFile) -> Path:
    return _repository_folder(file.origin) / "blobs" / file.sha256


def _pointer(file: RemoteFile) -> Path:
    return _repository_folder(file.origin) / "snapshots" / file.commit / file.name
