"""Paths of an engine's files in the user's folder.

An engine's name is the protocol's version and a hash of everything in which engines differ, so that
a window finds only engines that do what its own would do.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from socket import socket as Socket  # noqa: N812  the property `socket` hides it
from typing import Final

import msgspec
import platformdirs
from filelock import FileLock

import speclsp
from speclsp.atomic_write import PRIVATE, write_atomically
from speclsp.backends.params import ENVIRONMENT
from speclsp.embedded import model_files
from speclsp.engine_process.transport import listen
from speclsp.errors import EngineProcessError, ModelNotFoundError
from speclsp.project.source_text import read_regular
from speclsp.settings import FIELDS, Settings, changed, info
from speclsp.storage.locations import cache_dir, check_own, make_private_folder

PROTOCOL: Final = 7
"""Version of what windows and engines say to each other."""

OWN_ENGINE: Final = "set `engine` to own, and each window loads the model itself."
"""The remedy where no engine can be shared."""

_MAX_SOCKET_PATH: Final = 103
"""Bytes of a Unix socket's path: macOS allows 104 with the final NUL, Linux 108."""
_MAX_INFO_BYTES: Final = 1 << 20
_LOCK_POLL_S: Final = 0.02
_NO_WAIT: Final = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK"))
_ENVIRONMENT: Final = ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
"""Variables that decide where the stores are, and prefixes of those that llama.cpp reads."""
_ENVIRONMENT_PREFIXES: Final = ("GGML_", "LLAMA_", "CUDA_", "HIP_", "ROCR_", "VK_", "OMP_", "GOMP_")


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """The files of one engine, which need not run."""

    folder: Path
    name: str
    """``PROTOCOL-HASH``."""

    @property
    def socket(self) -> Path:
        """The Unix socket; mode 0600."""
        return self.folder / f"{self.name}.sock"

    @property
    def lock(self) -> Path:
        """An empty file; its lock is held while the engine is started or ends."""
        return self.folder / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """The engine's log, with llama.cpp's lines."""
        return self.folder / f"{self.name}.log"

    @property
    def info(self) -> Path:
        """JSON of :class:`EngineInfo`, written by the engine when it starts."""
        return self.folder / f"{self.name}.json"

    def write_info(self, info: EngineInfo) -> None:
        """Write the info file.  Raises OSError, also where it is a link or another user's."""
        check_own(self.info)
        with write_atomically(self.info, f".{self.name}.", PRIVATE) as partial:
            partial.write_bytes(msgspec.json.encode(info))

    def open_log(self) -> int:
        """Open the log to write at its end, and return the descriptor.

        Raises OSError, also where it is a link, another user's, a pipe or a device.
        """
        check_own(self.log)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_WAIT, PRIVATE)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, PRIVATE)
            return descriptor
        os.close(descriptor)
        raise OSError(f"{self.log} is no regular file")

    def locked(self, timeout_s: float) -> FileLock:
        """Return the engine's lock, to hold; the system releases it where its holder dies.

        Entering raises TimeoutError where another process holds it for ``timeout_s`` seconds.
        """
        return FileLock(self.lock, timeout=timeout_s, mode=PRIVATE, poll_interval=_LOCK_POLL_S)

    def address(self) -> Path | None:
        """Return where the engine listens, or did before it died; None where there is no socket.

        Raises :class:`EngineProcessError` where the path is of another kind of file.
        """
        reason = f"{self.socket} is no socket"
        try:
            if stat.S_ISSOCK(self.socket.lstat().st_mode):
                check_own(self.socket)
                return self.socket
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = str(error)
        raise EngineProcessError(
            f"No engine can be shared: {reason}.", remedy=f"Remove it, or {OWN_ENGINE}"
        )

    def listen(self) -> Socket:
        """Return a new listening socket, and replace what a dead engine left; hold the lock.

        Raises OSError, also where another user, or a link, has an engine's place.
        """
        check_own(self.info)
        self.socket.unlink(missing_ok=True)
        return listen(self.socket)


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a running engine's info file."""

    pid: int
    version: str
    """Of speclsp."""
    model: str
    """Path of the target model."""
    settings: dict[str, bool | int | float | str]
    """Engine settings that differ from the defaults."""
    listens: bool = False
    """Whether it serves windows of other machines, and none of this one."""


def engine_place(settings: Settings, listen: str = "") -> EnginePlace:
    """Return where the engine of these settings is found.  ``settings`` name files, not presets.

    With ``listen``, the address for windows of other machines, the engine has another name, and no
    window of this machine uses it.
    Creates the user's folder.  Raises :class:`EngineProcessError` where that is unsafe, and on
    Windows, whose Python has no Unix sockets.
    """
    if sys.platform == "win32":
        raise EngineProcessError(
            "Windows has no Unix sockets, by which windows share an engine.",
            remedy=f"Run speclsp in WSL, or {OWN_ENGINE}",
        )
    identity: dict[str, object] = {
        "build": _build(),
        "environment": {
            name: value
            for name, value in os.environ.items()
            if (name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES))
            and value != ENVIRONMENT.get(name)
        },
        "settings": {name: getattr(settings, name) for name in ENGINE_SETTINGS},
        "files": [_file_identity(path) for path in existing_models(settings)],
    }
    if listen:
        identity["listen"] = listen
    encoded = msgspec.json.encode(identity, order="sorted")
    digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()
    place = EnginePlace(user_folder(), f"{PROTOCOL}-{digest}")
    if len(os.fsencode(place.socket)) > _MAX_SOCKET_PATH:
        raise EngineProcessError(
            f"The path {place.socket} is too long for a socket ({_MAX_SOCKET_PATH} bytes).",
            remedy=f"Set XDG_RUNTIME_DIR to a folder with a short path, or {OWN_ENGINE}",
        )
    return place


ENGINE_SETTINGS: Final = tuple(
    name for name in FIELDS if info(name).scope != "live" and name != "engine"
)
"""Settings in which windows of one engine agree: those that load or restart it."""


def changed_settings(settings: Settings) -> dict[str, bool | int | float | str]:
    """Return the engine settings that differ from the defaults."""
    names = set(changed(Settings(), settings)).intersection(ENGINE_SETTINGS)
    return {name: getattr(settings, name) for name in ENGINE_SETTINGS if name in names}


def known_places() -> list[EnginePlace]:
    """Return the places of engines that run or have run, in the user's folder."""
    folder = user_folder()
    files = folder.glob(f"{PROTOCOL}-*.*")
    endings = (".sock", ".json", ".log")
    names = {file.stem for file in files if file.suffix in endings}
    return [EnginePlace(folder, name) for name in sorted(names)]


def read_info(place: EnginePlace) -> EngineInfo | None:
    """Read an engine's info file; None where there is none, or it is damaged or another user's."""
    try:
        check_own(place.info)
        return msgspec.json.decode(read_regular(place.info, _MAX_INFO_BYTES), type=EngineInfo)
    except (OSError, msgspec.MsgspecError):
        return None


def user_folder() -> Path:
    """Return the user's folder for engines, and create it: mode 0700, in folders nobody else owns.

    Raises :class:`EngineProcessError` where another user could change what is in it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime) / "speclsp" if runtime.startswith("/") else _default_folder()
    try:
        make_private_folder(folder)
        for parent in folder.parents if sys.platform != "win32" else ():
            _check_parent(parent)
    except OSError as error:
        raise EngineProcessError(
            f"The folder {folder} for the shared engine cannot be used: {error}.",
            remedy="Remove it if you do not know what is in it, set XDG_RUNTIME_DIR to a folder of "
            f"yours, or {OWN_ENGINE}",
        ) from error
    return folder


def _default_folder() -> Path:
    with warnings.catch_warnings():  # it warns that the variable is not set
        warnings.simplefilter("ignore")
        folder = platformdirs.user_runtime_path("speclsp", appauthor=False)
    if folder.is_relative_to(tempfile.gettempdir()):
        # Neovim gives each of its processes a temporary folder of its own.
        folder = cache_dir() / "run"
    return folder


def _check_parent(parent: Path) -> None:
    """Raise OSError where a user other than root could replace a folder."""
    trusted = {os.getuid(), 0, Path("/").stat().st_uid}  # in containers root has another number
    for status in (parent.lstat(), parent.stat()):
        if status.st_uid not in trusted:
            raise OSError(f"{parent} belongs to another user, number {status.st_uid}")
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others_write and not status.st_mode & stat.S_ISVTX:
        raise OSError(f"other users may write in {parent}")


@cache
def _build() -> list[object]:
    """Return what identifies this process's build of speclsp and llama.cpp.

    Cached, since an update of the files does not change this process.
    """
    package = Path(speclsp.__file__).parent
    sources = sorted(package.rglob("*.py"))
    llama_cpp = importlib.util.find_spec("llama_cpp")
    library = [Path(llama_cpp.origin)] if llama_cpp is not None and llama_cpp.origin else []
    files = [_file_identity(path) for path in (*sources, *library)]
    return [speclsp.__version__, sys.executable, files]


def is_updated() -> bool:
    """Whether the files of speclsp or llama.cpp are others than this process was started with."""
    return _build.__wrapped__() != _build()


def _file_identity(path: Path) -> list[object]:
    """Return real path, size in bytes and modification time in ns; the path of a missing file."""
    real = os.path.realpath(path)
    try:
        status = Path(real).stat()
    except OSError:
        return [real]
    return [real, status.st_size, status.st_mtime_ns]


def existing_models(settings: Settings) -> list[Path]:
    """Return the GGUFs that the settings name and that exist; the engine reports missing ones."""
    try:
        files = model_files(settings)
    except ModelNotFoundError:
        return []
    return [path for path in files if path is not None and path.is_file()]
