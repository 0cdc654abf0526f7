"""Context from other files for the prompts, chosen on a thread of its own.

A request takes what is there and waits for nothing.  Requests that stand apart (headless use) have
theirs chosen at once instead, so that the same input gives the same prompt.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Final

from speclsp.completer.events import EventQueue
from speclsp.engine.models import MAX_PROMPT
from speclsp.project.outline import ProjectOutline
from speclsp.project.pace import Pace
from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.candidate import Candidate
from speclsp.prompt.context.choosing import (
    CursorPlace,
    ViewedText,
    declared_candidates,
    edited_candidates,
    similar_candidates,
    viewed_candidates,
)
from speclsp.prompt.context.edits import EditTrail
from speclsp.prompt.context.ranking import as_chunk, ranked
from speclsp.request import CompletionRequest, Document
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings

_QUIET_S: Final = 0.2
"""Seconds without a request or change after which chunks are chosen."""
_RESCAN_S: Final = 30.0
"""Seconds after which a folder is looked at again for changes that nobody told of."""
_JOIN_S: Final = 5.0
_MAX_PLACES: Final = 64
_MAX_DELIVERED: Final = 2_000
"""Chunks that can still be taken back."""
_CHARS_PER_TOKEN: Final = 3
"""Of the text around the cursor at least this much per prompt token is shown anyway."""
_MAX_FAILURES: Final = 3


class ContextChunks:
    """Any thread may call it; no call but that of a request that stands apart takes long."""

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        *,
        root_of: Callable[[str], str],
        busy: Callable[[], bool],
        chosen: Callable[[], None],
    ) -> None:
        """``chosen`` is told when there is another choice for a document."""
        self._tell_chosen = chosen
        self._settings = settings
        self._events = events
        self._root_of = root_of
        self._pace = Pace(busy, lambda: self._closing)
        self._wake = threading.Condition()
        self._closing = False
        # Guarded by _wake.
        self._documents: dict[str, Document] = {}
        self._changes: dict[str, tuple[Document, Document]] = {}
        """Each document as it was when edits were last taken note of, and as it is."""
        self._places: OrderedDict[str, CompletionRequest] = OrderedDict()
        self._waiting: dict[str, None] = {}
        self._last_news_s = 0.0
        self._is_choosing = False
        self._chosen: dict[str, tuple[Candidate, ...]] = {}
        # Guarded by _work, which is held while chunks are chosen.
        self._work = threading.Lock()
        self._trail = EditTrail()
        self._outlines: dict[str, ProjectOutline] = {}
        self._scanned_s: dict[str, float] = {}
        self._gone: frozenset[str] = frozenset()
        self._delivered: dict[str, tuple[str, str]] = {}
        self._thread = threading.Thread(target=self._run, name="speclsp-context", daemon=True)
        self._thread.start()

    # --- told of what happens -------------------------------------------------------------------

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        self._settings = settings
        self.look_again()

    def look_again(self) -> None:
        """Look for changed files with the next choice."""
        self._scanned_s = {}

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
        """Take note that a buffer was closed; what was edited in it still counts."""
        with self._wake:
            self._documents.pop(uri, None)
            self._changes.pop(uri, None)
            self._places.pop(uri, None)
            self._chosen.pop(uri, None)
            self._waiting.pop(uri, None)
        self.look_again()

    def asked(self, request: CompletionRequest) -> None:
        """Take note of where somebody asks, its text masked."""
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

        Who does not wait only asks, and hastens nothing.
        """
        with self._wake:
            if timeout_s > 0.0:
                self._last_news_s = -math.inf
                self._wake.notify_all()
            return self._wake.wait_for(
                lambda: self._closing or not (self._waiting or self._is_choosing), timeout_s
            )

    # --- asked by the engine thread -------------------------------------------------------------

    def ranked(self, request: CompletionRequest) -> Sequence[ContextChunk]:
        """Return the chunks for a request, the best first."""
        return [as_chunk(candidate) for candidate in self.candidates(request)]

    def candidates(self, request: CompletionRequest) -> tuple[Candidate, ...]:
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
            while not self._closing and not self._is_due():
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
                if self._choose(request) != former:
                    self._tell_chosen()
        finally:
            with self._wake:
                self._is_choosing = False
                self._wake.notify_all()

    def _is_due(self) -> bool:
        return bool(self._waiting) and self._seconds_to_work() == 0

    def _seconds_to_work(self) -> float | None:
        if not self._waiting:
            return None
        return max(0.0, self._last_news_s + _QUIET_S - time.monotonic())

    def _choose(self, request: CompletionRequest) -> tuple[Candidate, ...]:
        with self._work:
            with self._wake:
                changes, self._changes = self._changes, {}
                documents = dict(self._documents)
                places = list(reversed(self._places.values()))
            for old, new in changes.values():
                self._trail.take(new.uri, new.path, old.text.split("\n"), new.text.split("\n"))
            chosen = tuple(self._candidates(request, documents, places))
            root = self._root_of(request.file)
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
        request: CompletionRequest,
        documents: dict[str, Document],
        places: Sequence[CompletionRequest],
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
        outline = self._outline(self._root_of(request.file), documents)
        if outline is not None:
            candidates += declared_candidates(place, outline)
            self._pace.make_way()
            candidates += similar_candidates(place, outline)
        n_chars = _CHARS_PER_TOKEN * (self._settings.n_prompt or MAX_PROMPT)
        visible = request.prefix[-n_chars * 3 // 4 :] + request.suffix[: n_chars // 4]
        return ranked(candidates, visible)

    def _outline(self, root: str, documents: dict[str, Document]) -> ProjectOutline | None:
        """Return a folder's outline as it is now; None outside of all folders."""
        if not root:
            return None
        outline = self._outlines.setdefault(root, ProjectOutline(root))
        now_s = time.monotonic()
        if now_s >= self._scanned_s.get(root, 0.0) + _RESCAN_S or not outline.is_read:
            if not outline.update(self._settings, self._pace.make_way, lambda: self._closing):
                return None
            self._scanned_s[root] = now_s
        outline.set_open(
            {
                outline.relative(document.file): document.text
                for document in documents.values()
                if document.file and self._root_of(document.file) == root and document.text
            }
        )
        self._gone = frozenset(
            key
            for key, (owner, path) in self._delivered.items()
            if owner == root and path.removesuffix(".diff") not in outline.paths
        )
        return outline


def _at_start(document: Document) -> CompletionRequest:
    return CompletionRequest(
        uri=document.uri,
        path=document.path,
        repo_name="",
        prefix="",
        suffix=document.text,
        language_id=document.language_id,
        file=document.file,
    )
