"""``textDocument/copilotInlineEdit``: the next edit, by the method of Copilot's language server.

Clients that know the method differ in what they do with several edits, so that the answer has one
or none, and is never null.  They differ in how they count characters, too, whatever was negotiated,
so that an edit replaces whole lines.  Its line ends are LF in every document: editors convert what
they insert, and show what they do not.  Its members beyond Copilot's are for our own clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from speclsp.edits.edit import smallest_edit, whole_lines
from speclsp.lsp.capabilities import Command
from speclsp.lsp.own_methods import DidShowCompletionParams, own_method, reported_id
from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import TextBuffer, code_units
from speclsp.reporting.report import edit_line
from speclsp.seam.documents import TextEdit
from speclsp.seam.edit import EditRequest, EditResult

logger = logging.getLogger(__name__)

NEXT_EDIT: Final = "textDocument/copilotInlineEdit"
DID_SHOW_EDIT: Final = "textDocument/didShowInlineEdit"

_NONE: Final = "none: "
"""How the statistics begin to say why there are no next edits."""
_REMEDY: Final = (
    "Name a model for next edits as `edit_model` (docs/next-edit.md; `embedded` is one to try), or "
    "set `edit_format` to analogy."
)


@own_method(NEXT_EDIT, types.TextDocumentPositionParams, is_request=True)
async def next_edit(
    session: Session, params: types.TextDocumentPositionParams
) -> dict[str, list[dict[str, Any]]]:
    """Return the next edit around the cursor, or an empty list."""
    buffer, window = session.asked_in(params.text_document.uri), session.window
    here = session.settings_in(buffer) if buffer is not None else None
    if buffer is None or window is None or here is None or session.is_snoozing:
        return {"edits": []}
    request = EditRequest(
        uri=buffer.uri,
        version=buffer.version,
        offset=buffer.offset(session.cursor(buffer, params.position)),
        overrides=here[1],
    )
    ask = partial(window.next_edits.next_edit, others=partial(_others, session, buffer))
    with session.requests.newest(NEXT_EDIT, buffer.uri) as in_flight:
        try:
            result = await session.answer("next edit", ask, request)
        except asyncio.CancelledError:
            if not in_flight.is_dropped:
                raise
            result = None  # superseded, or the document was closed
    if result is not None:
        session.editor.log("debug", edit_line(result))
        _say_what_is_missing(session, result)
    now = session.documents.get(buffer.uri)
    if result is None or not result.hunks or now is None or now.opening is not buffer.opening:
        return {"edits": []}
    uri, version = result.elsewhere or (buffer.uri, buffer.version)
    changed = session.documents.get(uri)
    if now.version != buffer.version or changed is None or changed.version != version:
        # What is shown must fit the text that it is shown in; the client asks again.
        return {"edits": []}
    return {"edits": [_wire_edit(session, changed, result)]}


def _others(session: Session, buffer: TextBuffer) -> frozenset[str]:
    """Return the URIs of the documents of a document's folder that a client may be led to."""
    folder = session.location(buffer).folder
    if folder is None or not session.settings.client_opens_next_edits:
        return frozenset()
    return frozenset(
        one.uri
        for one in session.documents
        if one.uri != buffer.uri
        and session.documents.notebook_uri(one.uri) is None
        and session.location(one).folder == folder
        and session.settings_in(one) is not None
    )


def _say_what_is_missing(session: Session, result: EditResult) -> None:
    """Show once why the model proposes no edits at all, unless the client does."""
    if result.withheld != "refused" or session.settings.client_explains_next_edits:
        return
    found = session.statistics().next_edits
    if found.startswith(_NONE):
        reason = found.removeprefix(_NONE)
        session.show_problem("warning", f"speclsp: no next edits: {reason}. {_REMEDY}")


def _wire_edit(session: Session, buffer: TextBuffer, result: EditResult) -> dict[str, Any]:
    edit_id = result.completion_id

    def wire(one: TextEdit) -> dict[str, Any]:
        start, end = (_wire_position(session, buffer, offset) for offset in (one.start, one.end))
        return {"range": types.Range(start, end), "text": one.text}

    return {
        **wire(whole_lines(smallest_edit(result.hunks, buffer.text), buffer.text)),
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


def _wire_position(session: Session, buffer: TextBuffer, offset: int) -> types.Position:
    """Return the position of a line's start or end.

    Some clients count in UTF-16 whatever was negotiated.  A line has as many of the other units or
    more, except of UTF-32's, and beyond its end means its end.
    """
    line, column = buffer.cursor_of(offset)
    units = "utf-16" if session.encoding == "utf-32" else session.encoding
    return types.Position(line, code_units(buffer.line(line)[:column], units))


@own_method(DID_SHOW_EDIT, DidShowCompletionParams)
def did_show(session: Session, params: DidShowCompletionParams) -> None:
    """Note that an edit is on screen."""
    edit_id = reported_id(params.item, Command.ACCEPTED_EDIT)
    if edit_id is None:
        logger.warning("%s: no edit of ours in %r", DID_SHOW_EDIT, params)
    elif session.window is not None:
        session.tell(session.window.next_edits.shown, edit_id)


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
