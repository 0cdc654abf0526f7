"""Downloads: models into Hugging Face's cache, and single files.

huggingface_hub's own downloads (2.4) cannot be resumed by a later call, since each has a partial
file of a random name, are not compared with the hub's SHA-256, and take their paths from a hub's
headers.  So the bytes are received here, into a partial file beside the cache's blobs: a later
download resumes it by a range request, and the file gets its names once its checksum is verified.
"""

from __future__ import annotations

import asyncio
import errno
import glob
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedRandom
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import filelock

from speclsp.atomic_write import UMASKED
from speclsp.errors import DownloadCancelledError, DownloadError
from speclsp.models import client
from speclsp.models.cache import (
    PARTIAL,
    add_name,
    cache_folder,
    partial_of,
    place_of,
    remove_partials,
    set_newest,
)
from speclsp.models.listing import (
    MAX_LISTING_BYTES,
    ODD_REMEDY,
    RemoteFile,
    is_sha256,
    listed_files,
    quoted,
    size_of,
)
from speclsp.models.references import Reference, parse_reference, parts_of, some_of

if TYPE_CHECKING:
    import httpx2

_GGUF: Final = b"GGUF"
_NO_MODEL: Final = "is no model: it does not begin with GGUF"
_RANGE: Final = re.compile(r"bytes ([0-9]{1,13})-")
_SHA256_LENGTH: Final = 64
_READ_BYTES: Final = 1 << 20
_N_QUOTED: Final = 200
_N_RETRIES: Final = 5
_RETRY_PAUSE_S: Final = 1.0
_LOCK_WAIT_S: Final = 0.1
_PACE_S: Final = 30.0
_LEAST_BYTES: Final = 120 << 10
"""A connection that brings less in ``_PACE_S`` seconds counts as lost, and one that is lost before
it brought as much as no progress.  At these 4 KiB/s the smallest preset takes a day and a half."""
_CONNECTION_REMEDY: Final = (
    "Check the connection, and the proxy in HTTPS_PROXY; HF_ENDPOINT names a mirror."
)
_RESUME_REMEDY: Final = "The received part is kept: the same command resumes the download."
_LOGIN_REMEDY: Final = (
    "Log in with `hf auth login`, or set HF_TOKEN to a token that may read the repository."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The files of a download."""

    files: tuple[RemoteFile, ...]
    missing_bytes: int
    """Bytes that are neither in the cache nor left from an earlier download."""


def plan(references: Sequence[Reference]) -> Download:
    """Ask the hub for the files of models, and check that they fit the disk.

    Raises :class:`~speclsp.errors.DownloadError` and
    :class:`~speclsp.errors.ModelNotFoundError`.
    """
    files = [
        file
        for reference in references
        for file in _hub_files(reference.repository, partial(parts_of, reference))
    ]
    missing = 0
    for file in files:
        place = place_of(file)
        if _size(place) != file.size:
            missing += max(0, file.size - _size(partial_of(place, file.name)))
    _check_space(cache_folder(), missing)
    return Download(files=tuple(files), missing_bytes=missing)


def pull(
    wanted: Download,
    *,
    report: Callable[[int, int], object] = lambda _done, _total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Download what a plan's files lack into the cache.

    ``report`` is called with the bytes present and the bytes in total.
    An interrupted download is resumed, and what another program has put there is verified.
    Raises :class:`~speclsp.errors.DownloadError`, also where it is cancelled.
    """
    total = sum(file.size for file in wanted.files)
    done = 0

    def report_from(n_before: int, n_bytes: int) -> None:
        report(n_before + n_bytes, total)

    for origin, files in groupby(wanted.files, attrgetter("origin")):
        of_origin = tuple(files)
        partials = [partial_of(place_of(file), file.name) for file in of_origin]
        with _mapped_errors(origin, cache_folder(), partials):
            for file in of_origin:
                _Transfer(
                    file,
                    place_of(file),
                    magic=_GGUF,
                    is_cancelled=is_cancelled,
                    report=partial(report_from, done),
                ).run()
                add_name(file)
                done += file.size
                report(done, total)
            # Not before: until all parts of a new version are there, the former one is used.
            set_newest(file)
        for file in of_origin:
            remove_partials(file)


def locate(source: str, *, sha256: str = "") -> RemoteFile:
    """Ask for the size and checksum of a file at an address, or ``OWNER/NAME:FILE`` on the hub.

    A given ``sha256`` takes precedence over the hub's, and over a file ``NAME.sha256`` at the same
    address.  Raises DownloadError and SettingsError.
    """
    sha256 = sha256.lower()
    if sha256 and not is_sha256(sha256):
        raise DownloadError(
            f"{quoted(sha256)} is no SHA-256.", remedy="It has 64 hexadecimal digits."
        )
    if "://" in source:
        return _file_at(source, sha256)
    repository, _, name = source.partition(":")
    reference = parse_reference(repository, name)
    (file,) = _hub_files(repository, partial(_named_file, reference), sha256)
    return file


def fetch(file: RemoteFile, output: Path, *, report: Callable[[int], object]) -> Path:
    """Download a file, and return its path: a hidden name in the folder of ``output``.

    ``report`` is called with the bytes present.
    Resumes an interrupted download, and removes those of other versions of the output.
    Raises DownloadError.
    """
    place = output.with_name(f".{output.name}.{file.sha256[:16]}")
    received = partial_of(place, file.name)
    with _mapped_errors(file.origin, output.parent, [received]):
        with suppress(FileNotFoundError):
            # An interrupted pull left it, or somebody else: verify its checksum.
            place.replace(received)
        _check_space(output.parent, file.size - _size(received))
        _Transfer(file, place, report=report).run()
        others = f".{glob.escape(output.name)}.{'?' * 16}.{'?' * 16}{PARTIAL}"
        for other in output.parent.glob(others):
            other.unlink(missing_ok=True)
    return place


def _file_at(url: str, sha256: str) -> RemoteFile:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise DownloadError("The address is malformed.", remedy="Check host and port.") from error
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    origin, name = shown.geturl(), unquote(parts.path).rpartition("/")[2]
    is_tls = parts.scheme == "https"
    if not name or not (is_tls or (sha256 and parts.scheme == "http")):
        raise DownloadError(
            f"{origin} is not the https:// address of a file.",
            remedy="An http:// address needs --sha256: its files can be changed in transit.",
        )
    with _mapped_errors(origin, cache_folder()):
        found = client.ask("HEAD", url, 0, needs_https=not sha256)
        if not sha256:
            beside = parts._replace(path=f"{parts.path}.sha256").geturl()
            with suppress(client.RefusedError):
                listed = client.ask("GET", beside, _SHA256_LENGTH, needs_https=True)
                sha256 = listed.content.decode(errors="replace").lower()
    size = size_of(found.headers.get("Content-Length", ""))
    if size is None:
        raise DownloadError(
            f"The server sends no Content-Length for {origin}.", remedy="Try another server."
        )
    return RemoteFile(origin=origin, name=name, url=url, size=size, sha256=sha256)


def _named_file(reference: Reference, names: Sequence[str]) -> Sequence[str]:
    if reference.file not in names:
        raise DownloadError(
            f"{reference.repository} has no file {reference.file!r}.",
            remedy=f"Write OWNER/NAME:FILE; it has {some_of(sorted(names)) or 'none'}.",
        )
    return (reference.file,)


def _hub_files(
    repository: str,
    choose: Callable[[Sequence[str]], Sequence[str]],
    sha256: str = "",
) -> list[RemoteFile]:
    """Return the files of a repository that ``choose`` picks from their names."""
    endpoint = client.endpoint()
    url = f"{endpoint}/api/models/{repository}?blobs=true"
    with _mapped_errors(repository, cache_folder()):
        found = client.ask(
            "GET",
            url,
            MAX_LISTING_BYTES + 1,
            logs_in=True,
            needs_https=endpoint.startswith("https:"),
        )
    return listed_files(repository, found.content, choose, endpoint=endpoint, sha256=sha256)


class _Transfer:
    """Puts a file's verified bytes at ``place``; gives up after five retries without progress.

    ``magic`` is what the file has to begin with.
    """

    def __init__(
        self,
        file: RemoteFile,
        place: Path,
        *,
        report: Callable[[int], object],
        magic: bytes = b"",
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._file = file
        self._place = place
        self._report = report
        self._magic = magic
        self._is_cancelled = is_cancelled
        self._partial = partial_of(place, file.name)

    def run(self) -> None:
        """Raises DownloadError, OSError and the client's errors."""
        if self._is_there():
            return
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        lock = self._partial.with_suffix(".lock")
        try:
            with filelock.FileLock(lock, timeout=_LOCK_WAIT_S):
                try:
                    self._run_locked()
                finally:
                    with suppress(OSError):
                        lock.unlink()
        except filelock.Timeout as error:
            raise DownloadError(
                f"{self._file.name} is being downloaded by another process.",
                remedy="Wait until that one is done.",
            ) from error
        except asyncio.CancelledError:  # while nothing came
            self._raise_if_cancelled()
            raise

    def _run_locked(self) -> None:
        if self._is_there():
            return  # another process was quicker
        client.run(self._receive_all(), self._is_cancelled)
        with self._opened() as received:
            is_right = self._verifies(received)
            os.fsync(received.fileno())
        if not is_right:
            self._partial.unlink()
            raise DownloadError(
                f"The checksum of {self._file.name} differs from the one that {self._file.origin} "
                "lists.",
                remedy="Download it again; if that does not help, check the proxy or mirror.",
            )
        self._partial.replace(self._place)

    async def _receive_all(self) -> None:
        n_failures, most = 0, _size(self._partial)
        while (have := _size(self._partial)) < self._file.size:
            lost = client.LostError("the file ended early")
            try:
                await self._receive(have)
            except client.LostError as error:
                lost = error
            # A server without ranges starts again, so that fewer bytes may be there than before.
            have = _size(self._partial)
            if have >= most + _LEAST_BYTES:
                n_failures, most = 0, have
            elif have < self._file.size:
                n_failures += 1
                if n_failures > _N_RETRIES:
                    raise lost
                await asyncio.sleep(_RETRY_PAUSE_S)

    async def _receive(self, have: int) -> None:
        """Append the file's bytes from ``have`` on, or some of them."""
        asked = {"Range": f"bytes={have}-"}
        n_paced = 0
        try:
            async with (
                asyncio.timeout(_PACE_S) as pace,
                client.answer(
                    "GET", self._file.url, logs_in=bool(self._file.commit), more_headers=asked
                ) as response,
            ):
                have = self._start_of(response, have)
                with self._opened() as out:
                    out.seek(have)
                    out.truncate()
                    async for chunk in response.aiter_raw():
                        self._raise_if_cancelled()
                        self._check_chunk(chunk, have)
                        out.write(chunk)
                        have += len(chunk)
                        self._report(have)
                        n_paced += len(chunk)
                        if n_paced >= _LEAST_BYTES:
                            n_paced = 0
                            pace.reschedule(asyncio.get_running_loop().time() + _PACE_S)
        except TimeoutError:
            raise client.LostError(f"{n_paced} bytes came in {_PACE_S:.0f} seconds") from None

    def _start_of(self, response: httpx2.Response, have: int) -> int:
        """Return from where on an answer holds the file."""
        if response.status_code == 200:
            return 0  # ranges are not served
        if response.status_code != 206:
            raise client.RefusedError(response)
        found = _RANGE.match(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != have:
            raise self._refused("came as another part than was asked for")
        return have

    def _check_chunk(self, chunk: bytes, have: int) -> None:
        if have + len(chunk) > self._file.size:
            raise self._refused("is longer than its server announced")
        magic = self._magic[have:]
        if chunk[: len(magic)] != magic[: len(chunk)]:
            raise self._refused(_NO_MODEL)

    def _is_there(self) -> bool:
        """Return whether the file is at its place already."""
        if _size(self._place) != self._file.size:
            return False
        with self._place.open("rb") as file:
            return self._verifies(file, self._report)

    def _verifies(self, file: IO[bytes], report: Callable[[int], object] = lambda _: None) -> bool:
        """Return whether an open file has the size and checksum; raises where it is no model."""
        digest, n_bytes, start = hashlib.sha256(), 0, b""
        while chunk := file.read(_READ_BYTES):
            self._raise_if_cancelled()
            digest.update(chunk)
            start = start or chunk
            n_bytes += len(chunk)
            report(n_bytes)
        if n_bytes != self._file.size or digest.hexdigest() != self._file.sha256:
            return False
        if not start.startswith(self._magic):
            raise self._refused(_NO_MODEL)
        return True

    def _opened(self) -> BufferedRandom:
        """Open the partial file, but no link: others may write to its folder."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        return os.fdopen(os.open(self._partial, flags, UMASKED), "r+b")

    def _refused(self, what: str) -> DownloadError:
        """Return the error for bytes that no later download can use, and remove them."""
        self._partial.unlink(missing_ok=True)
        return DownloadError(
            f"{self._file.name} of {self._file.origin} {what}.",
            remedy=f"Choose another file or repository. {ODD_REMEDY}",
        )

    def _raise_if_cancelled(self) -> None:
        if self._is_cancelled():
            raise DownloadCancelledError(
                f"The download of {self._file.name} was cancelled.",
                remedy="The received part is kept: the next download resumes there.",
            )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _mapped_errors(origin: str, folder: Path, partials: Sequence[Path] = ()) -> Iterator[None]:
    """Raise DownloadError for what the client and the disk of ``folder`` raise.

    ``partials`` are the files that parts are received into.
    """

    def remedy() -> str:
        is_begun = any(map(_size, partials))
        return f"{_CONNECTION_REMEDY} {_RESUME_REMEDY}" if is_begun else _CONNECTION_REMEDY

    try:
        yield
    except client.RefusedError as error:
        raise _refusal(origin, error, remedy()) from error
    except client.OfflineError as error:
        raise DownloadError(
            f"Nothing is asked of {origin}: downloads are switched off.",
            remedy="Unset HF_HUB_OFFLINE, or leave out --offline.",
        ) from error
    except client.LostError as error:
        # h11 quotes headers that it cannot read.
        why = str(error)[:_N_QUOTED].rstrip(".") or "no answer in time"
        raise DownloadError(
            f"{_server(origin)} cannot be reached for {origin}: {why}."
            if isinstance(error, client.UNREACHABLE)
            else f"The connection for {origin} was lost: {why}.",
            remedy=remedy(),
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _no_space(folder) from error
        raise DownloadError(
            f"The download cannot be written: {error.strerror or error}.",
            remedy=f"Check {folder}; HF_HOME names another folder for models.",
        ) from error


def _server(origin: str) -> str:
    if "://" in origin:
        return "The server"
    host = urlsplit(client.endpoint()).hostname or "in HF_ENDPOINT"
    return "Hugging Face" if host == "huggingface.co" else f"The mirror {host}"


def _refusal(origin: str, error: client.RefusedError, remedy: str) -> DownloadError:
    is_hub = "://" not in origin
    if is_hub and error.code == "GatedRepo":
        return DownloadError(
            f"{origin} is gated: you must accept its terms first.",
            remedy=f"Accept them on https://huggingface.co/{origin}. {_LOGIN_REMEDY}",
        )
    if is_hub and error.refuses_token:
        return DownloadError(
            f"{_server(origin)} refused the token for {origin}.",
            remedy="Make a new one on https://huggingface.co/settings/tokens. " + _LOGIN_REMEDY,
        )
    # Without a token Hugging Face answers 401 for repositories that do not exist, too.
    if is_hub and (error.code == "RepoNotFound" or error.status == 401):
        return DownloadError(
            f"There is no repository {origin}, or you may not read it.",
            remedy=f"Check its name. {_LOGIN_REMEDY}",
        )
    return DownloadError(
        f"{_server(origin)} answered {error.status} for {origin}.",
        remedy=f"Check the address, or try again later. {remedy}",
    )


def _check_space(folder: Path, needed: int) -> None:
    """Raise DownloadError where the disk of a folder, which may not exist, has less space."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        sizes = f"{needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free"
        raise _no_space(folder, f": {sizes}")


def _no_space(folder: Path, detail: str = "") -> DownloadError:
    return DownloadError(
        f"There is no space on the disk of {folder}{detail}.",
        remedy="Free some, or name a folder on another disk, for models with HF_HOME.",
    )
