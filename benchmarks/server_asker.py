"""A server process for a replay: what an editor sees, the wire and all between included."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import msgspec

from benchmarks.asking import Answer
from benchmarks.cases import EditCase
from speclsp.errors import EngineError, EngineUnavailableError
from speclsp.lsp.client import InlineItem, ServerProcess, line_and_character
from speclsp.request import (
    AnswerSource,
    EngineState,
    LogLine,
    RequestStats,
    SessionStats,
    StateChanged,
)
from speclsp.settings import Settings

_T = TypeVar("_T")

ANSWERS_WITHIN_S: Final = 300.0
"""A server that takes longer for one answer hangs."""

_POLL_S: Final = 0.02
_LONGEST_WAIT_S: Final = 300.0
_LONGEST_REST_S: Final = 10.0
_COUNTED: Final = tuple(
    field.name for field in dataclasses.fields(RequestStats) if field.name != "drafters"
)
"""What one request adds to the session's sums."""


class ServerAsker:
    """Asks a server process over stdio; whoever made the process ends it.

    What one request cost is what it added to the session's sums.
    A server that does not answer within ``answers_within_s`` seconds is killed, since nothing else
    would end it, and the call raises :class:`~speclsp.errors.EngineUnavailableError`.
    A request that fails is answered as if there was no suggestion, and quickly, so that asking
    raises :class:`~speclsp.errors.EngineError` with the last of ``messages``, what it showed.
    """

    def __init__(
        self,
        server: ServerProcess,
        runner: asyncio.Runner,
        *,
        rests: bool,
        messages: Sequence[LogLine] = (),
        answers_within_s: float = ANSWERS_WITHIN_S,
    ) -> None:
        self._server = server
        self._runner = runner
        self._rests = rests
        self._messages = messages
        self._answers_within_s = answers_within_s
        self._folder: Path | None = None
        self._item: InlineItem | None = None
        self._n_before = 0
        """Characters of the item's text that stand before the cursor already."""
        self._stats = SessionStats()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._server.pid

    def enter(self, case: EditCase) -> None:
        """Open the case's project and file."""
        folder = case.project.resolve() if case.project is not None else None
        if folder != self._folder:
            self._server.change_folders(folder, self._folder)
            self._folder = folder
            self._wait_while(lambda: self.statistics().index.building, _LONGEST_WAIT_S)
        self._server.open_beside(_uri(case), case.prefix + case.suffix, case.language_id)

    def leave(self, case: EditCase) -> None:
        """Close the case's file."""
        self._server.go_to(_uri(case))
        self._server.close_document()

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        """Send the text as it is now, and ask."""
        before = case.prefix + case.typed[:n_typed]
        line, character = line_and_character(before, len(before))
        self._stats = self.statistics()
        self._server.go_to(_uri(case))
        started = time.perf_counter()
        self._server.change(before + case.suffix)
        items = self._answered(self._server.inline_completion(line, character))
        ms = 1000 * (time.perf_counter() - started)
        self._item = items[0] if items else None
        answer = self._answer(before[len(before) - character :])
        after = self.statistics()
        if after.n_failed > self._stats.n_failed:
            said = self._messages[-1].message if self._messages else "it does not say why."
            raise EngineError(f"the server failed at a request: {said}")
        source, stats = _cost(self._stats, after)
        return dataclasses.replace(answer, ms=ms, source=source, stats=stats)

    def shown(self, answer: Answer) -> None:
        """Say nothing: what is sent counts as shown where a client never says so."""

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Do as an editor does when an item was inserted."""
        if self._item is None:
            return
        if n_chars >= len(answer.text):
            self._answered(self._server.accept(self._item))
        else:
            self._server.accept_partly(self._item, self._n_before + n_chars)

    def rest(self) -> None:
        """Wait until the server has nothing left to do, as it says twice in a row."""
        if self._rests:
            latest = [False, False]

            def goes_on() -> bool:
                latest[:] = [latest[1], self.statistics().is_idle]
                return not all(latest)

            self._wait_while(goes_on, _LONGEST_REST_S)

    def statistics(self) -> SessionStats:
        """Return the server's sums."""
        answer = self._answered(self._server.execute_command("speclsp.showStatistics"))
        return msgspec.convert(answer, SessionStats)

    def _answered(self, question: Coroutine[Any, Any, _T]) -> _T:
        return _within(self._runner, question, self._server, self._answers_within_s)

    def _answer(self, line_before: str) -> Answer:
        """Return what the item adds at the cursor: its text may begin with the line's."""
        item = self._item
        n_before = len(line_before)
        if item is None or item.end_character < n_before:
            return Answer(text="")
        self._n_before = n_before - item.start_character
        if not item.insert_text.startswith(line_before[item.start_character :]):
            return Answer(text="")
        return Answer(
            text=item.insert_text[self._n_before :], n_replaced=item.end_character - n_before
        )

    def _wait_while(self, condition: Callable[[], bool], longest_s: float) -> None:
        end = time.monotonic() + longest_s
        while time.monotonic() < end and condition():
            self._runner.run(asyncio.sleep(_POLL_S))


@contextmanager
def server_asker(settings: Settings, *, rests: bool = True) -> Iterator[ServerAsker]:
    """Start a server that keeps nothing on disk, and end it in the end.

    Raises :class:`~speclsp.errors.SpecLspError` where it does not get ready.
    """
    states: list[StateChanged] = []
    messages: list[LogLine] = []
    server = ServerProcess(on_state=states.append, on_message=messages.append)
    options = {**_changed(settings), "persist": False, "log_level": "error"}
    argv = [sys.executable, "-m", "speclsp", "serve", "--stdio"]
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        try:
            starting = server.start(argv, Path(folder), options=options)
            _within(runner, starting, server, ANSWERS_WITHIN_S)
            runner.run(_ready(states, messages))
            yield ServerAsker(server, runner, rests=rests, messages=messages)
        finally:
            runner.run(server.shutdown())


def _within(
    runner: asyncio.Runner,
    question: Coroutine[Any, Any, _T],
    server: ServerProcess,
    longest_s: float,
) -> _T:
    """Return the answer; a server that takes longer would answer this one to the next one."""
    try:
        return runner.run(asyncio.wait_for(question, longest_s))
    except TimeoutError as error:
        runner.run(server.shutdown(timeout_s=0.0))
        raise EngineUnavailableError(
            f"the server did not answer within {longest_s:g} seconds."
        ) from error


async def _ready(states: list[StateChanged], messages: list[LogLine]) -> None:
    end = time.monotonic() + _LONGEST_WAIT_S
    ended: tuple[EngineState, ...] = ("failed", "off")
    while not any(state.state == "ready" for state in states):
        if time.monotonic() > end or any(state.state in ended for state in states):
            said = " ".join(line.message for line in messages) or "it is not ready in time."
            raise EngineUnavailableError(f"the server did not load the model: {said}")
        await asyncio.sleep(_POLL_S)


def _changed(settings: Settings) -> dict[str, Any]:
    """The settings that differ from their defaults: the server takes them by name."""
    defaults = Settings()
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != getattr(defaults, field.name)
    }


def _cost(before: SessionStats, after: SessionStats) -> tuple[AnswerSource, RequestStats]:
    """Return who answered, and what that took."""
    if after.n_memory > before.n_memory:
        return "memory", RequestStats()
    if after.n_filtered > before.n_filtered:
        return "filter", RequestStats()
    counts = {name: getattr(after.totals, name) - getattr(before.totals, name) for name in _COUNTED}
    return "model", RequestStats(**counts)


def _uri(case: EditCase) -> str:
    if case.project is None:
        return f"untitled:{case.id}"
    return (case.project.resolve() / case.path).as_uri()
