"""A client's completion requests: which are open, who made them, and what popups were offered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from speclsp.documents import common_head
from speclsp.lsp.locations import document_key
from speclsp.lsp.suggestion import Suggestion
from speclsp.lsp.text_buffer import TextBuffer
from speclsp.request import Trigger


class InFlightRequests:
    """The newest request's task by document and method."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[Any]] = {}

    @contextmanager
    def newest(self, method: str, uri: str) -> Iterator[None]:
        """Make the current task the newest of its document, and cancel the previous one."""
        task = asyncio.current_task()
        assert task is not None
        key = (document_key(uri), method)
        older = self._tasks.get(key)
        if older is not None:
            older.cancel()
        self._tasks[key] = task
        try:
            yield
        finally:
            if self._tasks.get(key) is task:
                del self._tasks[key]

    def cancel(self, uri: str) -> None:
        """Cancel a document's open requests."""
        key = document_key(uri)
        for (task_key, _), task in tuple(self._tasks.items()):
            if task_key == key:
                task.cancel()


OLD_INVOKED: Final = 0
_INVOKED, _AUTOMATIC = 1, 2
_N_ONLY_ONES: Final = 3
"""A client that sends more requests of kind 1, and none of another kind, is an old one: nobody asks
by hand so often before typing."""


class TriggerKinds:
    """What one client means by the trigger kinds that it sends.

    1 is Invoked in LSP 3.18 and Automatic in clients written before it was final (such as
    vscode-languageclient up to version 9).  A client that has sent 0 is old, one that has sent 2 is
    not.
    """

    def __init__(self) -> None:
        self._is_old: bool | None = None
        self._n_ones = 0

    def trigger(self, kind: int) -> Trigger:
        """Return who made a request of this kind: the editor or the user."""
        if kind == OLD_INVOKED:
            self._is_old = True
            return "invoked"
        if kind == _AUTOMATIC:
            self._is_old = False
            return "automatic"
        self._n_ones += 1
        is_old = self._n_ones > _N_ONLY_ONES if self._is_old is None else self._is_old
        return "automatic" if is_old else "invoked"


_N_PASTED: Final = 2
"""An edit of at least so many characters at once is not typed."""


class OfferedItems:
    """The latest popup item of each document.

    LSP reports the acceptance of an item by its command, which some clients do not run (Helix,
    Emacs's eglot).  For them :meth:`taken` finds the item in the text that an edit has made.
    """

    def __init__(self) -> None:
        self._by_document: dict[str, Suggestion] = {}

    def offer(self, uri: str, suggestion: Suggestion) -> None:
        """Note the item that is sent to a document's popup."""
        self._by_document[document_key(uri)] = suggestion

    def is_offered(self, uri: str) -> bool:
        """Whether a document's popup was sent an item that may still be accepted."""
        return document_key(uri) in self._by_document

    def taken(self, buffer: TextBuffer, text_before: str) -> Suggestion | None:
        """Return and forget the item that an edit has inserted into the buffer; None if it did not.

        ``text_before`` is the buffer's text before the edit.  Some clients replace the item's
        range, some delete it first, and some insert only what is missing, so the text after the
        edit decides.  An item that the user has typed to its end was not accepted.
        """
        suggestion = self._by_document.get(document_key(buffer.uri))
        if suggestion is None or not _stands_in(buffer, suggestion):
            return None
        # The text is there now, whether it was accepted or typed: the item is no longer offered.
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
    start = suggestion.start
    if start.line >= buffer.n_lines or start.column > len(buffer.line(start.line)):
        return False
    return buffer.text.startswith(suggestion.text, buffer.offset(start))
