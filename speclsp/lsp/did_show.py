"""``textDocument/didShowCompletion`` and ``textDocument/didPartiallyAcceptCompletion``.

Not in LSP; the names and params are those that Copilot's language server brought into use.
"""

from __future__ import annotations

import logging
from typing import Any

from speclsp.lsp.execute_command import ACCEPTED
from speclsp.lsp.session import Session
from speclsp.lsp.suggestion import n_own

logger = logging.getLogger(__name__)

DID_SHOW = "textDocument/didShowCompletion"
DID_PARTIALLY_ACCEPT = "textDocument/didPartiallyAcceptCompletion"


def did_show_completion(session: Session, params: Any) -> None:
    """Note that an item is on screen."""
    session.client_reports_shown = True
    completion_id = _completion_id(session, params)
    if completion_id is None:
        logger.warning("%s: no item of ours in %r", DID_SHOW, params)
    elif session.window is not None:
        session.tell("shown", session.window.shown, completion_id)


def did_partially_accept_completion(session: Session, params: Any) -> None:
    """Note how much of an item the user has taken so far."""
    window = session.window
    completion_id = _completion_id(session, params)
    n_units = params.get("acceptedLength") if isinstance(params, dict) else None
    suggestion = window.suggestion(completion_id) if window and completion_id else None
    if suggestion is None or isinstance(n_units, bool) or not isinstance(n_units, int):
        logger.warning("%s: no item of ours and length in %r", DID_PARTIALLY_ACCEPT, params)
        return
    n_chars = n_own(suggestion.sent_text, suggestion.n_foreign, max(0, n_units))
    if n_chars and window is not None:
        session.tell("accepted", window.accepted, suggestion.completion_id, n_chars)


def _completion_id(session: Session, params: Any) -> str | None:
    """Return the id in the item's command, or that of the latest item with its text."""
    item = params.get("item") if isinstance(params, dict) else None
    if not isinstance(item, dict):
        return None
    command = item.get("command")
    if isinstance(command, dict) and command.get("command") == ACCEPTED:
        arguments = command.get("arguments")
        if isinstance(arguments, list) and arguments and isinstance(arguments[0], str):
            return arguments[0]
    text = item.get("insertText")
    if not isinstance(text, str) or session.window is None:
        return None
    known = session.window.by_sent_text(text)
    return known.completion_id if known is not None else None
