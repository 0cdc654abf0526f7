"""``textDocument/inlineCompletion``: ghost text."""

from __future__ import annotations

from lsprotocol import types

from speclsp.lsp.ask import accept_command, ask, buffer_and_cursor, sent, wire_range
from speclsp.lsp.session import Session
from speclsp.lsp.suggestion import Query, query_at, query_selected
from speclsp.lsp.text_buffer import Cursor, TextBuffer


async def inline_completion(
    session: Session, params: types.InlineCompletionParams
) -> types.InlineCompletionList:
    """Return items, the best first, several where the user asked; never null, but an empty list.

    Null leaves old ghost text on screen.
    """
    nothing = types.InlineCompletionList(items=[])
    found = buffer_and_cursor(session, params.text_document.uri, params.position)
    if found is None:
        return nothing
    buffer, cursor = found
    query = _query(session, buffer, cursor, params.context.selected_completion_info)
    if query is None:
        return nothing
    buffer, suggestions = await ask(
        session,
        query,
        types.TEXT_DOCUMENT_INLINE_COMPLETION,
        session.trigger_kinds.trigger(int(params.context.trigger_kind)),
    )
    if not suggestions:
        return nothing
    sent(session, suggestions)
    return types.InlineCompletionList(
        items=[
            types.InlineCompletionItem(
                insert_text=suggestion.text,
                range=wire_range(session, buffer, suggestion),
                command=accept_command(suggestion),
            )
            for suggestion in suggestions
        ]
    )


def _query(
    session: Session,
    buffer: TextBuffer,
    cursor: Cursor,
    selected: types.SelectedCompletionInfo | None,
) -> Query | None:
    if selected is None:
        return query_at(buffer, cursor)
    start, end = selected.range.start, selected.range.end
    return query_selected(
        buffer,
        buffer.cursor_at(start.line, start.character, session.encoding),
        buffer.cursor_at(end.line, end.character, session.encoding),
        selected.text,
    )
