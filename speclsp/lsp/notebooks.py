"""``notebookDocument/didOpen``, ``didChange``, ``didSave`` and ``didClose``.

Cells are documents like all others; a notebook adds their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from speclsp.lsp.document_store import Cell
from speclsp.lsp.documents import change_buffer, close_buffer, open_buffer
from speclsp.lsp.session import Session

NOTEBOOK_SYNC = types.NotebookDocumentSyncOptions(
    notebook_selector=[types.NotebookDocumentFilterWithNotebook(notebook="*")], save=True
)


def did_open(session: Session, params: types.DidOpenNotebookDocumentParams) -> None:
    """Open a notebook and its cells."""
    notebook = params.notebook_document
    session.documents.open_notebook(notebook.uri, _cells(notebook.cells))
    for item in params.cell_text_documents:
        open_buffer(session, item)


def did_change(session: Session, params: types.DidChangeNotebookDocumentParams) -> None:
    """Apply new, moved, changed and removed cells."""
    change = params.change.cells
    if change is None:
        return
    uri = params.notebook_document.uri
    if change.structure is not None:
        _change_structure(session, uri, change.structure)
    if change.data:
        session.documents.change_cell_kinds(uri, _cells(change.data))
    for content in change.text_content or ():
        change_buffer(session, content.document, content.changes)


def did_save(session: Session, params: types.DidSaveNotebookDocumentParams) -> None:
    """Tell the completer that the notebook's file was written."""
    if session.window is not None:
        uri = params.notebook_document.uri
        session.tell("save_document", session.window.save_document, uri)


def did_close(session: Session, params: types.DidCloseNotebookDocumentParams) -> None:
    """Close a notebook and its cells."""
    for cell in params.cell_text_documents:
        close_buffer(session, cell.uri)
    session.documents.close_notebook(params.notebook_document.uri)


def _change_structure(
    session: Session, uri: str, structure: types.NotebookDocumentCellChangeStructure
) -> None:
    array = structure.array
    session.documents.splice_cells(uri, array.start, array.delete_count, _cells(array.cells or ()))
    for item in structure.did_open or ():
        open_buffer(session, item)
    for removed in structure.did_close or ():
        close_buffer(session, removed.uri)


def _cells(cells: Sequence[types.NotebookCell]) -> list[Cell]:
    return [Cell(uri=cell.document, kind=int(cell.kind)) for cell in cells]
