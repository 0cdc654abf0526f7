"""Watches folders for changes with watchdog."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from speclsp.errors import SpecLspError

_EVENTS: Final[list[type[events.FileSystemEvent]]] = [
    events.DirCreatedEvent,
    events.DirDeletedEvent,
    events.DirMovedEvent,
    events.FileClosedEvent,
    events.FileCreatedEvent,
    events.FileDeletedEvent,
    events.FileModifiedEvent,
    events.FileMovedEvent,
]
_MAX_WATCHES_PER_FOLDER: Final = 32
"""watchdog starts a thread for each watch."""

_JOIN_S: Final = 2.0

# It writes an error for each watch that ends while it reads, which is no error.
logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class WatchPlace:
    """A folder to watch, alone or with everything below it."""

    path: str
    recursive: bool


def plan_watches(root: str, folders: Mapping[str, bool]) -> frozenset[WatchPlace]:
    """Return watches for the scanned folders that exclude the ignored ones, if few suffice.

    ``folders`` are relative to ``root``, each with whether it contains an ignored folder.  A folder
    without ignored folders at any depth is watched recursively, any other one alone.  Where that
    takes too many watches, the root is watched recursively.
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
    """Reports the paths of changed files and folders, on a thread of watchdog."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._receiver = _Receiver(changed)
        self._lock = threading.Lock()
        self._observer: BaseObserver | None = None
        self._watches: dict[WatchPlace, ObservedWatch] = {}

    def set_places(self, places: Collection[WatchPlace]) -> None:
        """Watch exactly these places; missing ones are skipped.

        Raises :class:`~speclsp.errors.SpecLspError` with a remedy where the system refuses;
        nothing is watched then.
        """
        with self._lock:
            new = [place for place in places if place not in self._watches]
            try:
                for place in new:
                    self._watch(place)
                if any(place.recursive for place in new):
                    self._probe()
                # Last, so that no change is missed in between.
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
        """Stop watching."""
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
        """Raise OSError if the system's limit of watches is reached.

        watchdog ignores that the system refuses folders below a recursive watch.
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
            # The emitter ended when its folder was removed.
            return

    def _stop(self) -> None:
        self._watches.clear()
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(_JOIN_S)


class _Receiver(events.FileSystemEventHandler):
    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                self._changed(os.fsdecode(path))
