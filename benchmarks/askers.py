"""Ask a completer as an editor does: in this process, or a server process over stdio.

A replay opens documents, changes them key by key, and asks for completions.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from benchmarks.cases import EditCase
from speclsp.backends.weights import Loader
from speclsp.completer.local import LocalCompleter
from speclsp.errors import EngineError, EngineUnavailableError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.seam.events import LogLine, StateChanged
from speclsp.seam.request import AnswerSource
from speclsp.seam.statistics import EngineState, RequestStats, SessionStats
from speclsp.settings import Settings, SettingValue
from speclsp.window.window import Window
from tests.support.server_process import CaseServer, InlineItem, line_and_character
from tests.support.serving_process import ANSWERS_WITHIN_S

_POLL_S: Final = 0.01
_LONGEST_WAIT_S: Final = 300.0
"""For a model to be loaded, and for a project to be indexed."""
LONGEST_REST_S: Final = 600.0
"""Idle work that takes longer is an error: on a slow machine a long prompt takes minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one request; ``text`` is empty if there is no suggestion."""

    text: str
    n_replaced: int = 0
    completion_id: str = ""
    source: AnswerSource = "model"
    ms: float = 0.0
    """From the request to the answer, as the caller waits."""
    stats: RequestStats = field(default_factory=RequestStats)


class Asker(Protocol):
    """The interface between a replay and a completer."""

    def enter(self, case: EditCase) -> None:
        """Open the case's project, close any other, and open its file as it was before the edit."""

    def leave(self, case: EditCase) -> None:
        """Close the case's file."""

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        """Request a completion after the first ``n_typed`` characters of the typed text.

        Raises :class:`~speclsp.errors.SpecLspError` if the request fails.
        """

    def shown(self, answer: Answer) -> None:
        """Report that the answer is on screen."""

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Report that the user accepted the first ``n_chars`` characters of the answer."""

    def rest(self) -> None:
        """Pause, so that the completer can do its idle work."""

    def statistics(self) -> SessionStats:
        """Return the session's statistics."""


class LocalAsker:
    """Asks a completer in this process; the caller closes it."""

    def __init__(self, window: Window, *, rests: bool) -> None:
        self._window = window
        self._completer = cast("LocalCompleter", window.completer)
        self._rests = rests
        self._root = ""
        self._documents: dict[str, Document] = {}
        """By the case's id.  Making them asks the file system, which is no part of an answer."""

    def enter(self, case: EditCase) -> None:
        """Open the case's project and file."""
        root = str(case.project.resolve()) if case.project is not None else ""
        if root != self._root:
            self._change_folder(root, case.project_name)
        document = self._documents[case.id] = _document(case)
        self._window.open_document(document)

    def leave(self, case: EditCase) -> None:
        """Close the case's file."""
        self._window.close_document(self._documents.pop(case.id).uri)

    def ask(
        self, case: EditCase, n_typed: int, settings: Mapping[str, SettingValue] | None = None
    ) -> Answer:
        """Send the text as it is now, and ask; ``settings`` are those of this request alone."""
        before = self._documents[case.id]
        document = self._documents[case.id] = replace(before, version=before.version + 1)
        started = time.perf_counter()
        text = case.prefix + case.typed[:n_typed] + case.suffix
        self._window.change_document(document.uri, document.version, text)
        request = CompletionRequest(
            uri=document.uri,
            version=document.version,
            offset=len(case.prefix) + n_typed,
            wait_for_model=True,
            settings=dict(settings or {}),
        )
        result = self._window.ask(request, CancellationToken()).result()
        return Answer(
            text=result.generated.text,
            n_replaced=result.generated.n_replaced,
            completion_id=result.generated.completion_id,
            source=result.source,
            ms=1000 * (time.perf_counter() - started),
            stats=result.stats,
        )

    def shown(self, answer: Answer) -> None:
        """Report it to the completer."""
        self._window.shown(answer.completion_id)

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Report it to the completer."""
        whole = n_chars >= len(answer.text)
        self._window.accepted(answer.completion_id, None if whole else n_chars)

    def rest(self) -> None:
        """Wait until the completer is idle, unless keys follow each other at once."""
        if self._rests:
            self.finish()

    def finish(self) -> None:
        """Wait until the completer is idle, also where keys follow each other at once.

        Prompts must not depend on how far idle work has come, so that takes as long as it takes.
        Raises :class:`~speclsp.errors.EngineUnavailableError` after ``LONGEST_REST_S``.
        """
        if not self._completer.wait_idle(LONGEST_REST_S):
            raise EngineUnavailableError(f"the completer is not idle after {LONGEST_REST_S:g} s.")

    def statistics(self) -> SessionStats:
        """Return the completer's statistics."""
        return self._window.statistics()

    def _change_folder(self, root: str, name: str) -> None:
        self._wait_while(lambda: self._completer.state() == "loading")
        if self._root:
            self._completer.close_folder(self._root)
        self._root = root
        if root:
            self._completer.open_folder(WorkspaceFolder(root=root, name=name))
            self._wait_while(lambda: self._completer.statistics().index.building)

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _LONGEST_WAIT_S
        while condition():
            if time.monotonic() > end:
                raise EngineUnavailableError("the completer is not ready after five minutes.")
            time.sleep(_POLL_S)


def _document(case: EditCase) -> Document:
    return Document(
        uri=_uri(case),
        path=case.path,
        file=str(case.project.resolve() / case.path) if case.project is not None else "",
        repo_name=case.project_name,
        language_id=case.language_id,
        version=1,
        text=case.before,
    )


def _uri(case: EditCase) -> str:
    if case.project is None:
        return f"untitled:{case.id}"
    return (case.project.resolve() / case.path).as_uri()


@contextmanager
def local_asker(
    settings: Settings, *, rests: bool = True, loader: Loader | None = None
) -> Iterator[LocalAsker]:
    """Create a completer that stores nothing on disk, and close it at the end.

    ``rests`` False sends the next key at once, without waiting for idle work.
    """
    settings = replace(settings, persist=False)
    completer = LocalCompleter(settings, loader=loader)
    window = Window(completer, settings)
    completer.start()
    try:
        yield LocalAsker(window, rests=rests)
    finally:
        window.close()


_T = TypeVar("_T")

_COUNTED: Final = tuple(one.name for one in fields(RequestStats) if one.name != "drafters")
"""What one request adds to the session's sums."""


class ServerAsker:
    """Asks a server process over stdio; the caller ends it.

    A request's cost is what it adds to the session's statistics.
    A server that does not answer within ``answers_within_s`` seconds is killed, because it would
    answer this request to the next one, and the call raises
    :class:`~speclsp.errors.EngineUnavailableError`.
    A request that fails is answered as if there was no suggestion, and quickly, so that asking
    raises :class:`~speclsp.errors.EngineError` with the last of ``messages``, what it showed.
    """

    def __init__(
        self,
        server: CaseServer,
        runner: asyncio.Runner,
        *,
        rests: bool,
        messages: Sequence[LogLine] = (),
        longest_rest_s: float = LONGEST_REST_S,
        answers_within_s: float = ANSWERS_WITHIN_S,
    ) -> None:
        self._server = server
        self._runner = runner
        self._rests = rests
        self._messages = messages
        self._longest_rest_s = longest_rest_s
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
        self._server.open_beside(_uri(case), case.before, case.language_id)

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
        return replace(answer, ms=ms, source=source, stats=stats)

    def shown(self, answer: Answer) -> None:
        """Do nothing: the server counts sent items as shown if the client never reports them."""

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Report it as an editor does when it inserts an item."""
        if self._item is None:
            return
        if n_chars >= len(answer.text):
            self._answered(self._server.accept(self._item))
        else:
            self._server.accept_partly(self._item, self._n_before + n_chars)

    def rest(self) -> None:
        """Wait until the server reports twice in a row that it is idle.

        Idle work that takes longer than ``longest_rest_s`` is cut short by the next key.
        """
        if self._rests:
            latest = [False, False]

            def goes_on() -> bool:
                latest[:] = [latest[1], self.statistics().is_idle]
                return not all(latest)

            self._wait_while(goes_on, self._longest_rest_s)

    def statistics(self) -> SessionStats:
        """Return the server's statistics."""
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
def server_asker(
    settings: Settings, *, rests: bool = True, longest_rest_s: float = LONGEST_REST_S
) -> Iterator[ServerAsker]:
    """Start a server that stores nothing on disk, and end it at the end.

    Raises :class:`~speclsp.errors.SpecLspError` where it does not get ready.
    """
    states: list[StateChanged] = []
    messages: list[LogLine] = []
    server = CaseServer(on_state=states.append, on_message=messages.append)
    # An engine of its own: nothing is warm at the start, and nothing runs on.
    of_run = {"persist": False, "log_level": "error", "engine": "own"}
    options = {**changed_settings(settings), **of_run}
    argv = [sys.executable, "-m", "speclsp", "serve", "--stdio"]
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        try:
            starting = server.start(argv, Path(folder), options=options)
            _within(runner, starting, server, ANSWERS_WITHIN_S)
            runner.run(_ready(states, messages))
            yield ServerAsker(
                server, runner, rests=rests, messages=messages, longest_rest_s=longest_rest_s
            )
        finally:
            runner.run(server.shutdown())


def _within(
    runner: asyncio.Runner,
    question: Coroutine[Any, Any, _T],
    server: CaseServer,
    longest_s: float,
) -> _T:
    """Return the answer; kill a server that takes longer."""
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
        # The state may come before the message that says more, so each is used.
        said = [state.message for state in states if state.state in ended]
        if said or time.monotonic() > end:
            reasons = " ".join([line.message for line in messages] or said)
            raise EngineUnavailableError(
                f"the server did not load the model: {reasons or 'it is not ready in time.'}"
            )
        await asyncio.sleep(_POLL_S)


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, by name, as a server takes them."""
    defaults = Settings()
    return {
        one.name: getattr(settings, one.name)
        for one in fields(settings)
        if getattr(settings, one.name) != getattr(defaults, one.name)
    }


def _cost(before: SessionStats, after: SessionStats) -> tuple[AnswerSource, RequestStats]:
    """Return the source of the answer and its cost."""
    if after.n_memory > before.n_memory:
        return "memory", RequestStats()
    if after.n_filtered > before.n_filtered:
        return "filter", RequestStats()
    counts = {name: getattr(after.totals, name) - getattr(before.totals, name) for name in _COUNTED}
    return "model", RequestStats(**counts)
