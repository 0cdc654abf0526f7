"""The open documents of one client, and the order of the cells in its notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

from lsprotocol import types

from speclsp.lsp.locations import document_key
from speclsp.lsp.text_buffer import TextBuffer

_ARRIVED_IN: Final[ContextVar[TextBuffer | None]] = ContextVar("arrived_in", default=None)
"""The current request's document, as it was when the request arrived."""

CellVersion = tuple[str, int]
"""The URI and the version of a cell's document."""


class DocumentStore:
    """Buffers by URI, and the order of cells in notebooks.

    All spellings of a URI find the same document.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, TextBuffer] = {}
        self._notebooks: dict[str, types.NotebookDocument] = {}

    def __iter__(self) -> Iterator[TextBuffer]:
        return iter(tuple(self._buffers.values()))

    def get(self, uri: str) -> TextBuffer | None:
        """Return an open document's buffer, or None."""
        return self._buffers.get(document_key(uri))

    def note_arrival(self, params: Any) -> None:
        """Keep a snapshot of an arriving request's document for the request's handler.

        The handler runs later; a change that arrives meanwhile must not move the cursor.
        """
        uri = getattr(getattr(params, "text_document", None), "uri", None)
        buffer = self.get(uri) if isinstance(uri, str) else None
        _ARRIVED_IN.set(None if buffer is None else buffer.snapshot())

    def as_of_arrival(self, uri: str) -> TextBuffer | None:
        """Return a document as it was when the current request arrived, or None."""
        arrived_in, buffer = _ARRIVED_IN.get(), self.get(uri)
        if buffer is None or arrived_in is None or arrived_in.opening is not buffer.opening:
            return buffer
        return arrived_in

    def open(self, buffer: TextBuffer) -> None:
        """Store an opened document."""
        self._buffers[document_key(buffer.uri)] = buffer

    def close(self, uri: str) -> TextBuffer | None:
        """Drop a document and return it, or None where it was not open."""
        return self._buffers.pop(document_key(uri), None)

    # --- notebooks ------------------------------------------------------------------------------

    def open_notebook(self, notebook: types.NotebookDocument) -> None:
        """Store a notebook's order of cells."""
        self._notebooks[document_key(notebook.uri)] = notebook

    def change_notebook(self, uri: str, change: types.NotebookDocumentCellChanges) -> None:
        """Replace, move and remove cells, and change their kinds."""
        notebook = self._notebooks.get(document_key(uri))
        if notebook is None:
            return
        cells = list(notebook.cells)
        if change.structure is not None:
            array = change.structure.array
            cells[array.start : array.start + array.delete_count] = array.cells or ()
        changed = {document_key(cell.document): cell for cell in change.data or ()}
        notebook.cells = [changed.get(document_key(cell.document), cell) for cell in cells]

    def close_notebook(self, uri: str) -> None:
        """Drop a notebook's order of cells."""
        self._notebooks.pop(document_key(uri), None)

    def notebook_uri(self, cell_uri: str) -> str | None:
        """Return the URI of the notebook that a cell belongs to, or None."""
        found = self._place_of(cell_uri)
        return None if found is None else found[0].uri

    def around_cell(self, cell_uri: str) -> tuple[tuple[CellVersion, ...], tuple[CellVersion, ...]]:
        """Return the cells above and below, of the same kind and language.

        Both are empty for a document that is no cell.
        """
        found, buffer = self._place_of(cell_uri), self.get(cell_uri)
        if found is None or buffer is None:
            return (), ()
        notebook, idx = found
        kind, language_id = notebook.cells[idx].kind, buffer.language_id
        above = tuple(self._alike(notebook.cells[:idx], kind, language_id))
        return above, tuple(self._alike(notebook.cells[idx + 1 :], kind, language_id))

    def _place_of(self, cell_uri: str) -> tuple[types.NotebookDocument, int] | None:
        """Return the notebook that a cell belongs to, and the cell's index in it."""
        key = document_key(cell_uri)
        for notebook in self._notebooks.values():
            for idx, cell in enumerate(notebook.cells):
                if document_key(cell.document) == key:
                    return notebook, idx
        return None

    def _alike(
        self, cells: Sequence[types.NotebookCell], kind: int, language_id: str
    ) -> Iterator[CellVersion]:
        for cell in cells:
            buffer = self.get(cell.document)
            if buffer is not None and cell.kind == kind and buffer.language_id == language_id:
                yield buffer.uri, buffer.version
