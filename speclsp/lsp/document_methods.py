"""``didOpen``, ``didChange``, ``didSave`` and ``didClose`` of documents and of notebooks.

A notebook's cells are documents; the notebook adds their order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lsprotocol import types

from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import TextBuffer

logger = logging.getLogger(__name__)


def did_open(session: Session, params: types.DidOpenTextDocumentParams) -> None:
    """Take an opened document."""
    _open(session, params.text_document)


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    """Edit a document."""
    _change(session, params.text_document, params.content_changes)


def did_save(session: Session, params: types.DidSaveTextDocumentParams) -> None:
    """Note that a document's file was written."""
    buffer = session.documents.get(params.text_document.uri)
    if buffer is not None:
        session.tell_saved(buffer.uri)


def did_close(session: Session, params: types.DidCloseTextDocumentParams) -> None:
    """Forget a document."""
    _close(session, params.text_document.uri)


def did_open_notebook(session: Session, params: types.DidOpenNotebookDocumentParams) -> None:
    """Open a notebook and its cells."""
    notebook = params.notebook_document
    session.documents.open_notebook(notebook)
    for item in params.cell_text_documents:
        _open(session, item)


def did_change_notebook(session: Session, params: types.DidChangeNotebookDocumentParams) -> None:
    """Apply new, moved, changed and removed cells."""
    change = params.change.cells
    if change is None:
        return
    session.documents.change_notebook(params.notebook_document.uri, change)
    if change.structure is not None:
        for item in change.structure.did_open or ():
            _open(session, item)
        for removed in change.structure.did_close or ():
            _close(session, removed.uri)
    for content in change.text_content or ():
        _change(session, content.document, content.changes)


def did_save_notebook(session: Session, params: types.DidSaveNotebookDocumentParams) -> None:
    """Note that a notebook's file was written."""
    session.tell_saved(params.notebook_document.uri)


def did_close_notebook(session: Session, params: types.DidCloseNotebookDocumentParams) -> None:
    """Close a notebook and its cells."""
    for cell in params.cell_text_documents:
        _close(session, cell.uri)
    session.documents.close_notebook(params.notebook_document.uri)


def _open(session: Session, item: types.TextDocumentItem) -> None:
    """Take a document or a notebook's cell; one that is open already is replaced."""
    _close(session, item.uri)  # it may be open under another spelling of its URI
    buffer = TextBuffer(item.uri, item.language_id, item.version, item.text)
    session.documents.open(buffer)
    session.tell_opened(buffer)


def _change(
    session: Session,
    document: types.VersionedTextDocumentIdentifier,
    changes: Sequence[types.TextDocumentContentChangeEvent],
) -> None:
    """Edit a document or a notebook's cell, one change after the other."""
    buffer = session.documents.get(document.uri)
    if buffer is None:
        logger.warning("ignored a change of %s, which is not open", document.uri)
        return
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            buffer.replace(
                session.cursor(buffer, change.range.start),
                session.cursor(buffer, change.range.end),
                change.text,
            )
        else:
            buffer.replace_all(change.text)
    buffer.version = document.version
    session.tell_changed(buffer)
    if session.window is not None and session.window.has_offers(buffer.uri):
        session.tell_changes()  # together with others it may not be what an offer makes


def _close(session: Session, uri: str) -> None:
    """Forget a document or a notebook's cell, and cancel its requests."""
    buffer = session.documents.close(uri)
    if buffer is not None:
        session.requests.cancel(buffer.uri)
        session.tell_closed(buffer.uri)
