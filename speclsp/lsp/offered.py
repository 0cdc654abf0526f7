"""Which popup item an edit has put into the text.

LSP has an item's command tell of its acceptance, and some clients run none: Helix and Emacs's
eglot.  Without the edit to tell of it, nothing would ever be accepted there.
"""

from __future__ import annotations

from speclsp.documents import common_head
from speclsp.lsp.locations import document_key
from speclsp.lsp.suggestion import Suggestion
from speclsp.lsp.text_buffer import TextBuffer

_N_PASTED = 2
"""Characters that come in at once where nobody types them."""


class OfferedItems:
    """The latest popup item of each document.  It is not synchronised."""

    def __init__(self) -> None:
        self._by_document: dict[str, Suggestion] = {}

    def offer(self, uri: str, suggestion: Suggestion) -> None:
        """Note that a document's popup has an item."""
        self._by_document[document_key(uri)] = suggestion

    def is_offered(self, uri: str) -> bool:
        """Whether a document's popup has had an item that may yet be taken."""
        return document_key(uri) in self._by_document

    def taken(self, buffer: TextBuffer, text_before: str) -> Suggestion | None:
        """Return the item that one edit has put into the buffer, and forget it, or None.

        ``text_before`` is the buffer's text before the edit.  Some clients replace the range, some
        delete it first, some insert only what is not there yet, so what counts is what stands
        there afterwards.  An item that was typed to its end was not taken.
        """
        suggestion = self._by_document.get(document_key(buffer.uri))
        if suggestion is None or not _stands_in(buffer, suggestion):
            return None
        # It stands there now, and is not offered any more, however it came.
        self.forget(buffer.uri)
        n_before = buffer.offset(suggestion.start)
        there = text_before[n_before : n_before + len(suggestion.text)]
        n_typed = common_head(there, suggestion.text, len(there))
        return suggestion if len(suggestion.text) - n_typed >= _N_PASTED else None

    def forget(self, uri: str) -> None:
        """Forget a document's item."""
        self._by_document.pop(document_key(uri), None)


def _stands_in(buffer: TextBuffer, suggestion: Suggestion) -> bool:
    """Whether the buffer's text at the suggestion's start is the suggestion's."""
    line_idx, column = suggestion.start
    first, *others = suggestion.text.split("\n")
    if line_idx + len(others) >= buffer.n_lines:
        return False
    if not others:
        return buffer.line(line_idx).startswith(first, column)
    *middle, last = others
    return (
        buffer.line(line_idx)[column:] == first
        and all(buffer.line(line_idx + 1 + i) == line for i, line in enumerate(middle))
        and buffer.line(line_idx + len(others)).startswith(last)
    )
