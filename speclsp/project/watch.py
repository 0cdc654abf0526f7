"""Watches folders for changes; the only importer of watchdog."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from speclsp.errors import SpecLspError

_EVENTS: Final[list[type[FileSystemEvent]]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
_MAX_WATCHES_PER_FOLDER: Final = 32
"""Each costs a thread of watchdog's."""

_JOIN_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class WatchPlace:
    """A folder to watch, by itself or with all below it."""

    path: str
    recursive: bool


def plan_watches(root: str, folders: Mapping[str, bool]) -> frozenset[WatchPlace]:
    """Cover the folders of a scan without the ignored ones among them, if that takes few watches.

    ``folders`` are relative to ``root``, each with whether it holds a folder that is left out.
    A folder with none below it, at any depth, is watched whole; others by themselves.  Where that
    takes too many watches, the root is watched whole.
    """
    mixed: set[str] = set()
    for folder, holds_ignored in folders.items():
        ancestor = folder
        while holds_ignored and ancestor not in mixed:
            mixed.add(ancestor)
            ancestor = ancestor.rpartition("/")[0]
    places = [
        WatchPlace(str(Path(root, folder)), folder not in mixed)
        for folder in folders
        if folder in mixed or not folder or folder.rpartition("/")[0] in mixed
    ]
    if len(places) > _MAX_WATCHES_PER_FOLDER:
        return frozenset({WatchPlace(root, recursive=True)})
    return frozenset(places)


class Watcher:
    """Reports the paths of files and folders that changed, from a thread of watchdog's."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._receiver = _Receiver(changed)
        self._lock = threading.Lock()
        self._observer: BaseObserver | None = None
        self._watches: dict[WatchPlace, ObservedWatch] = {}

    def set_places(self, places: Collection[WatchPlace]) -> None:
        """Watch these places, and no others from now on.

        Places that are gone are passed over.  Raises :class:`~speclsp.errors.SpecLspError` with a
        remedy where the system refuses; nothing is watched then.
        """
        with self._lock:
            new = [place for place in places if place not in self._watches]
            try:
                for place in new:
                    self._watch(place)
                if any(place.recursive for place in new):
                    self._probe()
                # Only now, so that no moment goes unwatched.
                for place in [place for place in self._watches if place not in places]:
                    self._unwatch(self._watches.pop(place))
            except OSError as error:
                self._stop()
                raise SpecLspError(
                    f"the project's folders cannot be watched: {error.strerror or error}.",
                    remedy="Raise fs.inotify.max_user_watches (and max_user_instances) with "
                    "sysctl; until then changes are noticed by scanning now and then.",
                ) from error

    def close(self) -> None:
        """Watch nothing any more."""
        with self._lock:
            self._stop()

    def _watch(self, place: WatchPlace) -> None:
        if self._observer is None:
            self._observer = Observer()
            self._observer.daemon = True
            self._observer.start()
        try:
            self._watches[place] = self._observer.schedule(
                self._receiver, place.path, recursive=place.recursive, event_filter=_EVENTS
            )
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return

    def _probe(self) -> None:
        """Raise OSError if the limit of watches is reached.

        watchdog passes over folders below a recursive watch that the system refuses to watch.
        """
        if self._observer is not None:
            with tempfile.TemporaryDirectory(prefix="speclsp-") as folder:
                watch = self._observer.schedule(self._receiver, folder, event_filter=_EVENTS)
                self._unwatch(watch)

    def _unwatch(self, watch: ObservedWatch) -> None:
        assert self._observer is not None
        try:
            self._observer.unschedule(watch)
        except (KeyError, OSError):
            # The emitter has ended already, with the folder that it watched.
            return

    def _stop(self) -> None:
        self._watches.clear()
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(_JOIN_S)


class _Receiver(FileSystemEventHandler):
    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                self._changed(os.fsdecode(path))
