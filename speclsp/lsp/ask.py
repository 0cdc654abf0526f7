"""What ``inlineCompletion`` and ``completion`` share: from a query to a suggestion."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from speclsp.lsp.execute_command import ACCEPTED
from speclsp.lsp.session import Session
from speclsp.lsp.suggestion import (
    Query,
    Suggestion,
    suggestions_from,
)
from speclsp.lsp.text_buffer import Cursor, TextBuffer
from speclsp.request import CompletionRequest, Trigger


def buffer_and_cursor(
    session: Session, uri: str, position: types.Position
) -> tuple[TextBuffer, Cursor] | None:
    """Return a document as the request found it and the cursor in it, or None.

    None where it is not open, or too large.
    """
    buffer = session.documents.as_of_arrival(uri)
    if buffer is None or session.large_documents.is_too_large(buffer):
        return None
    if session.large_documents.is_left_out(buffer):
        session.tell_changed(buffer)  # the limit was raised
    return buffer, buffer.cursor_at(position.line, position.character, session.encoding)


async def ask(
    session: Session, query: Query, method: str, trigger: Trigger
) -> tuple[TextBuffer, list[Suggestion]]:
    """Ask the completer; returns the buffer as it is by then, and what fits it, the best first.

    A newer call for the same document and method cancels this one.
    """
    buffer = query.buffer
    location = session.location(buffer)
    folder_uri = location.folder.uri if location.folder is not None else None
    settings = session.settings.for_folder(folder_uri)
    if not settings.for_language(buffer.language_id).enabled:
        return buffer, []
    invoked = trigger == "invoked"
    above, below = session.documents.around_cell(buffer.uri)
    request = CompletionRequest(
        uri=buffer.uri,
        version=buffer.version,
        offset=query.offset,
        edit=query.edit,
        above=above,
        below=below,
        overrides=session.settings.overrides(folder_uri),
        trigger=trigger,
        n_candidates=settings.for_language(buffer.language_id).n_candidates if invoked else 1,
    )
    with session.requests.newest(method, buffer.uri):
        result = await session.complete(request)
    now = session.documents.get(buffer.uri)
    if result is None or now is None or now.opening is not buffer.opening:
        return buffer, []
    return now, suggestions_from(query, result, now)


def sent(session: Session, suggestions: Sequence[Suggestion]) -> None:
    """Note that suggestions go out; the first counts as shown where the client never says so."""
    window = session.window
    if window is None:
        return
    for suggestion in suggestions:
        window.sent(suggestion.completion_id, suggestion.text, suggestion.n_foreign)
    if not session.client_reports_shown:
        session.tell("shown", window.shown, suggestions[0].completion_id)


def wire_range(session: Session, buffer: TextBuffer, suggestion: Suggestion) -> types.Range:
    """Return the range that a suggestion replaces, in the client's units."""
    start, end = suggestion.start, suggestion.end
    return types.Range(
        start=types.Position(start.line, buffer.character_at(start, session.encoding)),
        end=types.Position(end.line, buffer.character_at(end, session.encoding)),
    )


def accept_command(suggestion: Suggestion) -> types.Command:
    """Return the command by which a client reports that it inserted an item."""
    return types.Command(title="Accepted", command=ACCEPTED, arguments=[suggestion.completion_id])
