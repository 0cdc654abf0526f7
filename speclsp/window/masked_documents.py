"""A window's documents with their secrets masked, as the completer gets them.

Each change is compared with the text before and masked once, by the lines that changed; its edit
then goes along with the text.  A
cursor counts characters of the window's text and becomes an offset in the masked text.  The two
texts are equal on the cursor's line, since nothing is requested on a line that holds a secret.

Before a change is delivered by which something becomes a secret, the window forgets what it kept of
it: changes, suggestions, earlier versions.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Literal

from msgspec import structs

from speclsp.edits.trail import Trail
from speclsp.seam.completer import Completer
from speclsp.seam.documents import Document, Ranges, TextEdit, edit_between
from speclsp.seam.edit import Change
from speclsp.seam.open_documents import Documents, n_versions
from speclsp.seam.request import DocumentCursor, PlacedRequest, Q
from speclsp.secrets.masked_text import MaskedText, Masking
from speclsp.secrets.paths import is_secret_path
from speclsp.secrets.pieces import Pieces

logger = logging.getLogger(__name__)

AT_ONCE: Final = 65_536
"""Characters that are masked at once, in 5 to 60 ms; with ``masks_late`` a thread masks longer
texts."""

Refusal = Literal["private", "unknown"]
"""Why a request is not made: its line or file holds secrets, or its version is not kept."""


class MaskedDocuments:
    """The documents of one window; the completer gets each change.  Any thread may call it."""

    def __init__(
        self,
        completer: Completer,
        *,
        masks: bool,
        masks_late: bool,
        clock: Callable[[], float] = time.perf_counter,
        became_secret: Callable[[Pieces], None] = lambda _: None,
    ) -> None:
        """``became_secret`` is called before the completer gets the text without a new secret."""
        self._completer = completer
        self._became_secret = became_secret
        self._trail = Trail(clock)
        """It lives here, so that it outlives the engine."""
        self._masks = masks
        self._lock = threading.Lock()
        self._documents = Documents()
        """As the completer has them."""
        self._masked: dict[str, deque[tuple[int, MaskedText]]] = {}
        """The latest versions of each document before and after masking, the newest last."""
        self._at_once = AT_ONCE if masks_late else sys.maxsize
        self._late: dict[str, Document] = {}
        """The newest versions of the documents that the thread masks."""
        self._masking: dict[str, Future[None]] = {}
        """Of each of them, what is done once its newest version is masked."""
        self._late_thread = ThreadPoolExecutor(1, "speclsp-mask")

    def open(self, document: Document) -> None:
        """Take an opened document; one that is open already is replaced."""
        with self._lock:
            self._late.pop(document.uri, None)
            self._masked.pop(document.uri, None)
            self._take(document)

    def change(self, uri: str, version: int, text: str) -> None:
        """Take a document's next version."""
        with self._lock:
            newest = self._late.get(uri) or self._documents.get(uri)
            if newest is None:
                return
            document = dataclasses.replace(newest, version=version, text=text)
            if uri in self._late:
                self._late[uri] = document
            else:
                self._take(document)

    def close(self, uri: str) -> None:
        """Forget a document."""
        with self._lock:
            self._late.pop(uri, None)
            self._masking.pop(uri, None)
            self._masked.pop(uri, None)
            self._documents.close(uri)
            self._trail.closed(uri)
        self._completer.close_document(uri)

    def get(self, uri: str) -> Document | None:
        """Return a document's newest version, masked or about to be; None where it is not open."""
        return self._late.get(uri) or self._documents.get(uri)

    def newest_masked(self, uri: str) -> Document | None:
        """Return a document's newest version; None where it is not open, or not masked yet."""
        with self._lock:
            return None if uri in self._late else self._documents.get(uri)

    def all_masked(self) -> list[Document]:
        """Return the newest versions of the documents, the most recently changed first.

        Those that are not masked yet are left out.
        """
        with self._lock:
            return [one for one in self._documents.newest() if one.uri not in self._late]

    def changes(self) -> tuple[Change, ...]:
        """Return the latest changes in all documents, masked, the oldest first."""
        with self._lock:
            return self._trail.changes()

    def accepted(self, uri: str, text: str) -> None:
        """Note that a document's latest change is an accepted suggestion that inserted ``text``."""
        with self._lock:
            self._trail.accepted(uri, text)

    def at_version(self, uri: str, version: int) -> Document | None:
        """Return one of a document's latest versions; None where it is not known (any more)."""
        return self._documents.at_version(uri, version)

    def place(self, request: Q) -> PlacedRequest[Q] | Refusal:
        """Return a request with its offset and edit in the masked text of its version."""
        if not self._masks:
            return self.place_masked(request)
        document = self._documents.get(request.uri)
        if document is not None and is_secret_path(document.path, document.file):
            return "private"
        with self._lock:
            masked = self._masked_at(request.uri, request.version)
        if masked is None:
            return "unknown"
        text, edit = masked.text, request.edit
        if edit is not None:
            masked = masked.copy()
            masked.update(edit.applied_to(masked.raw), edit)
        offset = masked.masked_offset(request.offset)
        if offset is None:
            return "private"
        if edit is not None:
            edit = edit_between(text, masked.text, cursor=offset)
        return self.place_masked(structs.replace(request, offset=offset, edit=edit))

    def raw_edit(self, uri: str, version: int, edit: TextEdit) -> TextEdit | None:
        """Return an edit of a version's masked text as one of the window's text.

        None where it touches a secret, or the version is not kept any more.
        """
        if not self._masks:
            return edit
        with self._lock:
            masked = self._masked_at(uri, version)
            place = masked.raw_range(edit.start, edit.end) if masked is not None else None
        return TextEdit(*place, edit.text) if place is not None else None

    def raw_text(self, uri: str, version: int) -> str | None:
        """Return the window's text of a version; None where it is not kept (any more)."""
        if not self._masks:
            document = self.at_version(uri, version)
            return document.text if document is not None else None
        with self._lock:
            masked = self._masked_at(uri, version)
            return masked.raw if masked is not None else None

    def place_masked(self, request: Q) -> PlacedRequest[Q] | Literal["unknown"]:
        """Return a request whose offset and edit refer to the masked text."""
        return self._documents.place(request) or "unknown"

    async def until_masked(self, request: DocumentCursor) -> None:
        """Wait while the thread masks a request's version."""
        with self._lock:
            late = self._late.get(request.uri)
            masking = self._masking.get(request.uri)
        if late is not None and late.version == request.version and masking is not None:
            # Unlike the future itself, waiting for it can be cancelled.
            await asyncio.wait((asyncio.wrap_future(masking),))

    def stop_masking(self) -> None:
        """Drop the texts that wait for the masking thread."""
        self._late_thread.shutdown(wait=False, cancel_futures=True)

    def _take(self, document: Document) -> None:
        """Mask a version and deliver it, now or on the thread.  The lock is held."""
        if not self._masks:
            self._deliver(document)
            return
        if is_secret_path(document.path, document.file):
            self._deliver(dataclasses.replace(document, text=""))
            return
        masked = self._newest_masked(document)
        masking = masked.update(document.text, n_most=self._at_once)
        if masking is not None:
            self._deliver_masked(document, masked, masking)
            return
        self._late[document.uri] = document
        self._masking[document.uri] = self._late_thread.submit(self._mask_late, document.uri)

    def _masked_at(self, uri: str, version: int) -> MaskedText | None:
        """Return one of a document's latest versions.  The lock is held."""
        versions = self._masked.get(uri, ())
        return next((masked for v, masked in reversed(versions) if v == version), None)

    def _newest_masked(self, document: Document) -> MaskedText:
        """Return a copy of what is known of a document's secrets."""
        versions = self._masked.get(document.uri)
        return versions[-1][1].copy() if versions else MaskedText(document.path)

    def _mask_late(self, uri: str) -> None:
        try:
            while (document := self._late.get(uri)) is not None:
                with self._lock:
                    masked = self._newest_masked(document)
                masking = masked.update(document.text)
                assert masking is not None
                with self._lock:
                    if self._late.get(uri) is document:
                        del self._late[uri]
                        self._deliver_masked(document, masked, masking)
                        return  # a newer version is submitted by itself
        except Exception:
            # An unmasked text must not reach the completer.
            logger.exception("the secrets of %s could not be masked; open it again", uri)
            with self._lock:
                self._late.pop(uri, None)

    def _deliver_masked(self, document: Document, masked: MaskedText, masking: Masking) -> None:
        versions = self._masked.setdefault(document.uri, deque())
        pieces = Pieces(masking.secrets)
        if pieces:
            self._trail.forget(pieces)
            self._became_secret(pieces)
        # The first version's edit is one of no text: a document that is opened again had another.
        edit = masking.edit if versions else None
        versions.append((document.version, masked))
        showed_secrets = masking.shows_secrets or masked.is_secret
        while len(versions) > (1 if showed_secrets else n_versions(document.text)):
            versions.popleft()
        self._deliver(dataclasses.replace(document, text=masked.text), edit, masking.hidden)
        if showed_secrets:
            self._documents.keep_newest(document.uri)
        if pieces:
            self._trail.forget(pieces)  # the change itself

    def _deliver(
        self, document: Document, edit: TextEdit | None = None, hidden: Ranges = ()
    ) -> None:
        """Give the completer a masked version.  The lock is held."""
        former = self._documents.get(document.uri)
        is_change = former is not None and former == dataclasses.replace(
            document, version=former.version, text=former.text
        )
        if former is None or not is_change:
            self._documents.open(document)
            self._completer.open_document(document)
            return
        edit = edit or edit_between(former.text, document.text)
        self._trail.changed(former, edit)
        self._documents.change(document)
        self._completer.change_document(document, edit, hidden)
