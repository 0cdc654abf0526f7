"""Index segments, kept so that a restart sorts nothing again.

Each workspace folder has a folder of its own for each vocabulary.  In it lie the segments, and a
table of contents: which segments there are, and which files had which content when last read, so
that files that are as they were need not be read again.  Files are known by hashes of their paths.

Several servers may use it at once: files appear as a whole or not at all, the last table of
contents counts, and what no table names is removed only when it is old.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from speclsp.drafting.segment import Segment
from speclsp.errors import StoreError
from speclsp.storage.database import Report
from speclsp.storage.index_contents import IndexContents, KeptFile, decoded, encoded
from speclsp.storage.locations import segment_store_path, workspace_id
from speclsp.storage.private_files import (
    PARTIAL_PREFIX,
    make_private_folders,
    unwritable,
    write_whole,
)
from speclsp.storage.segment_file import (
    SegmentFileError,
    read_segment,
    segment_name,
    write_segment,
)

MAX_BYTES: Final = 2 * 2**30
"""Bytes that are kept; the workspaces that were unused for longest go first."""

_CONTENTS: Final = "contents"
_SEGMENT_SUFFIX: Final = ".segment"
_ASIDE_SUFFIX: Final = ".damaged"
_GRACE_S: Final = 600.0
"""Another server may be about to name what no table of contents names yet."""
_ASIDE_GRACE_S: Final = 7 * 86_400.0
_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class KeptIndex:
    """What was kept of a workspace folder."""

    segments: Sequence[Segment] = ()
    """The oldest first."""
    files: Mapping[bytes, KeptFile] = field(default_factory=dict)
    """By :func:`~speclsp.storage.index_contents.path_id`."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """What the store keeps for one workspace."""

    workspace: bytes
    n_files: int
    n_tokens: int
    n_bytes: int


class SegmentStore:
    """Belongs to one thread at a time; other processes may use the same folder.

    All methods raise :class:`~speclsp.errors.StoreError` where the disk is at fault.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
        report: Report = lambda _error: None,
    ) -> None:
        """``report`` hears of damaged files, which are set aside."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._clock = clock
        self._report = report
        self._saved: dict[tuple[str, str], int] = {}

    @classmethod
    def open(cls, report: Report = lambda _error: None) -> Self:
        """Use the user's store."""
        return cls(segment_store_path(), report=report)

    def load(self, root: str, fingerprint: str) -> KeptIndex:
        """Open what is kept of a workspace folder: nothing, where that is damaged."""
        place = self._place(root, fingerprint)
        contents = self._contents(place, fingerprint)
        if contents is None:
            return KeptIndex()
        segments = [
            segment
            for name in contents.segments
            if (segment := self._segment(place / f"{name}{_SEGMENT_SUFFIX}", fingerprint))
        ]
        with suppress(OSError):
            os.utime(place / _CONTENTS)
        return KeptIndex(segments, contents.files)

    def save(
        self,
        root: str,
        fingerprint: str,
        segments: Sequence[Segment],
        files: Mapping[bytes, KeptFile],
    ) -> None:
        """Keep these segments and files of a workspace folder, instead of what was kept."""
        place = self._place(root, fingerprint)
        kept = {segment_name(segment): segment for segment in segments if segment.n_tokens}
        n_tokens = sum(segment.n_tokens for segment in kept.values())
        contents = encoded(IndexContents(fingerprint, list(kept), n_tokens, files))
        if self._saved.get((root, fingerprint)) == hash(contents):
            return
        make_private_folders(place, self._folder.parent)
        for name, segment in kept.items():
            path = place / f"{name}{_SEGMENT_SUFFIX}"
            try:
                # Now it is too young to be removed by another server.
                os.utime(path)
            except FileNotFoundError:
                write_segment(path, segment, fingerprint)
            except OSError as error:
                raise unwritable(path, error) from error
        write_whole(place / _CONTENTS, lambda stream: stream.write(contents))
        self._saved[root, fingerprint] = hash(contents)
        self._tidy(place, set(kept))
        self._evict(place)

    def uses(self) -> list[IndexUse]:
        """Return what is kept, by workspace, the largest first."""
        uses: dict[bytes, IndexUse] = {}
        for place in self._places():
            workspace = _workspace_of(place)
            contents = self._contents(place, None)
            former = uses.get(workspace, IndexUse(workspace, 0, 0, 0))
            uses[workspace] = IndexUse(
                workspace,
                former.n_files + (len(contents.files) if contents else 0),
                former.n_tokens + (contents.n_tokens if contents else 0),
                former.n_bytes + _n_bytes(place),
            )
        return sorted(uses.values(), key=lambda use: -use.n_bytes)

    def forget(self, workspace: bytes) -> int:
        """Remove the index of a workspace, given by its id; returns how many there were."""
        places = [place for place in self._places() if _workspace_of(place) == workspace]
        for place in places:
            _remove(place)
        return len(places)

    def forget_all(self) -> int:
        """Remove everything; returns how many indexes that were."""
        places = self._places()
        if self._folder.exists():
            _remove(self._folder)
        return len(places)

    @property
    def n_bytes(self) -> int:
        """Bytes on disk."""
        return sum(map(_n_bytes, self._places()))

    def _place(self, root: str, fingerprint: str) -> Path:
        vocabulary = hashlib.blake2b(fingerprint.encode(), digest_size=_ID_BYTES).hexdigest()
        return self._folder / vocabulary / workspace_id(root).hex()

    def _places(self) -> list[Path]:
        return [place for place in self._folder.glob("*/*") if place.is_dir()]

    def _contents(self, place: Path, fingerprint: str | None) -> IndexContents | None:
        """Read a table of contents; None where there is none, or it is damaged or foreign."""
        path = place / _CONTENTS
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}.") from error
        try:
            contents = decoded(data)
        except StoreError as error:
            self._set_aside(path, StoreError(f"{path}: {error.message}."))
            return None
        if fingerprint not in {None, contents.fingerprint}:
            self._set_aside(path, StoreError(f"{path}: it belongs to another vocabulary."))
            return None
        return contents

    def _segment(self, path: Path, fingerprint: str) -> Segment | None:
        try:
            return read_segment(path, fingerprint)
        except FileNotFoundError:
            return None
        except SegmentFileError as error:
            self._set_aside(path, error)
            return None

    def _set_aside(self, path: Path, error: StoreError) -> None:
        with suppress(OSError):
            path.replace(path.with_name(path.name + _ASIDE_SUFFIX))
        self._report(
            StoreError(error.message, remedy=f"It was set aside as {path.name}{_ASIDE_SUFFIX}.")
        )

    def _tidy(self, place: Path, names: set[str]) -> None:
        """Remove what no table of contents names any more, when it is old enough."""
        now_s = self._clock()
        for path in _files(place):
            is_named = path.name == _CONTENTS or path.stem in names
            if path.suffix == _SEGMENT_SUFFIX or path.name.startswith(PARTIAL_PREFIX):
                grace_s = _GRACE_S
            else:
                grace_s = _ASIDE_GRACE_S
            with suppress(OSError):
                is_aside = path.suffix == _ASIDE_SUFFIX
                if (is_aside or not is_named) and path.stat().st_mtime < now_s - grace_s:
                    path.unlink()

    def _evict(self, newest: Path) -> None:
        """Remove the workspaces that were unused for longest until the rest is small enough."""
        sizes = {place: _n_bytes(place) for place in self._places()}
        n_bytes = sum(sizes.values())
        # What was saved now goes last.
        for place in sorted(sizes, key=lambda place: (place == newest, _last_use_s(place))):
            if n_bytes <= self._max_bytes:
                break
            _remove(place)
            n_bytes -= sizes[place]


def _workspace_of(place: Path) -> bytes:
    try:
        return bytes.fromhex(place.name)
    except ValueError:
        return b""


def _files(place: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from place.iterdir()


def _n_bytes(place: Path) -> int:
    n_bytes = 0
    for path in _files(place):
        with suppress(FileNotFoundError):
            n_bytes += path.stat().st_size
    return n_bytes


def _last_use_s(place: Path) -> float:
    try:
        return (place / _CONTENTS).stat().st_mtime
    except OSError:
        return 0.0


def _remove(place: Path) -> None:
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{place} cannot be removed: {error}.") from error
