"""``workspace/executeCommand``, and the request ``speclsp/statistics``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from speclsp.lsp.session import Session

logger = logging.getLogger(__name__)

ACCEPTED = "speclsp.accepted"
SHOW_STATISTICS = "speclsp.showStatistics"
REINDEX = "speclsp.reindex"
TOGGLE = "speclsp.toggle"

STATISTICS = "speclsp/statistics"
"""A request that returns the same as ``speclsp.showStatistics``, and logs nothing."""


def execute_command(session: Session, params: types.ExecuteCommandParams) -> Any:
    """Run a command and return its answer as JSON data."""
    command = COMMANDS.get(params.command)
    if command is None:
        raise _wrong(f"unknown command {params.command!r}; known are {', '.join(COMMANDS)}")
    return command(session, params.arguments or ())


def accepted(session: Session, arguments: Sequence[Any]) -> None:
    """Learn that the user took an item: ``[completion_id]``."""
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise _wrong(f"{ACCEPTED} takes the completion's id")
    if session.window is not None:
        session.tell("shown", session.window.shown, arguments[0])
        session.tell("accepted", session.window.accepted, arguments[0])


def show_statistics(session: Session, _: Sequence[Any]) -> Any:
    """Log the statistics block and return the SessionStats as JSON data."""
    return msgspec.to_builtins(session.statistics())


def reindex(session: Session, _: Sequence[Any]) -> None:
    """Scan all workspace folders again."""
    if session.window is not None:
        session.tell("reindex", session.window.completer.reindex)


def toggle(session: Session, arguments: Sequence[Any]) -> dict[str, bool]:
    """Switch completion on or off: ``[enabled]``, or ``[]`` for the opposite of now."""
    if len(arguments) > 1 or not all(isinstance(a, bool) for a in arguments):
        raise _wrong(f"{TOGGLE} takes true, false or nothing")
    enabled = arguments[0] if arguments else not session.settings.for_completer.enabled
    session.settings.switch("enabled", enabled)
    session.apply_settings()
    return {"enabled": enabled}


def live_statistics(session: Session, _: Any) -> Any:
    """Return the SessionStats as JSON data, for editors that show them live."""
    return msgspec.to_builtins(session.live_statistics())


COMMANDS: Mapping[str, Callable[[Session, Sequence[Any]], Any]] = {
    ACCEPTED: accepted,
    SHOW_STATISTICS: show_statistics,
    REINDEX: reindex,
    TOGGLE: toggle,
}


def _wrong(message: str) -> JsonRpcException:
    return JsonRpcInvalidParams(message=message)
