"""Downloads: models into Hugging Face's cache, which other programs share, and single files.

huggingface_hub provides the API client, the cache, tokens and proxies.  Its own downloads (2.4)
cannot be resumed by a later call, since each has a partial file of a random name, and are not
compared with the hub's SHA-256.  So the bytes are received here, into a partial file beside the
cache's blobs: a later download resumes it by a range request, and the file is moved into the cache
once its checksum is verified.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedRandom
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from speclsp.atomic_write import UMASKED
from speclsp.errors import DownloadCancelledError, DownloadError, ModelError, ModelNotFoundError
from speclsp.hub.references import Reference, parse_reference, parts_of

Report = Callable[[int, int], None]
"""Called with the bytes present and the bytes in total."""

_SHA256: Final = re.compile("[0-9a-f]{64}")
_SHA256_LENGTH: Final = 64
_CHUNK_BYTES: Final = 1 << 18
_N_RETRIES: Final = 5
_RETRY_PAUSE_S: Final = 1.0
_LOCK_WAIT_S: Final = 0.1
_TIMEOUT_S: Final = 10.0
_CONNECTION_REMEDY: Final = (
    "Check the connection, and the proxy in HTTPS_PROXY; HF_ENDPOINT names a mirror. "
    "The received part is kept: the same command resumes the download."
)
_LOGIN_REMEDY: Final = (
    "Log in with `hf auth login`, or set HF_TOKEN to a token that may read the repository."
)


def _no_report(_done: int, _total: int) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file on the hub, or elsewhere."""

    origin: str
    """The repository, or the address without its credentials."""
    name: str
    url: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The files of a download."""

    files: tuple[RemoteFile, ...]
    missing_bytes: int
    """Bytes that are neither in the cache nor left from an earlier download."""


def cache_folder() -> Path:
    """Return Hugging Face's cache of this user (``HF_HUB_CACHE``, ``HF_HOME``)."""
    return Path(_constants().HF_HUB_CACHE)


def cached_paths(reference: Reference) -> tuple[Path, ...] | None:
    """Return a model's files in the cache, the first part first; None unless all are there."""
    folder = _repository_folder(reference.repository)
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
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
        for path in _models_below(folder / "snapshots")
    )


def _models_below(folder: Path) -> Iterator[Path]:
    """Yield the GGUFs below a folder, but no links to removed files."""
    return (path for path in folder.rglob("*.gguf") if path.exists())


def plan(references: Sequence[Reference], token: str = "") -> Plan:
    """Ask the hub for the files of models, and check that they fit the disk.

    Raises :class:`~speclsp.errors.DownloadError` and
    :class:`~speclsp.errors.ModelNotFoundError`.
    """
    files = [
        file
        for reference in references
        for file in _remote_files(reference.repository, partial(parts_of, reference), token)
    ]
    missing = 0
    for file in files:
        if not _blob(file).exists():
            missing += file.size - _size(_partial(_blob(file)))
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if missing > free:
        raise _no_space(folder, missing, free)
    return Plan(files=tuple(files), missing_bytes=missing)


def pull(
    wanted: Plan,
    *,
    token: str = "",
    report: Report = _no_report,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Download what a plan's files lack into the cache.

    An interrupted download is resumed.
    Raises :class:`~speclsp.errors.DownloadError`, also where it is cancelled.
    """
    total = sum(file.size for file in wanted.files)
    done = 0

    def report_from(n_before: int, n_bytes: int) -> None:
        report(n_before + n_bytes, total)

    for file in wanted.files:
        with _mapped_errors(file.origin, cache_folder()):
            if not _blob(file).exists():
                _Transfer(
                    file, _blob(file), token or None, is_cancelled, partial(report_from, done)
                ).run()
            # The file is there already: this makes the cache's links to it.
            _hub().hf_hub_download(file.origin, file.name, token=token or None)
        done += file.size
        report(done, total)


def locate(source: str, *, sha256: str = "", token: str = "") -> RemoteFile:
    """Ask for the size and checksum of a file at an address, or ``OWNER/NAME:FILE`` on the hub.

    A given ``sha256`` takes precedence over the hub's, and over a file ``NAME.sha256`` at the same
    address.  Raises DownloadError and SettingsError.
    """
    if "://" not in source:
        repository, _, name = source.partition(":")
        reference = parse_reference(repository, name)
        (file,) = _remote_files(repository, partial(_named_file, reference), token)
    else:
        file = _file_at(source, wants_sha256=not sha256)
    file = replace(file, sha256=sha256.lower() or file.sha256)
    if not _SHA256.fullmatch(file.sha256):
        raise DownloadError(
            f"{file.origin} has no SHA-256 for {file.name}.",
            remedy="Give it with --sha256, or publish it beside the file, with `.sha256` after "
            "its name, as `sha256sum` writes it.",
        )
    return file


def fetch(file: RemoteFile, output: Path, *, token: str = "", report: Report = _no_report) -> Path:
    """Download a file, and return its path: a hidden name in the folder of ``output``.

    Resumes an interrupted download, and removes those of other versions of the output.
    Raises DownloadError.
    """
    place = output.with_name(f".{output.name}.{file.sha256[:16]}")
    is_elsewhere = "://" in file.origin
    with _mapped_errors(file.origin, output.parent):
        with suppress(FileNotFoundError):
            # An interrupted pull left it, or somebody else: verify its checksum.
            place.replace(_partial(place))
        missing = file.size - _size(_partial(place))
        free = shutil.disk_usage(output.parent).free
        if missing > free:
            raise _no_space(output.parent, missing, free)
        _Transfer(
            file,
            place,
            False if is_elsewhere else token or None,
            lambda: False,
            lambda n_bytes: report(n_bytes, file.size),
        ).run()
        others = output.with_name(f".{glob.escape(output.name)}.{'?' * 16}")
        for other in output.parent.glob(_partial(others).name):
            other.unlink(missing_ok=True)
    return place


def _file_at(url: str, *, wants_sha256: bool) -> RemoteFile:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise DownloadError("The address is malformed.", remedy="Check host and port.") from error
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    origin, name = shown.geturl(), unquote(parts.path).rpartition("/")[2]
    if not name or (parts.scheme != "https" and (wants_sha256 or parts.scheme != "http")):
        raise DownloadError(
            f"{origin} is not the https:// address of a file.",
            remedy="An http:// address needs --sha256: its files can be changed in transit.",
        )
    hub = _hub()
    headers = hub.utils.build_hf_headers(token=False, library_name="speclsp")
    headers |= {"Accept-Encoding": "identity"}
    options = {"headers": headers, "timeout": _TIMEOUT_S}
    sha256 = ""
    with _mapped_errors(origin, cache_folder()):
        answer = hub.get_session().head(url, **options)
        hub.utils.hf_raise_for_status(answer)
        if wants_sha256:
            _require_https(answer)
            beside = parts._replace(path=f"{parts.path}.sha256").geturl()
            with hub.get_session().stream("GET", beside, **options) as listed:
                _require_https(listed)
                if listed.is_success:
                    line = next(listed.iter_bytes(_SHA256_LENGTH), b"")
                    sha256 = line[:_SHA256_LENGTH].decode(errors="replace").lower()
    size = answer.headers.get("Content-Length", "")
    if not size.isdigit():
        raise DownloadError(f"The server sends no Content-Length for {origin}.")
    return RemoteFile(origin=origin, name=name, url=url, size=int(size), sha256=sha256)


def _require_https(answer: Any) -> None:
    """Raise DownloadError where redirects led over plain HTTP."""
    for hop in (*answer.history, answer):
        if hop.url.scheme != "https":
            raise DownloadError(
                f"The server redirects to {hop.url.scheme}://{hop.url.host}, where files can be "
                "changed in transit.",
                remedy="Give the file's checksum with --sha256.",
            )


def _named_file(reference: Reference, names: Sequence[str]) -> Sequence[str]:
    if reference.file not in names:
        raise DownloadError(
            f"{reference.repository} has no file {reference.file!r}.",
            remedy=f"Write OWNER/NAME:FILE; it has {', '.join(sorted(names)) or 'none'}.",
        )
    return (reference.file,)


def remove(paths: Sequence[Path]) -> int:
    """Remove files from the cache, and return how many bytes that frees.

    Raises :class:`~speclsp.errors.ModelError`.
    """
    freed = 0
    for path in paths:
        try:
            blob = path.parent / path.readlink() if path.is_symlink() else None
            freed += path.stat().st_size
            path.unlink()
            if blob is not None:
                blob.unlink(missing_ok=True)
        except OSError as error:
            raise ModelError(
                f"{path} cannot be removed: {error.strerror or error}.",
                remedy="Check who may write to its folder, and on Windows that no program uses it.",
            ) from error
    return freed


class _Transfer:
    """Downloads one file to ``place``; gives up after five retries without progress.

    ``token`` is sent to the hub: None for the one of the user's login, False for none.
    """

    def __init__(
        self,
        file: RemoteFile,
        place: Path,
        token: str | bool | None,
        is_cancelled: Callable[[], bool],
        report: Callable[[int], None],
    ) -> None:
        self._file = file
        self._place = place
        self._token = token
        self._is_cancelled = is_cancelled
        self._report = report
        self._partial = _partial(place)

    def run(self) -> None:
        """Raises DownloadError, OSError and huggingface_hub's errors."""
        hub = _hub()
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        lock = self._partial.with_suffix(".lock")
        try:
            with hub.utils.WeakFileLock(lock, timeout=_LOCK_WAIT_S):
                try:
                    self._run_locked()
                finally:
                    with suppress(OSError):
                        lock.unlink()
        except TimeoutError as error:  # filelock's
            raise DownloadError(
                f"{self._file.name} is being downloaded by another process.",
                remedy="Wait until that one is done.",
            ) from error

    def _run_locked(self) -> None:
        if self._place.exists():
            return
        n_failures, most = 0, _size(self._partial)
        while (have := _size(self._partial)) < self._file.size:
            try:
                self._receive(have)
            except _hub().errors.HfHubHTTPError:
                raise  # asking again would get the same answer
            except _hub().errors.HTTPError:
                # A server without ranges starts again, so `have` may shrink.
                n_failures = 0 if _size(self._partial) > most else n_failures + 1
                most = max(most, _size(self._partial))
                if n_failures > _N_RETRIES:
                    raise
                self._raise_if_cancelled()
                time.sleep(_RETRY_PAUSE_S)
        self._check()
        self._partial.replace(self._place)

    def _receive(self, have: int) -> None:
        """Append the file's bytes from ``have`` on."""
        hub, n_before = _hub(), have
        url = self._file.url
        headers = hub.utils.build_hf_headers(token=self._token, library_name="speclsp")
        # Compressed, the bytes could not be counted.
        headers |= {"Accept-Encoding": "identity", "Range": f"bytes={have}-"}
        with hub.get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as response:
            hub.utils.hf_raise_for_status(response)
            if response.status_code == 200:  # the whole file: ranges are not served
                have = 0
            with self._opened() as out:
                out.seek(have)
                out.truncate()
                for chunk in response.iter_bytes(_CHUNK_BYTES):
                    self._raise_if_cancelled()
                    out.write(chunk)
                    have += len(chunk)
                    if have > self._file.size:
                        raise DownloadError(
                            f"{self._file.name} is longer than its server announced.",
                            remedy="Download it again.",
                        )
                    self._report(min(have, self._file.size))
            # Ranges may be served in pieces.
            if have < self._file.size and (response.status_code == 200 or have == n_before):
                raise hub.errors.HTTPError("the file ended early")

    def _check(self) -> None:
        with self._opened() as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if _size(self._partial) == self._file.size and digest == self._file.sha256:
            return
        self._partial.unlink()
        raise DownloadError(
            f"The checksum of {self._file.name} differs from the one that {self._file.origin} "
            "lists.",
            remedy="Download it again; if that does not help, check the proxy or mirror.",
        )

    def _opened(self) -> BufferedRandom:
        """Open the partial file, but no link: others may write to its folder."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        return os.fdopen(os.open(self._partial, flags, UMASKED), "r+b")

    def _raise_if_cancelled(self) -> None:
        if self._is_cancelled():
            raise DownloadCancelledError(
                f"The download of {self._file.name} was cancelled.",
                remedy="The received part is kept: the next download resumes there.",
            )


def _constants() -> Any:
    """Return huggingface_hub's constants, which it reads from the environment at its import."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants  # noqa: PLC0415 (see _hub)

    return constants


def _hub() -> Any:
    """Return huggingface_hub, whose import takes 0.3 s and is needed only for downloads."""
    _constants()
    import huggingface_hub  # noqa: PLC0415
    import huggingface_hub.errors  # noqa: PLC0415
    import huggingface_hub.utils  # noqa: PLC0415

    return huggingface_hub


def _remote_files(
    repository: str, choose: Callable[[Sequence[str]], Sequence[str]], token: str
) -> list[RemoteFile]:
    """Return the files of a repository that ``choose`` picks from their names."""
    hub = _hub()
    with _mapped_errors(repository, cache_folder()):
        listing = hub.HfApi(token=token or None, library_name="speclsp").model_info(
            repository, files_metadata=True, timeout=_TIMEOUT_S
        )
    by_name = {sibling.rfilename: sibling for sibling in listing.siblings or ()}
    return [
        RemoteFile(
            origin=repository,
            name=name,
            url=hub.hf_hub_url(repository, name),
            size=by_name[name].size,
            # Small text files have none.
            sha256=by_name[name].lfs.sha256 if by_name[name].lfs else "",
        )
        for name in choose(list(by_name))
    ]


def _repository_folder(repository: str) -> Path:
    return cache_folder() / f"models--{repository.replace('/', '--')}"


def _blob(file: RemoteFile) -> Path:
    """Return where the cache keeps a file's bytes: under their SHA-256."""
    return _repository_folder(file.origin) / "blobs" / file.sha256


def _partial(place: Path) -> Path:
    return place.with_name(f"{place.name}.speclsp.incomplete")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _mapped_errors(origin: str, folder: Path) -> Iterator[None]:
    """Raise DownloadError for what huggingface_hub and the disk of ``folder`` raise."""
    errors = _hub().errors
    try:
        yield
    except errors.GatedRepoError as error:
        raise DownloadError(
            f"{origin} is gated: you must accept its terms first.",
            remedy=f"Accept them on https://huggingface.co/{origin}. {_LOGIN_REMEDY}",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise DownloadError(
            f"There is no repository {origin}, or you may not read it.",
            remedy=f"Check its name. {_LOGIN_REMEDY}",
        ) from error
    except errors.HfHubHTTPError as error:
        raise _refused(origin, error.response.status_code) from error
    except errors.OfflineModeIsEnabled as error:
        raise DownloadError(
            f"{origin} is not in the cache, and downloads are switched off.",
            remedy="Unset HF_HUB_OFFLINE, or leave out --offline.",
        ) from error
    except (errors.HTTPError, errors.LocalEntryNotFoundError, ConnectionError) as error:
        raise DownloadError(
            f"{_server(origin)} cannot be reached for {origin}: {error}.",
            remedy=_CONNECTION_REMEDY,
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _no_space(folder, 0, 0) from error
        raise DownloadError(
            f"The download cannot be written: {error.strerror or error}.",
            remedy=f"Check {folder}; HF_HOME names another folder for models.",
        ) from error


def _server(origin: str) -> str:
    return "The server" if "://" in origin else "Hugging Face"


def _refused(origin: str, status: int) -> DownloadError:
    if status == 401 and "://" not in origin:
        return DownloadError(
            f"Hugging Face refused the token for {origin}.",
            remedy="Make a new one on https://huggingface.co/settings/tokens. " + _LOGIN_REMEDY,
        )
    return DownloadError(
        f"{_server(origin)} answered {status} for {origin}.",
        remedy="Check the address, or try again later. " + _CONNECTION_REMEDY,
    )


def _no_space(folder: Path, needed: int, free: int) -> DownloadError:
    detail = f": {needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free" if needed else ""
    return DownloadError(
        f"There is no space on the disk of {folder}{detail}.",
        remedy="Free some, or name a folder on another disk, for models with HF_HOME.",
    )
