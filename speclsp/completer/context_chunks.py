"""Context from other files for the prompts, chosen on a thread of its own.

A request from an editor uses the last choice and does not wait.  A headless request has chunks
chosen for it, so that the same input gives the same prompt.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from speclsp.completer.events import EventQueue
from speclsp.completer.project import Project
from speclsp.engine.models import MAX_PROMPT
from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.candidates import (
    Candidate,
    CursorPlace,
    ViewedText,
    as_chunk,
    declared_candidates,
    edited_candidates,
    ranked,
    similar_candidates,
    viewed_candidates,
)
from speclsp.prompt.context.edits import EditTrail
from speclsp.prompt.context.outline import FileOutline, ProjectOutline
from speclsp.request import Document, PlacedRequest
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings

_QUIET_S: Final = 0.2
"""Seconds without a request or change after which chunks are chosen."""
_OUTLINED_S: Final = 60.0
"""Most seconds that choosing waits until the files of a folder are outlined."""
_BUSY_S: Final = 0.25
"""Most seconds that choosing makes way for a completion."""
_POLL_S: Final = 0.01
_JOIN_S: Final = 5.0
_MAX_PLACES: Final = 64
_MAX_DELIVERED: Final = 2_000
"""Chunks that can still be withdrawn from prompts."""
_CHARS_PER_TOKEN: Final = 3
"""Of the text around the cursor at least this much per prompt token is shown anyway."""
_MAX_FAILURES: Final = 3


class ContextChunks:
    """Thread-safe.  Only a headless request's call takes long."""

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        *,
        project: Project,
        busy: Callable[[], bool],
        chosen: Callable[[], None],
    ) -> None:
        """``chosen`` is told when there is another choice for a document."""
        self._tell_chosen = chosen
        self._settings = settings
        self._events = events
        self._project = project
        self._busy = busy
        self._wake = threading.Condition()
        self._closing = False
        # Guarded by _wake.
        self._documents: dict[str, Document] = {}
        self._changes: dict[str, tuple[Document, Document]] = {}
        """Each document as it was when edits were last taken note of, and as it is."""
        self._places: OrderedDict[str, PlacedRequest] = OrderedDict()
        self._waiting: dict[str, None] = {}
        self._last_news_s = 0.0
        self._is_choosing = False
        self._chosen: dict[str, tuple[Candidate, ...]] = {}
        # Guarded by _work, which is held while chunks are chosen.
        self._work = threading.Lock()
        self._trail = EditTrail()
        self._outlines: dict[str, tuple[int, dict[str, tuple[str, FileOutline]], ProjectOutline]]
        self._outlines = {}
        """By folder: the version of its files' outlines, the open files', and both together."""
        self._gone: frozenset[str] = frozenset()
        self._delivered: dict[str, tuple[str, str]] = {}
        self._thread = threading.Thread(target=self._run, name="speclsp-context", daemon=True)
        self._thread.start()

    # --- told of what happens -------------------------------------------------------------------

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        self._settings = settings

    def take(self, document: Document) -> None:
        """Take an opened or changed buffer, its secrets masked."""
        with self._wake:
            former = self._documents.get(document.uri)
            if former is not None:
                since = self._changes.pop(document.uri, (former, former))[0]
                self._changes[document.uri] = (since, document)
            self._documents[document.uri] = document
            self._news(document.uri)

    def forget(self, uri: str) -> None:
        """Note that a buffer was closed; its edits remain candidates."""
        with self._wake:
            self._documents.pop(uri, None)
            self._changes.pop(uri, None)
            self._places.pop(uri, None)
            self._chosen.pop(uri, None)
            self._waiting.pop(uri, None)

    def asked(self, request: PlacedRequest) -> None:
        """Note where completion was requested; the text is masked."""
        with self._wake:
            self._places.pop(request.uri, None)
            self._places[request.uri] = request
            while len(self._places) > _MAX_PLACES:
                self._places.popitem(last=False)
            if request.supersede:
                self._news(request.uri)

    def close(self) -> None:
        """Stop the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(_JOIN_S)

    def wait_settled(self, timeout_s: float) -> bool:
        """Wait until all choices are made, as after a pause; whether that came about.

        With a timeout of 0 it only tells, and hastens nothing.
        """
        with self._wake:
            if timeout_s > 0.0:
                self._last_news_s = -math.inf
                self._wake.notify_all()
            return self._wake.wait_for(
                lambda: self._closing or not (self._waiting or self._is_choosing), timeout_s
            )

    # --- asked by the engine thread -------------------------------------------------------------

    def ranked(self, request: PlacedRequest) -> Sequence[ContextChunk]:
        """Return the chunks for a request, the best first."""
        return [as_chunk(candidate) for candidate in self.candidates(request)]

    def candidates(self, request: PlacedRequest) -> tuple[Candidate, ...]:
        """Return the chunks for a request with their reasons, the best first."""
        if not self._settings.n_context:
            return ()
        if not request.supersede:
            return self._choose(request)
        return self._chosen.get(request.uri, ())

    def gone(self) -> Collection[str]:
        """Return the keys of chunks whose files must not be shown any more."""
        return self._gone

    # --- choosing -------------------------------------------------------------------------------

    def _news(self, uri: str) -> None:
        is_asleep = not self._waiting
        self._waiting.pop(uri, None)
        self._waiting[uri] = None
        self._last_news_s = time.monotonic()
        if is_asleep:  # else it looks again by itself, and a key press wakes nobody
            self._wake.notify_all()

    def _run(self) -> None:
        n_failures = 0
        while not self._closing and n_failures < _MAX_FAILURES:
            try:
                self._next_work()
            except Exception as error:  # noqa: BLE001 - nothing may end the thread unsaid
                n_failures += 1
                message = f"{type(error).__name__}: {error}"
                self._events.problem(
                    f"choosing context from other files failed: {message}.",
                    "Completion goes on without; set n_context to 0 to switch it off.",
                )

    def _next_work(self) -> None:
        with self._wake:
            while not self._closing and self._seconds_to_work() != 0:
                self._wake.wait(self._seconds_to_work())
            if self._closing:
                return
            # The newest first: that is where the user is.
            uri, _ = self._waiting.popitem()
            self._is_choosing = True
            request = self._places.get(uri)
            document = self._documents.get(uri)
        if request is None and document is not None:
            request = _at_start(document)
        try:
            if request is not None and self._settings.n_context:
                former = self._chosen.get(uri, ())
                until_s = time.monotonic() + _BUSY_S
                while self._busy() and time.monotonic() < until_s and not self._closing:
                    time.sleep(_POLL_S)
                if self._choose(request) != former:
                    self._tell_chosen()
        finally:
            with self._wake:
                self._is_choosing = False
                self._wake.notify_all()

    def _seconds_to_work(self) -> float | None:
        if not self._waiting:
            return None
        return max(0.0, self._last_news_s + _QUIET_S - time.monotonic())

    def _choose(self, request: PlacedRequest) -> tuple[Candidate, ...]:
        root = self._project.root_of(request.file)
        version, on_disk = self._outlined(root, current=not request.supersede)
        with self._work:
            with self._wake:
                changes, self._changes = self._changes, {}
                documents = dict(self._documents)
                places = list(reversed(self._places.values()))
            for old, new in changes.values():
                self._trail.take(new.uri, new.path, old.text.split("\n"), new.text.split("\n"))
            outline = self._outline(root, version, on_disk, documents) if root else None
            chosen = tuple(self._candidates(request, documents, places, outline))
            for candidate in chosen:
                self._delivered.pop(candidate.key, None)
                self._delivered[candidate.key] = (root, candidate.path)
            for key in list(self._delivered)[:-_MAX_DELIVERED]:
                del self._delivered[key]
        with self._wake:
            if request.uri in self._documents or not request.supersede:
                self._chosen[request.uri] = chosen
        return chosen

    def _candidates(
        self,
        request: PlacedRequest,
        documents: Mapping[str, Document],
        places: Sequence[PlacedRequest],
        outline: ProjectOutline | None,
    ) -> list[Candidate]:
        place = CursorPlace(
            uri=request.uri, path=request.path, prefix=request.prefix, suffix=request.suffix
        )
        shown = {
            uri: document.text.split("\n")
            for uri, document in documents.items()
            if not is_secret_path(document.path)
        }
        candidates = edited_candidates(self._trail.newest_first(), shown)
        viewed = [
            ViewedText(p.uri, p.path, documents[p.uri].text, p.prefix.count("\n"))
            for p in places
            if p.uri in shown and p.uri != request.uri
        ]
        candidates += viewed_candidates(viewed)
        if outline is not None:
            candidates += declared_candidates(place, outline)
            candidates += similar_candidates(place, outline)
        n_chars = _CHARS_PER_TOKEN * (self._settings.n_prompt or MAX_PROMPT)
        visible = request.prefix[-n_chars * 3 // 4 :] + request.suffix[: n_chars // 4]
        return ranked(candidates, visible)

    def _outlined(self, root: str, *, current: bool) -> tuple[int, Mapping[str, FileOutline]]:
        """Return the outlines of a folder's files, once the index has read them."""
        until_s = time.monotonic() + _OUTLINED_S
        while (found := self._project.outlines(root, current=current)) is None:
            if self._closing or time.monotonic() >= until_s:
                return -1, {}
            time.sleep(_POLL_S)
        return found

    def _outline(
        self,
        root: str,
        version: int,
        on_disk: Mapping[str, FileOutline],
        documents: Mapping[str, Document],
    ) -> ProjectOutline:
        """Return a folder's outline with its open files as they are in buffers."""
        former_version, former_open, outline = self._outlines.get(root, (None, {}, None))
        texts = {
            os.path.relpath(document.file, root).replace(os.sep, "/"): document.text
            for document in documents.values()
            if document.file and document.text and self._project.root_of(document.file) == root
        }
        opened: dict[str, tuple[str, FileOutline]] = {}
        for path, text in texts.items():
            former = former_open.get(path)
            is_same = former is not None and former[0] == text
            opened[path] = former if former and is_same else (text, FileOutline.of(text, path))
        if outline is None or version != former_version or opened != former_open:
            outline = ProjectOutline(on_disk, opened, lambda path: self._project.text(root, path))
            self._outlines[root] = (version, opened, outline)
        self._gone = frozenset(
            key
            for key, (owner, path) in self._delivered.items()
            if owner == root and path not in outline
        )
        return outline


def _at_start(document: Document) -> PlacedRequest:
    return PlacedRequest(
        uri=document.uri,
        version=document.version,
        offset=0,
        text=document.text,
        cursor=0,
        path=document.path,
        repo_name=document.repo_name,
        language_id=document.language_id,
        file=document.file,
    )
