"""``workspace/executeCommand``, ``speclsp/statistics``, and reports of shown and accepted items."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcRequestCancelled

from speclsp.errors import DownloadCancelledError, SpecLspError
from speclsp.lsp import next_edit
from speclsp.lsp.capabilities import Command
from speclsp.lsp.own_methods import DidShowCompletionParams, ShownItem, own_method, reported_id
from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import code_points

logger = logging.getLogger(__name__)

DID_SHOW: Final = "textDocument/didShowCompletion"
DID_PARTIALLY_ACCEPT: Final = "textDocument/didPartiallyAcceptCompletion"
MAX_SNOOZE_MINUTES = 24 * 60

_REQUEST_FAILED = -32803
"""LSP's code for a valid request that failed."""


async def execute_command(session: Session, params: types.ExecuteCommandParams) -> Any:
    """Run a command and return its answer as JSON data."""
    command = COMMANDS.get(params.command)
    if command is None:
        raise JsonRpcInvalidParams(
            f"unknown command {params.command!r}; known are {', '.join(COMMANDS)}"
        )
    try:
        answer = command(session, params.arguments or ())
        return await answer if asyncio.iscoroutine(answer) else answer
    except DownloadCancelledError as error:
        raise JsonRpcRequestCancelled(error.message) from error
    except SpecLspError as error:
        raise JsonRpcException(str(error), code=_REQUEST_FAILED) from error


def accepted(session: Session, arguments: Sequence[Any]) -> None:
    """Note that the user accepted an item: ``[completion_id]``."""
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams(f"{Command.ACCEPTED} takes the completion's id")
    if session.window is not None:
        session.tell(session.window.shown, arguments[0])
        session.tell(session.window.accepted, arguments[0])


def show_statistics(session: Session, _: Sequence[Any]) -> Any:
    """Log the statistics block and return the SessionStats as JSON data."""
    return msgspec.to_builtins(session.log_statistics())


def reindex(session: Session, _: Sequence[Any]) -> None:
    """Scan all workspace folders again."""
    if session.window is not None:
        session.tell(session.window.completer.reindex)


def toggle(session: Session, arguments: Sequence[Any]) -> dict[str, bool]:
    """Switch completion on or off: ``[enabled]``, or ``[]`` for the opposite of now.

    Off holds in all folders and languages; on holds where the settings have it on, or everywhere
    if they have it off.
    """
    if len(arguments) > 1 or not all(isinstance(a, bool) for a in arguments):
        raise JsonRpcInvalidParams(f"{Command.TOGGLE} takes true, false or nothing")
    enabled = arguments[0] if arguments else not session.settings.for_completer.enabled
    session.settings.switch(enabled=enabled)
    session.apply_settings()
    return {"enabled": enabled}


def snooze(session: Session, arguments: Sequence[Any]) -> None:
    """Suspend automatic suggestions: ``[minutes]``, 0 to end that."""
    if len(arguments) != 1 or type(arguments[0]) not in (int, float):
        raise JsonRpcInvalidParams(f"{Command.SNOOZE} takes a number of minutes")
    if not 0 <= arguments[0] <= MAX_SNOOZE_MINUTES:
        raise JsonRpcInvalidParams(f"{Command.SNOOZE} takes 0 to {MAX_SNOOZE_MINUTES} minutes")
    session.snooze(arguments[0])


async def models(session: Session, _: Sequence[Any]) -> dict[str, Any]:
    """Return the memory, the presets and the model in use."""
    return await session.models.overview(session.settings.current)


async def pull_model(session: Session, arguments: Sequence[Any]) -> dict[str, Any]:
    """Download a preset or ``OWNER/NAME[:QUANTIZATION]``: ``[{"name": NAME}]``."""
    name = _model_name(Command.PULL_MODEL, arguments)
    return {"paths": await session.models.pull(name)}


async def use_model(session: Session, arguments: Sequence[Any]) -> dict[str, Any]:
    """Load a downloaded model until the client names another one: ``[{"name": NAME}]``."""
    choice = await session.models.downloaded(_model_name(Command.USE_MODEL, arguments))
    session.settings.use_model(choice.name)
    session.apply_settings()
    return {"name": choice.name, "title": choice.title}


def cancel_progress(session: Session, params: types.WorkDoneProgressCancelParams) -> None:
    """Cancel a download: ``window/workDoneProgress/cancel``."""
    session.models.cancel(str(params.token))


def _model_name(command: str, arguments: Sequence[Any]) -> str:
    if len(arguments) == 1 and isinstance(arguments[0], dict):
        name = arguments[0].get("name")
        if isinstance(name, str) and name:
            return name
    raise JsonRpcInvalidParams(f'{command} takes {{"name": NAME}}')


COMMANDS: Mapping[str, Callable[[Session, Sequence[Any]], Any]] = {
    Command.ACCEPTED: accepted,
    Command.ACCEPTED_EDIT: next_edit.accepted,
    Command.DECLINED_EDIT: next_edit.declined,
    Command.SHOW_STATISTICS: show_statistics,
    Command.REINDEX: reindex,
    Command.TOGGLE: toggle,
    Command.MODELS: models,
    Command.PULL_MODEL: pull_model,
    Command.USE_MODEL: use_model,
    Command.SNOOZE: snooze,
}


@own_method("speclsp/statistics", is_request=True)
def statistics(session: Session, _: Any) -> Any:
    """Return the SessionStats as JSON data, for editors that show them live; log nothing."""
    return msgspec.to_builtins(session.statistics())


@own_method(DID_SHOW, DidShowCompletionParams)
def did_show_completion(session: Session, params: DidShowCompletionParams) -> None:
    """Note that an item is on screen."""
    session.client_reports_shown = True
    completion_id = reported_id(params.item, Command.ACCEPTED)
    if completion_id is None:
        logger.warning("%s: no item of ours in %r", DID_SHOW, params)
    elif session.window is not None:
        session.tell(session.window.shown, completion_id)


@attrs.define
class DidPartiallyAcceptCompletionParams:
    """The user has accepted the first ``accepted_length`` UTF-16 units of an item's text."""

    accepted_length: int
    item: ShownItem | None = None


@own_method(DID_PARTIALLY_ACCEPT, DidPartiallyAcceptCompletionParams)
def did_partially_accept_completion(
    session: Session, params: DidPartiallyAcceptCompletionParams
) -> None:
    """Note how much of an item the user has accepted so far, in UTF-16 units from its start."""
    window = session.window
    completion_id = reported_id(params.item, Command.ACCEPTED)
    suggestion = window.suggestion(completion_id) if window and completion_id else None
    if suggestion is None:
        logger.warning("%s: no item of ours in %r", DID_PARTIALLY_ACCEPT, params)
        return
    n_units = max(0, params.accepted_length)
    n_chars = code_points(suggestion.sent_text, n_units, "utf-16") - suggestion.n_foreign
    if n_chars > 0 and window is not None:
        session.tell(window.accepted, suggestion.generated.completion_id, n_chars)
