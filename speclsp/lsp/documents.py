"""``textDocument/didOpen``, ``didChange``, ``didSave`` and ``didClose``."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lsprotocol import types

from speclsp.lsp.execute_command import accepted
from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import PositionEncoding, TextBuffer

logger = logging.getLogger(__name__)


def did_open(session: Session, params: types.DidOpenTextDocumentParams) -> None:
    """Take an opened document."""
    open_buffer(session, params.text_document)


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    """Edit a document."""
    change_buffer(session, params.text_document, params.content_changes)


def did_save(session: Session, params: types.DidSaveTextDocumentParams) -> None:
    """Note that a document's file was written."""
    buffer = session.documents.get(params.text_document.uri)
    if buffer is not None and session.window is not None:
        session.tell("save_document", session.window.save_document, buffer.uri)


def did_close(session: Session, params: types.DidCloseTextDocumentParams) -> None:
    """Forget a document."""
    close_buffer(session, params.text_document.uri)


def open_buffer(session: Session, item: types.TextDocumentItem) -> None:
    """Take a document or a notebook's cell; one that is open already is replaced."""
    buffer = TextBuffer(item.uri, item.language_id, item.version, item.text)
    session.documents.open(buffer)
    session.tell_opened(buffer)


def change_buffer(
    session: Session,
    document: types.VersionedTextDocumentIdentifier,
    changes: Sequence[types.TextDocumentContentChangeEvent],
) -> None:
    """Edit a document or a notebook's cell, one change after the other."""
    buffer = session.documents.get(document.uri)
    if buffer is None:
        logger.warning("a change of %s, which is not open", document.uri)
        return
    text_before = buffer.text if session.offered.is_offered(buffer.uri) else ""
    for change in changes:
        _apply(buffer, change, session.encoding)
    buffer.version = document.version
    taken = session.offered.taken(buffer, text_before)
    if taken is not None:
        accepted(session, (taken.completion_id,))
    session.tell_changed(buffer)


def close_buffer(session: Session, uri: str) -> None:
    """Forget a document or a notebook's cell, and what was asked about it."""
    buffer = session.documents.close(uri)
    if buffer is None:
        return
    session.requests.cancel(uri)
    session.offered.forget(uri)
    session.large_documents.forget(uri)
    if session.window is not None:
        session.tell("close_document", session.window.close_document, buffer.uri)


def _apply(
    buffer: TextBuffer, change: types.TextDocumentContentChangeEvent, encoding: PositionEncoding
) -> None:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        buffer.replace(
            buffer.cursor_at(start.line, start.character, encoding),
            buffer.cursor_at(end.line, end.character, encoding),
            change.text,
        )
    else:
        buffer.replace_all(change.text)
