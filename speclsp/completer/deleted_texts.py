"""Text that was deleted or replaced in open documents: edits often write most of it again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from speclsp.drafting.buffer_tokens import Tokenize
from speclsp.drafting.drafter import TokenArray
from speclsp.seam.documents import Document, TextEdit

N_TEXTS: Final = 16
"""Latest texts that are kept."""
LEAST_CHARS: Final = 16
"""Shorter ones gain nothing."""
MOST_CHARS: Final = 4_000
"""A larger deletion is not an edit by hand."""


@dataclass(slots=True)
class _Deleted:
    """Text that successive edits deleted at one place of a document."""

    document: Document
    """The document, without its text."""
    start: int
    """Its former offset in the document."""
    text: str


class DeletedTexts:
    """The latest deleted texts of the open documents.  Any thread may call it."""

    def __init__(self, may_be_shown: Callable[[Document], bool]) -> None:
        """``may_be_shown`` tells whether other documents' drafts may come from a document."""
        self._may_be_shown = may_be_shown
        self._lock = threading.Lock()
        self._texts: deque[_Deleted] = deque(maxlen=N_TEXTS)
        self._may_join = False
        """Whether the last edit only deleted."""
        self._tokens: dict[str, TokenArray] = {}

    def changed(self, former: Document, edit: TextEdit) -> None:
        """Take an edit of a document, and the document as it was before."""
        with self._lock:
            may_join, self._may_join = self._may_join and not edit.text, not edit.text
            taken = former.text[edit.start : edit.end]
            if taken in edit.text or len(taken) > MOST_CHARS:
                return
            newest = self._texts[-1] if self._texts else None
            if newest is not None and may_join and _join(newest, former.uri, edit, taken):
                return
            if newest is not None and len(newest.text) < LEAST_CHARS:
                self._texts.pop()
            self._texts.append(_Deleted(replace(former, text=""), edit.start, taken))

    def closed(self, uri: str) -> None:
        """Forget the texts of a document."""
        with self._lock:
            kept = [deleted for deleted in self._texts if deleted.document.uri != uri]
            self._texts = deque(kept, maxlen=N_TEXTS)

    def forget(self) -> None:
        """Forget all texts: something became a secret that one of them may hold."""
        with self._lock:
            self._texts.clear()
            self._may_join = False
            self._tokens = {}

    def forget_tokens(self) -> None:
        """Drop the tokens: the vocabulary changed."""
        self._tokens = {}

    def texts(self) -> list[str]:
        """Return the texts, the latest first."""
        with self._lock:
            found = list(reversed(self._texts))
        return [
            deleted.text
            for deleted in found
            if len(deleted.text) >= LEAST_CHARS and self._may_be_shown(deleted.document)
        ]

    def tokens(self, tokenize: Tokenize) -> tuple[TokenArray, ...]:
        """Return the texts' tokens, the latest first; for the engine thread."""
        known = self._tokens
        tokens = {text: known[text] if text in known else tokenize(text) for text in self.texts()}
        self._tokens = tokens
        return tuple(tokens.values())


def _join(newest: _Deleted, uri: str, edit: TextEdit, taken: str) -> bool:
    """Join the next deleted text if it was adjacent; return whether it was."""
    is_beside = uri == newest.document.uri and edit.start <= newest.start <= edit.end
    if not is_beside or len(newest.text) + len(taken) > MOST_CHARS:
        return False
    n_before = newest.start - edit.start
    newest.text = taken[:n_before] + newest.text + taken[n_before:]
    newest.start = edit.start
    return True
