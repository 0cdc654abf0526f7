"""Documents that are too large to be completed in, and telling the user so."""

from __future__ import annotations

from collections.abc import Callable

from speclsp.lsp.editor import Editor
from speclsp.lsp.locations import document_key
from speclsp.lsp.text_buffer import TextBuffer


class LargeDocuments:
    """Which open documents are left out for their size.

    Each key press in a document copies its text a few times, which with tens of megabytes nobody
    would want to wait for.  The user is told of each such document in the log, and of the first
    one before the eyes.
    """

    def __init__(self, editor: Editor, n_chars_max: Callable[[], int]) -> None:
        self._editor = editor
        self._n_chars_max = n_chars_max
        self._left_out: set[str] = set()
        self._told: set[str] = set()
        self._has_shown = False

    def is_left_out(self, buffer: TextBuffer) -> bool:
        """Whether a document was left out when it was opened or last changed."""
        return document_key(buffer.uri) in self._left_out

    def leaves_out(self, buffer: TextBuffer) -> bool:
        """Leave a document out where it is too large, else take it in; whether it is."""
        change = self._left_out.add if self.is_too_large(buffer) else self._left_out.discard
        change(document_key(buffer.uri))
        return self.is_left_out(buffer)

    def is_too_large(self, buffer: TextBuffer) -> bool:
        """Whether a document is too large by now, of which the user is told."""
        if buffer.n_chars <= self._n_chars_max():
            return False
        key = document_key(buffer.uri)
        if key not in self._told:
            self._told.add(key)
            self._tell(buffer)
        return True

    def forget(self, uri: str) -> None:
        """Forget a document that was closed."""
        key = document_key(uri)
        self._left_out.discard(key)
        self._told.discard(key)

    def _tell(self, buffer: TextBuffer) -> None:
        message = (
            f"speclsp suggests nothing in {buffer.uri.rpartition('/')[2]}: it has "
            f"{buffer.n_chars:,} characters, and more than {self._n_chars_max():,} are too many "
            "(setting max_document_size)."
        )
        if self._has_shown:
            self._editor.log("warning", message)
            return
        self._has_shown = True
        self._editor.show("warning", message)
