"""Messages to the editor: log lines, notices, status, progress, and requests for settings."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from speclsp.log import LEVELS
from speclsp.lsp.capabilities import ClientCapabilities
from speclsp.lsp.protocol import SpecProtocol
from speclsp.seam.events import LogLevel, Progress

logger = logging.getLogger(__name__)

_MESSAGE_TYPE: dict[LogLevel, types.MessageType] = {
    # Debug is new in LSP 3.18, and older clients do not know it.
    "debug": types.MessageType.Log,
    "info": types.MessageType.Info,
    "warning": types.MessageType.Warning,
    "error": types.MessageType.Error,
}
_MAX_EARLY_LINES = 1000


class Editor:
    """Sends log lines, messages, status, progress and requests to the editor.

    LSP forbids most messages before initialize is answered, so early ones wait for :meth:`greet`.
    Use it on the event loop's thread only.
    """

    def __init__(self, wire: SpecProtocol, log_level: LogLevel) -> None:
        self._wire = wire
        self.log_level: LogLevel = log_level
        self.capabilities = ClientCapabilities()
        self._greeted = False
        self._early: deque[tuple[str, Any]] = deque(maxlen=_MAX_EARLY_LINES)

    def greet(self) -> None:
        """Send the messages that waited for the end of initialize."""
        self._greeted = True
        while self._early:
            self._wire.notify(*self._early.popleft())

    def log(self, level: LogLevel, message: str) -> None:
        """Write to the editor's log, unless ``level`` is below the setting."""
        if LEVELS.index(level) >= LEVELS.index(self.log_level):
            params = types.LogMessageParams(type=_MESSAGE_TYPE[level], message=message)
            self._notify(types.WINDOW_LOG_MESSAGE, params)

    def show(self, level: LogLevel, message: str) -> None:
        """Show a message to the user, and log it."""
        params = types.ShowMessageParams(type=_MESSAGE_TYPE[level], message=message)
        self._notify(types.WINDOW_SHOW_MESSAGE, params)
        self.log(level, message)

    def status(self, status: Mapping[str, Any]) -> None:
        """Send the engine's state, for editors that show it."""
        self._notify("$/speclsp/status", status)

    def progress(self, token: str, value: Any) -> None:
        """Send one step of work-done progress."""
        self._notify(types.PROGRESS, types.ProgressParams(token=token, value=value))

    async def ask(self, message: str, actions: Sequence[str]) -> str | None:
        """Ask the user to choose an action; return None where none was chosen."""
        params = types.ShowMessageRequestParams(
            type=types.MessageType.Info,
            message=message,
            actions=[types.MessageActionItem(title=action) for action in actions],
        )
        try:
            answer = await self._wire.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, params)
        except JsonRpcException as error:
            logger.debug("the editor does not ask the user: %s", error)
            return None
        return answer.get("title") if isinstance(answer, dict) else None

    def create_progress(self, token: str) -> asyncio.Future[Any] | None:
        """Ask for a progress display; return None if the editor has none."""
        window = self.capabilities.window
        if window is None or not window.work_done_progress:
            return None
        params = types.WorkDoneProgressCreateParams(token=token)
        return self._wire.ask(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params)

    def configuration(self, scope_uris: Sequence[str | None]) -> asyncio.Future[Any] | None:
        """Ask for the settings in each scope; return None if the editor cannot be asked."""
        workspace = self.capabilities.workspace
        if workspace is None or not workspace.configuration:
            return None
        items = [types.ConfigurationItem(scope_uri=uri, section="speclsp") for uri in scope_uris]
        params = types.ConfigurationParams(items=items)
        return self._wire.ask(types.WORKSPACE_CONFIGURATION, params)

    def watch_configuration(self) -> asyncio.Future[Any] | None:
        """Register for changed settings; return None if the editor takes no registration."""
        workspace = self.capabilities.workspace
        changes = workspace.did_change_configuration if workspace else None
        if changes is None or not changes.dynamic_registration:
            return None
        registration = types.Registration(
            id="speclsp-configuration",
            method=types.WORKSPACE_DID_CHANGE_CONFIGURATION,
            register_options=types.DidChangeConfigurationRegistrationOptions(section="speclsp"),
        )
        params = types.RegistrationParams(registrations=[registration])
        return self._wire.ask(types.CLIENT_REGISTER_CAPABILITY, params)

    def _notify(self, method: str, params: Any) -> None:
        if self._greeted:
            self._wire.notify(method, params)
        else:
            self._early.append((method, params))


class ProgressReporter:
    """Sends progress events, after the editor has accepted their token.

    Events that come before its answer wait.  An editor that refuses the token gets none.
    """

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._waiting: dict[str, list[Progress]] = {}
        """By token: the first and the latest event of work that the editor has not accepted yet."""
        self._accepted: set[str] = set()

    def take(self, event: Progress) -> None:
        """Send one event, now or when the token is accepted."""
        if event.stage == "begin":
            created = self._editor.create_progress(event.token)
            if created is not None:
                waiting = self._waiting[event.token] = [event]
                created.add_done_callback(lambda answer: self._created(waiting, answer))
        elif event.token in self._waiting:
            self._waiting[event.token][1:] = [event]
        elif event.token in self._accepted:
            self._send(event)

    def _created(self, waiting: list[Progress], answer: asyncio.Future[None]) -> None:
        token = waiting[0].token
        if self._waiting.get(token) is not waiting:
            return  # other work has begun under this token
        del self._waiting[token]
        if answer.cancelled() or isinstance(answer.exception(), JsonRpcException):
            logger.debug("the editor shows no progress for %s", token)
            return
        self._accepted.add(token)
        for event in waiting:
            self._send(event)

    def _send(self, event: Progress) -> None:
        if event.stage == "end":
            self._accepted.discard(event.token)
        self._editor.progress(event.token, _value(event))


def _value(
    event: Progress,
) -> types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd:
    message = event.message or None
    if event.stage == "begin":
        return types.WorkDoneProgressBegin(
            title=event.title or "speclsp",
            message=message,
            percentage=event.percentage,
            cancellable=event.cancellable or None,
        )
    if event.stage == "report":
        return types.WorkDoneProgressReport(message=message, percentage=event.percentage)
    return types.WorkDoneProgressEnd(message=message)
