"""The statistics files that the settings name, open as long as they stay as they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speclsp.completer.events import EventQueue
from speclsp.drafting.protocol import NgramCounts, Statistics
from speclsp.errors import StoreError
from speclsp.ngrams.files import Role, StatisticsFile, open_statistics
from speclsp.prompt.protocol import Vocabulary
from speclsp.settings import Settings

_SETTLED_S: Final = 0.2
"""Seconds without a change after which nobody writes a file."""

_FileState = tuple[int, int, int] | None
"""Size, time of the last change and inode of a file; None where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A file as it was when it was opened, or refused: then ``file`` is None."""

    role: Role
    state: _FileState
    fingerprint: str
    file: StatisticsFile | None


class StatisticsFiles:
    """Belongs to one thread, but for :meth:`changed`.

    A file that cannot be used is reported once, until it or the vocabulary changes; one that is
    being written just then is opened when that has ended.
    """

    def __init__(self, events: EventQueue, closing: threading.Event) -> None:
        self._events = events
        self._closing = closing
        self._entries: dict[tuple[Path, Role], _Entry] = {}

    def changed(self) -> bool:
        """Whether a file differs from when it was opened; any thread may ask."""
        entries = self._entries
        return any(_state_of(path) != entry.state for (path, _), entry in entries.items())

    def load(self, settings: Settings, vocabulary: Vocabulary) -> Statistics:
        """Open the files that are new or changed, and return all that can be used."""
        self._entries = {
            (path, role): self._entry(path, role, vocabulary)
            for path, role in _wanted(settings)
            if not self._closing.is_set()
        }
        return self._usable()

    def unload(self) -> None:
        """Close all files."""
        self._entries = {}

    def _entry(self, path: Path, role: Role, vocabulary: Vocabulary) -> _Entry:
        state, fingerprint = _state_of(path), vocabulary.fingerprint
        known = self._entries.get((path, role))
        if known is not None and (known.state, known.fingerprint) == (state, fingerprint):
            return known
        try:
            file = open_statistics(path, vocabulary, role)
        except StoreError as error:
            self._report(error, path, state)
            return _Entry(role, state, fingerprint, None)
        sizes = ", ".join(f"{n:,} of order {order}" for order, n in file.n_ngrams.items())
        self._events.log("info", f"{role} statistics {path}: n-grams: {sizes or 'none'}")
        return _Entry(role, state, fingerprint, file)

    def _report(self, error: StoreError, path: Path, state: _FileState) -> None:
        """Report a file that was in ``state``, unless somebody is just writing it.

        It differs from the state that is noted then, so that the next request has it opened anew.
        """
        self._closing.wait(_SETTLED_S)
        if _state_of(path) == state:
            self._events.problem(error.message, error.remedy)

    def _usable(self) -> Statistics:
        return Statistics(
            static=tuple(self._counts("static")), dynamic=tuple(self._counts("dynamic"))
        )

    def _counts(self, role: Role) -> Iterator[NgramCounts]:
        for entry in self._entries.values():
            if entry.role == role and entry.file is not None:
                yield entry.file.tables


def _wanted(settings: Settings) -> Iterator[tuple[Path, Role]]:
    for name in settings.lookup_cache_static:
        yield Path(name).expanduser(), "static"
    for name in settings.lookup_cache_dynamic:
        yield Path(name).expanduser(), "dynamic"


def _state_of(path: Path) -> _FileState:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)
