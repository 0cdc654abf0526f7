"""What the windows of one process share: models, engine thread, project indexes, accepted texts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from speclsp.backends.http.target import RemoteLoader
from speclsp.backends.weights import LlamaLoader, Loader, Tokenizer
from speclsp.completer.accepted import AcceptedTexts
from speclsp.completer.engine_thread import EngineThread, WindowEvents
from speclsp.completer.jobs import EngineWindow
from speclsp.completer.learned_files import LearnedFiles, learn_into
from speclsp.completer.loaded_models import Models
from speclsp.completer.project import ProjectIndexes
from speclsp.completer.statistics_files import OpenedFiles
from speclsp.seam.documents import Ranges
from speclsp.seam.events import Event
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings
from speclsp.storage.locations import WaitLimit

CLOSE_TIMEOUT_S: Final = 5.0
_LOCKED_S: Final = 2.0
"""Seconds that closing waits, in all, for other processes that hold the stores."""


class Engine:
    """One engine and its windows.  Any thread may call it.

    The settings of scope ``engine`` are the same for all windows; each has its own other settings.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        loader: Loader | None = None,
        clock: Callable[[], float] = time.perf_counter,
        log: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        """``log`` takes every event of the engine, for whichever window."""
        self.clock = clock
        self.events = WindowEvents(log)
        self._settings = settings
        """The engine thread's settings: the newest window's, see :meth:`_merged`."""
        self._lock = threading.RLock()
        self._tokenizer: Tokenizer | None = None
        self._has_tokenizer = threading.Event()
        self._is_started = False
        self._limit = WaitLimit()
        self.learned_files = LearnedFiles(
            self.events,
            self._limit,
            lambda: [learn_into(window.settings) for window in self.events.windows],
        )
        self._accepted: dict[tuple[bool, bool], AcceptedTexts] = {}
        self.models = Models(
            settings,
            loader if loader is not None else RemoteLoader(LlamaLoader(self.events.log)),
            self.events,
            use_tokenizer=self._use_tokenizer,
        )
        self.thread = EngineThread(self.models, self.events, clock=clock)
        self.indexes = ProjectIndexes(lambda: self.thread.busy, self._limit)
        self.statistics_files: OpenedFiles = WeakValueDictionary()

    def start(self) -> None:
        """Begin to load the models, once."""
        with self._lock:
            if not self._is_started:
                self.thread.start()  # raises at the limit of the user's threads
                self._is_started = True

    def begin_close(self) -> None:
        """Let no store wait long for other processes any more."""
        self._limit.end_in(_LOCKED_S)

    def close(self) -> None:
        """Stop all threads and free the models."""
        self.begin_close()
        texts_wait = any(texts.waits_for_vocabulary() for texts in self._accepted.values())
        if texts_wait and self._is_started and self.models.state == "loading":
            self._has_tokenizer.wait(CLOSE_TIMEOUT_S)
        self.thread.close(CLOSE_TIMEOUT_S)
        for texts in self._accepted.values():
            texts.close()

    def join(self, window: EngineWindow) -> None:
        """Add a window: it gets the engine's vocabulary, state and events."""
        with self._lock:
            if self._tokenizer is not None:
                window.use_tokenizer(self._tokenizer)
            self.events.join(window)
            self._settle(window.settings)

    def leave(self, window: EngineWindow) -> None:
        """Remove a window.  The last one leaves the models as they are."""
        with self._lock:
            self.events.leave(window)
            if self.events.windows:
                self._settle(self._settings)

    def apply_settings(self, window: EngineWindow, *, reload: bool) -> None:
        """Put a window's new settings into effect; ``reload`` loads the models again."""
        with self._lock:
            self._settings = self._merged(window.settings)
            self.thread.apply_settings(self._settings, window, reload=reload)

    def accepted(self, settings: Settings) -> AcceptedTexts:
        """Return the accepted texts that windows with these settings for them share."""
        key = settings.mask_secrets, settings.persist
        with self._lock:
            if key not in self._accepted:
                texts = self._accepted[key] = AcceptedTexts(
                    settings, self.events, self.learned_files, self._limit
                )
                if self._tokenizer is not None and not self._tokenizer.is_estimate:
                    texts.use_tokenizer(self._tokenizer)
            return self._accepted[key]

    def forget(self, window: EngineWindow, pieces: Pieces) -> None:
        """Forget a window's texts, and what was learned with a piece of a secret."""
        self.thread.forget(window)
        for texts in self._every_accepted() if pieces else ():
            texts.forget(pieces)

    def forget_learned(self, name: str, ranges: Ranges) -> None:
        """Forget an accepted text, and what was learned with its letters at ``ranges``."""
        for texts in self._every_accepted():
            texts.forget_learned(name, ranges)

    def _every_accepted(self) -> tuple[AcceptedTexts, ...]:
        with self._lock:
            return tuple(self._accepted.values())

    def is_off_for(self, window: EngineWindow) -> bool:
        """Whether completion is off in a window, and the engine runs for others."""
        return not window.settings.enabled and self._settings.enabled

    def _settle(self, settings: Settings) -> None:
        merged = self._merged(settings)
        if merged != self._settings:
            self._settings = merged
            self.thread.apply_settings(merged, None, reload=False)

    def _merged(self, settings: Settings) -> Settings:
        """Return ``settings``, with what needs loaded models on as long as any window wants it."""
        every = [window.settings for window in self.events.windows] or [settings]
        seconds = [each.sleep_idle_seconds for each in every]
        return replace(
            settings,
            enabled=any(each.enabled for each in every),
            speculation=any(each.speculation for each in every),
            sleep_idle_seconds=-1 if min(seconds) < 0 else max(seconds),
        )

    def _use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Give another vocabulary to everything that tokenises; on the engine thread."""
        with self._lock:
            self._tokenizer = tokenizer
            for texts in self._accepted.values() if not tokenizer.is_estimate else ():
                texts.use_tokenizer(tokenizer)
            for window in self.events.windows:
                window.use_tokenizer(tokenizer)
        self._has_tokenizer.set()
