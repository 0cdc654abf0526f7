"""The open documents and notebooks of one client, and which of them are too large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from speclsp.lsp.editor import Editor
from speclsp.lsp.locations import document_key
from speclsp.lsp.text_buffer import TextBuffer

_ARRIVED_IN: Final[ContextVar[TextBuffer | None]] = ContextVar("arrived_in", default=None)
"""The document of the request that is handled, as it was when the request arrived."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One notebook cell: ``kind`` is LSP's, 1 markup and 2 code."""

    uri: str
    kind: int


class DocumentStore:
    """Buffers by URI, and the order of cells in notebooks.

    A URI may come spelled in several ways; lookups take them all for one.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, TextBuffer] = {}
        self._cells: dict[str, list[Cell]] = {}
        self._notebook_uris: dict[str, str] = {}
        self._notebook_of_cell: dict[str, str] = {}

    def __iter__(self) -> Iterator[TextBuffer]:
        return iter(tuple(self._buffers.values()))

    def get(self, uri: str) -> TextBuffer | None:
        """Return an open document's buffer, or None."""
        return self._buffers.get(document_key(uri))

    def note_arrival(self, params: Any) -> None:
        """Keep, for the handler of the request that arrives, its document as it is now.

        The handler runs later, and a change that follows in the same read must not move its cursor.
        """
        uri = getattr(getattr(params, "text_document", None), "uri", None)
        buffer = self.get(uri) if isinstance(uri, str) else None
        _ARRIVED_IN.set(None if buffer is None else buffer.snapshot())

    def as_of_arrival(self, uri: str) -> TextBuffer | None:
        """Return a document as it was when the request that is handled arrived, or None."""
        arrived_in, buffer = _ARRIVED_IN.get(), self.get(uri)
        if buffer is None or arrived_in is None or arrived_in.opening is not buffer.opening:
            return buffer
        return arrived_in

    def open(self, buffer: TextBuffer) -> None:
        """Take a document that was opened."""
        self._buffers[document_key(buffer.uri)] = buffer

    def close(self, uri: str) -> TextBuffer | None:
        """Drop a document and return it, or None where it was not open."""
        return self._buffers.pop(document_key(uri), None)

    # --- notebooks ------------------------------------------------------------------------------

    def open_notebook(self, uri: str, cells: Sequence[Cell]) -> None:
        """Take a notebook's order of cells."""
        key = document_key(uri)
        self._notebook_uris[key] = uri
        self._set_cells(key, list(cells))

    def splice_cells(self, uri: str, start: int, n_deleted: int, cells: Sequence[Cell]) -> None:
        """Replace ``n_deleted`` cells from ``start`` by ``cells``."""
        key = document_key(uri)
        order = list(self._cells.get(key, ()))
        order[start : start + n_deleted] = cells
        self._notebook_uris.setdefault(key, uri)
        self._set_cells(key, order)

    def change_cell_kinds(self, uri: str, cells: Sequence[Cell]) -> None:
        """Take the new kinds of some cells."""
        key = document_key(uri)
        kinds = {document_key(c.uri): c for c in cells}
        order = self._cells.get(key, ())
        self._set_cells(key, [kinds.get(document_key(c.uri), c) for c in order])

    def close_notebook(self, uri: str) -> None:
        """Drop a notebook's order of cells."""
        key = document_key(uri)
        self._notebook_uris.pop(key, None)
        self._set_cells(key, [])
        self._cells.pop(key, None)

    def notebook_uri(self, cell_uri: str) -> str | None:
        """Return the URI of the notebook that a cell belongs to, or None."""
        key = self._notebook_of_cell.get(document_key(cell_uri))
        return None if key is None else self._notebook_uris.get(key)

    def around_cell(
        self, cell_uri: str
    ) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
        """Return (URI, version) of the cells above and below, of the same kind and language.

        Both are empty for a document that is no cell.
        """
        key = document_key(cell_uri)
        cells = self._cells.get(self._notebook_of_cell.get(key, ""), [])
        buffer = self._buffers.get(key)
        place = next((i for i, c in enumerate(cells) if document_key(c.uri) == key), None)
        if buffer is None or place is None:
            return (), ()
        kind = cells[place].kind
        above = tuple(self._like(cells[:place], kind, buffer.language_id))
        return above, tuple(self._like(cells[place + 1 :], kind, buffer.language_id))

    def _like(
        self, cells: Sequence[Cell], kind: int, language_id: str
    ) -> Iterator[tuple[str, int]]:
        for cell in cells:
            buffer = self.get(cell.uri)
            if buffer is not None and cell.kind == kind and buffer.language_id == language_id:
                yield buffer.uri, buffer.version

    def _set_cells(self, key: str, cells: list[Cell]) -> None:
        for cell in self._cells.get(key, ()):
            self._notebook_of_cell.pop(document_key(cell.uri), None)
        self._cells[key] = cells
        for cell in cells:
            self._notebook_of_cell[document_key(cell.uri)] = key


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
