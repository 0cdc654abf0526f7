"""``textDocument/didShowCompletion`` and ``textDocument/didPartiallyAcceptCompletion``.

Not in LSP; the names and params are those that Copilot's language server brought into use.
"""

from __future__ import annotations

import logging
from typing import Any

from speclsp.lsp.execute_command import ACCEPTED
from speclsp.lsp.session import Session
from speclsp.lsp.suggestion import SuggestionMemory

logger = logging.getLogger(__name__)

DID_SHOW = "textDocument/didShowCompletion"
DID_PARTIALLY_ACCEPT = "textDocument/didPartiallyAcceptCompletion"


def did_show_completion(session: Session, params: Any) -> None:
    """Note that an item is on screen."""
    session.client_reports_shown = True
    completion_id = _completion_id(params, session.suggestions)
    if completion_id is None:
        logger.warning("%s: no item of ours in %r", DID_SHOW, params)
    elif session.completer is not None and session.suggestions.first_shown(completion_id):
        session.tell("shown", session.completer.shown, completion_id)


def did_partially_accept_completion(session: Session, params: Any) -> None:
    """Note how much of an item the user has taken so far."""
    completion_id = _completion_id(params, session.suggestions)
    n_units = params.get("acceptedLength") if isinstance(params, dict) else None
    suggestion = session.suggestions.by_id(completion_id) if completion_id else None
    if suggestion is None or isinstance(n_units, bool) or not isinstance(n_units, int):
        logger.warning("%s: no item of ours and length in %r", DID_PARTIALLY_ACCEPT, params)
        return
    n_chars = suggestion.n_own(max(0, n_units))
    if n_chars and session.completer is not None:
        completer = session.completer
        session.tell("accepted", completer.accepted, suggestion.completion_id, n_chars)


def _completion_id(params: Any, memory: SuggestionMemory) -> str | None:
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
    known = memory.by_text(text) if isinstance(text, str) else None
    return known.completion_id if known is not None else None
