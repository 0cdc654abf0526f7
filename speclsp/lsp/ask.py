"""What ``inlineCompletion`` and ``completion`` share: from a query to a suggestion."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from speclsp.lsp.execute_command import ACCEPTED
from speclsp.lsp.session import Session
from speclsp.lsp.suggestion import (
    Query,
    Suggestion,
    request_for,
    suggestions_from,
)
from speclsp.lsp.text_buffer import Cursor, TextBuffer
from speclsp.request import CompletionRequest, Trigger


def buffer_and_cursor(
    session: Session, uri: str, position: types.Position
) -> tuple[TextBuffer, Cursor] | None:
    """Return an open document and the cursor in it, or None: it is not open, or too large."""
    buffer = session.documents.get(uri)
    if buffer is None or session.large_documents.is_too_large(buffer):
        return None
    return buffer, buffer.cursor_at(position.line, position.character, session.encoding)


async def ask(
    session: Session, buffer: TextBuffer, query: Query, method: str, trigger: Trigger
) -> list[Suggestion]:
    """Ask the completer, and return what fits the buffer as it is by then, the best first.

    A newer call for the same document and method cancels this one.
    """
    location = session.location(buffer)
    folder_uri = location.folder.uri if location.folder is not None else None
    settings = session.settings.for_folder(folder_uri)
    if not settings.for_language(buffer.language_id).enabled:
        return []
    invoked = trigger == "invoked"
    request = CompletionRequest(
        uri=buffer.uri,
        path=location.path,
        repo_name=location.repo_name,
        prefix="",
        suffix="",
        language_id=buffer.language_id,
        file=location.file,
        overrides=session.settings.overrides(folder_uri),
        trigger=trigger,
        n_candidates=settings.for_language(buffer.language_id).n_candidates if invoked else 1,
    )
    around = session.documents.around_cell(buffer.uri)
    with session.requests.newest(method, buffer.uri):
        result = await session.complete(request_for(query, request, around))
    if result is None or session.documents.get(buffer.uri) is not buffer:
        return []
    return suggestions_from(query, result, buffer)


def sent(session: Session, suggestions: Sequence[Suggestion]) -> None:
    """Note that suggestions go out; the first counts as shown where the client never says so."""
    for suggestion in suggestions:
        session.suggestions.remember(suggestion)
    completer = session.completer
    if completer is None or session.client_reports_shown:
        return
    shown_id = suggestions[0].completion_id
    if session.suggestions.first_shown(shown_id):
        session.tell("shown", completer.shown, shown_id)


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
