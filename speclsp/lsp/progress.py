"""Work-done progress: the completer's events as LSP has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from speclsp.lsp.editor import Editor
from speclsp.request import Progress

logger = logging.getLogger(__name__)

_REPORT_EVERY_S = 0.1


@dataclass(slots=True)
class _Work:
    """One piece of work: what began it, where it is, and whether the editor shows it."""

    begin: Progress
    latest: Progress | None = None
    shown: bool = False
    reported_at: float = -_REPORT_EVERY_S


class ProgressReporter:
    """Creates a token before it is used, and says nothing to an editor that refuses it.

    What happens while the editor has not answered yet is told once it has, and reports come at
    most as often as an eye can follow.
    """

    def __init__(self, editor: Editor, clock: Callable[[], float]) -> None:
        self._editor = editor
        self._clock = clock
        self._works: dict[str, _Work] = {}

    def take(self, event: Progress) -> None:
        """Pass one event on."""
        if event.stage == "begin":
            self._begin(event)
            return
        work = self._works.get(event.token)
        if work is None:
            return
        if not work.shown:
            work.latest = event
        elif event.stage == "end":
            self._send(event)
            del self._works[event.token]
        elif (now := self._clock()) - work.reported_at >= _REPORT_EVERY_S:
            work.reported_at = now
            self._send(event)

    def _begin(self, event: Progress) -> None:
        created = self._editor.create_progress(event.token)
        if created is None:
            return
        work = _Work(begin=event)
        self._works[event.token] = work
        created.add_done_callback(lambda answer: self._created(work, answer))

    def _created(self, work: _Work, answer: asyncio.Future[None]) -> None:
        token = work.begin.token
        if self._works.get(token) is not work:
            return
        if answer.cancelled() or isinstance(answer.exception(), JsonRpcException):
            logger.debug("the editor shows no progress for %s", token)
            del self._works[token]
            return
        work.shown = True
        self._send(work.begin)
        if work.latest is not None:
            self._send(work.latest)
            if work.latest.stage == "end":
                del self._works[token]

    def _send(self, event: Progress) -> None:
        self._editor.progress(event.token, _value(event))


def _value(
    event: Progress,
) -> types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd:
    message = event.message or None
    if event.stage == "begin":
        return types.WorkDoneProgressBegin(
            title=event.title or "speclsp", message=message, percentage=event.percentage
        )
    if event.stage == "report":
        return types.WorkDoneProgressReport(message=message, percentage=event.percentage)
    return types.WorkDoneProgressEnd(message=message)
