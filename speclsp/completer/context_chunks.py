"""Context from other files for the prompts, chosen on a thread of its own.

A request from an editor takes the last choice.  A headless request waits for a choice of its own,
so that the same input gives the same prompt.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from speclsp.backends.weights import MAX_PROMPT
from speclsp.completer.project import Project
from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.candidates import definition_candidates, edited_candidates, ranked
from speclsp.prompt.context.definitions import DefinitionTable, NameCodes
from speclsp.prompt.context.edited_regions import EditedRegions
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document, TextEdit
from speclsp.seam.events import EventQueue
from speclsp.seam.open_documents import Documents
from speclsp.seam.request import AnyPlaced
from speclsp.secrets.masked_text import masked_path
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings

_QUIET_S: Final = 0.2
"""Seconds without a request or change after which chunks are chosen."""
_OUTLINED_S: Final = 60.0
"""Most seconds that choosing waits until a folder's files are outlined."""
_POLL_S: Final = 0.01
_JOIN_S: Final = 5.0
_CHARS_PER_TOKEN: Final = 3
"""Characters of text around the cursor that the prompt shows at least, per prompt token."""


class ContextChunks:
    """The chosen chunks of each document.  Any thread may call it."""

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        *,
        documents: Documents,
        project: Project,
        is_ignored: Callable[[str], bool],
        chosen: Callable[[], None],
    ) -> None:
        """``is_ignored`` takes a file's absolute path; ``chosen`` is called after a new choice."""
        self._settings = settings
        self._events = events
        self._documents = documents
        self._project = project
        self._is_ignored = is_ignored
        self._on_chosen = chosen
        self._wake = threading.Condition()
        self._closing = False
        # Guarded by _wake.
        self._edited = EditedRegions()
        self._places: dict[str, AnyPlaced] = {}
        """Each document's latest request."""
        self._waiting: dict[str, None] = {}
        self._last_change_s = 0.0
        self._is_choosing = False
        self._chosen: dict[str, tuple[ContextChunk, ...]] = {}
        self._shown: dict[str, frozenset[str]] = {}
        """By folder: the paths of the files that prompts of its documents may show."""
        self._n_forgotten = 0
        """How often the choices were forgotten."""
        # Guarded by _work, which is held while chunks are chosen.
        self._work = threading.Lock()
        self._names: dict[str, tuple[int, DefinitionTable]] = {}
        """By folder: which of its files define a name, and the version of their outlines."""
        self._thread = threading.Thread(target=self._run, name="speclsp-context", daemon=True)
        self._thread.start()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings.

        Where other files are excluded, nothing of other files is shown until the next choice.
        """
        with self._wake:
            if settings.exclude != self._settings.exclude:
                self._forget_choices()
            self._settings = settings

    def forget_texts(self) -> None:
        """Show nothing of other files until the next choice: something became a secret."""
        with self._wake:
            self._forget_choices()
            self._places.clear()

    def _forget_choices(self) -> None:
        self._n_forgotten += 1
        self._chosen.clear()
        self._shown = dict.fromkeys(self._shown, frozenset())

    def changed(self, document: Document) -> None:
        """Note that a document was opened or changed."""
        with self._wake:
            self._note_change(document.uri)

    def edited(self, former: Document, edit: TextEdit) -> None:
        """Note an edit of a document, and the document as it was before."""
        with self._wake:
            self._edited.take(former, edit)

    def forget(self, uri: str) -> None:
        """Note that a document was closed; its edits remain candidates."""
        with self._wake:
            for table in (self._places, self._chosen, self._waiting):
                table.pop(uri, None)

    def asked(self, request: AnyPlaced) -> None:
        """Note the position of a request."""
        with self._wake:
            self._places[request.uri] = request
            if request.is_editors:
                self._note_change(request.uri)

    def close(self) -> None:
        """Stop the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(_JOIN_S)

    def wait_settled(self, timeout_s: float) -> bool:
        """Wait until all choices are made, as after a pause; return whether they are.

        A timeout of 0 does not wait, and leaves the pause as it is.
        """
        with self._wake:
            if timeout_s > 0.0:
                self._last_change_s = -math.inf
                self._wake.notify_all()
            return self._wake.wait_for(
                lambda: self._closing or not (self._waiting or self._is_choosing), timeout_s
            )

    # --- called by the engine thread ------------------------------------------------------------

    def ranked(self, request: AnyPlaced, until_s: float = math.inf) -> Sequence[ContextChunk]:
        """Return the chunks for a request, the best first.

        A headless request waits until the folder's files are outlined, or until ``until_s``.
        """
        if not self._settings.n_context:
            return ()
        if not request.is_editors:
            return self._choose(request, until_s)
        return self._chosen.get(request.uri, ())

    def may_show(self, request: AnyPlaced, path: str) -> bool:
        """Whether a prompt may show chunks of a file: it was neither removed nor ignored since."""
        shown = self._shown.get(self._project.root_of(request.file))
        return shown is None or path in shown

    # --- choosing -------------------------------------------------------------------------------

    def _note_change(self, uri: str) -> None:
        is_asleep = not self._waiting
        self._waiting.pop(uri, None)
        self._waiting[uri] = None
        self._last_change_s = time.monotonic()
        if is_asleep:  # otherwise it wakes up by itself
            self._wake.notify_all()

    def _run(self) -> None:
        while not self._closing:
            self._events.guard("choosing context from other files", self._next_work)

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
        try:
            document = self._documents.get(uri)
            if request is None and document is not None:
                start = CompletionRequest(uri=uri, version=document.version, offset=0)
                request = self._documents.place(start)
            if request is not None and self._settings.n_context:
                former = self._chosen.get(uri, ())
                if self._choose(request) != former:
                    self._on_chosen()
        finally:
            with self._wake:
                self._is_choosing = False
                self._wake.notify_all()

    def _seconds_to_work(self) -> float | None:
        if not self._waiting:
            return None
        return max(0.0, self._last_change_s + _QUIET_S - time.monotonic())

    def _choose(self, request: AnyPlaced, until_s: float = math.inf) -> tuple[ContextChunk, ...]:
        n_forgotten = self._n_forgotten
        root = self._project.root_of(request.file)
        version, on_disk = self._outlined(root, until_s, current=not request.is_editors)
        with self._work:
            documents = {d.uri: d for d in self._documents.newest() if not self._is_ignored(d.file)}
            for closed in self._names.keys() - self._project.roots():
                del self._names[closed]
            if root and self._names.get(root, (None, None))[0] != version:
                self._names[root] = (version, DefinitionTable(on_disk))
            chosen = tuple(self._candidates(request, root, documents))
        with self._wake:
            if self._n_forgotten != n_forgotten:  # meanwhile
                return ()
            self._shown[root] = frozenset((*on_disk, *(d.path for d in documents.values())))
            if self._documents.get(request.uri) is not None:  # it may have been closed meanwhile
                self._chosen[request.uri] = chosen
        return chosen

    def _candidates(
        self,
        request: AnyPlaced,
        root: str,
        documents: Mapping[str, Document],
    ) -> list[ContextChunk]:
        shown = {
            uri: document.text.split("\n")
            for uri, document in documents.items()
            if not is_secret_path(document.path, document.file)
        }
        with self._wake:
            regions = self._edited.newest_first()
        n_chars = _CHARS_PER_TOKEN * (self._settings.n_prompt or MAX_PROMPT)
        visible = request.prefix[-n_chars * 3 // 4 :] + request.suffix[: n_chars // 4]
        candidates = edited_candidates(regions, shown)
        if root:
            opened = {d.file: d.text for d in documents.values()}

            def read(path: str) -> str | None:
                # As in Document.file, which has backslashes on Windows.
                text = opened.get(os.path.normpath(os.path.join(root, path)))  # noqa: PTH118
                return self._project.text(root, path) if text is None else text

            candidates += definition_candidates(request, self._names[root][1], read, visible)
        if self._settings.mask_secrets:
            candidates = [c for c in candidates if masked_path(c.path) == c.path]
        return ranked(candidates, visible)

    def _outlined(
        self, root: str, until_s: float, *, current: bool
    ) -> tuple[int, Mapping[str, NameCodes]]:
        """Return the outlines of a folder's files, once the index has read them."""
        until_s = min(until_s, time.monotonic() + _OUTLINED_S)
        while (found := self._project.outlines(root, current=current)) is None:
            if self._closing or time.monotonic() >= until_s:
                return -1, {}
            time.sleep(_POLL_S)
        return found
