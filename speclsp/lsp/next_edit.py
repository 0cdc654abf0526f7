"""``textDocument/copilotInlineEdit``: the next edit, by the method of Copilot's language server.

Clients that know the method differ in what they do with several edits, so that the answer has one
or none, and is never null.  Its members beyond Copilot's are for our own clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from speclsp.answers import EditResult
from speclsp.cancellation import CancellationToken
from speclsp.decoding.report import edit_line
from speclsp.documents import TextEdit
from speclsp.errors import EngineUnavailableError, SpecLspError
from speclsp.lsp.capabilities import Command
from speclsp.lsp.own_methods import (
    DID_SHOW_EDIT,
    NEXT_EDIT,
    DidShowCompletionParams,
    ItemCommand,
    ShownItem,
)
from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import TextBuffer
from speclsp.requests import EditRequest
from speclsp.settings_resolution import for_language

logger = logging.getLogger(__name__)


async def next_edit(
    session: Session, params: types.TextDocumentPositionParams
) -> dict[str, list[dict[str, Any]]]:
    """Return the next edit around the cursor, or an empty list."""
    buffer = session.documents.as_of_arrival(params.text_document.uri)
    if buffer is None or session.window is None or session.is_too_large(buffer):
        return {"edits": []}
    if session.window.document(buffer.uri) is None:
        session.tell_opened(buffer)
    position = params.position
    cursor = buffer.cursor_at(position.line, position.character, session.encoding)
    folder = session.location(buffer).folder
    folder_uri = folder.uri if folder is not None else None
    settings = for_language(session.settings.for_folder(folder_uri), buffer.language_id)
    if session.settings.is_switched_off or not settings.enabled or session.is_snoozing:
        return {"edits": []}
    request = EditRequest(
        uri=buffer.uri,
        version=buffer.version,
        offset=buffer.offset(cursor),
        overrides=session.settings.overrides(folder_uri),
    )
    with session.requests.newest(NEXT_EDIT, buffer.uri) as in_flight:
        try:
            result = await _result(session, request)
        except asyncio.CancelledError:
            if not in_flight.is_dropped:
                raise
            result = None  # superseded, or the document was closed
    if result is not None:
        session.editor.log("debug", edit_line(result))
    now = session.documents.get(buffer.uri)
    if result is None or result.edit is None or now is None or now.opening is not buffer.opening:
        return {"edits": []}
    if now.version != buffer.version:
        # What is shown must fit the text that it is shown in; the client asks again.
        return {"edits": []}
    return {"edits": [_wire_edit(session, now, result, result.edit)]}


async def _result(session: Session, request: EditRequest) -> EditResult | None:
    """Return the completer's result, or None where it has none.

    Cancelling the calling task cancels the request.
    """
    assert session.window is not None
    cancel = CancellationToken()
    try:
        return await session.window.next_edits.next_edit(request, cancel)
    except asyncio.CancelledError:
        cancel.cancel(for_good=True)
        raise
    except EngineUnavailableError as error:
        logger.debug("no next edit: %s", error)
    except SpecLspError as error:
        logger.error("next edit failed: %s", error)  # noqa: TRY400  the trace says nothing more
    except Exception:
        logger.exception("next edit failed")
    return None


def _wire_edit(
    session: Session, buffer: TextBuffer, result: EditResult, edit: TextEdit
) -> dict[str, Any]:
    edit_id = result.completion_id

    def wire(one: TextEdit) -> dict[str, Any]:
        return {
            "range": _wire_range(session, buffer, one),
            "text": one.text.replace("\n", buffer.newline),
        }

    return {
        **wire(edit),
        "textDocument": {"uri": buffer.uri, "version": buffer.version},
        "command": {
            "title": "Accept the edit",
            "command": Command.ACCEPTED_EDIT,
            "arguments": [edit_id],
        },
        "id": edit_id,
        "hunks": [wire(one) for one in result.hunks],
        "isFar": result.is_far,
        "probability": result.probability,
        "divergences": msgspec.to_builtins(result.divergences),
    }


def _wire_range(session: Session, buffer: TextBuffer, edit: TextEdit) -> dict[str, Any]:
    """Return the range that an edit replaces, in the client's units."""
    places: list[dict[str, int]] = []
    for offset in (edit.start, edit.end):
        cursor = buffer.cursor_of(offset)
        character = buffer.character_at(cursor, session.encoding)
        places.append({"line": cursor.line, "character": character})
    return {"start": places[0], "end": places[1]}


def did_show(session: Session, params: DidShowCompletionParams) -> None:
    """Note that an edit is on screen."""
    match params.item:
        case ShownItem(command=ItemCommand(Command.ACCEPTED_EDIT, [str(edit_id), *_])):
            if session.window is not None:
                session.tell(session.window.next_edits.shown, edit_id)
        case _:
            logger.warning("%s: no edit of ours in %r", DID_SHOW_EDIT, params)


def accepted(session: Session, arguments: Sequence[Any]) -> None:
    """Note that the user accepted an edit: ``[id]``."""
    if session.window is not None:
        session.tell(session.window.next_edits.accepted, _edit_id(Command.ACCEPTED_EDIT, arguments))


def declined(session: Session, arguments: Sequence[Any]) -> None:
    """Note that the user declined an edit: ``[id]``."""
    if session.window is not None:
        session.tell(session.window.next_edits.declined, _edit_id(Command.DECLINED_EDIT, arguments))


def _edit_id(command: str, arguments: Sequence[Any]) -> str:
    """Return the id that a command's arguments have."""
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    raise JsonRpcInvalidParams(message=f"{command} takes the edit's id")
