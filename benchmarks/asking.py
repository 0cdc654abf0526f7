"""A completer as a replay sees it: documents are opened, keys change them, answers come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from benchmarks.cases import EditCase
from speclsp.cancellation import CancellationToken
from speclsp.errors import EngineUnavailableError
from speclsp.request import (
    AnswerSource,
    CompletionRequest,
    Document,
    RequestStats,
    SessionStats,
    WorkspaceFolder,
)
from speclsp.seam import Completer

_POLL_S: Final = 0.01
_LONGEST_WAIT_S: Final = 300.0
"""For a model to be loaded, and for a project to be indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one request; ``text`` is empty where nothing is shown."""

    text: str
    n_replaced: int = 0
    completion_id: str = ""
    source: AnswerSource = "model"
    ms: float = 0.0
    """From the request to the answer, as who asks waits for it."""
    stats: RequestStats = field(default_factory=RequestStats)


class Asker(Protocol):
    """What a replay needs of a completer, in this process or in another."""

    def enter(self, case: EditCase) -> None:
        """Open the case's project alone, and its file in the state before the edit."""

    def leave(self, case: EditCase) -> None:
        """Close the case's file."""

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        """Ask behind the first ``n_typed`` characters of what is typed.

        Raises :class:`~speclsp.errors.SpecLspError` where there is no answer.
        """

    def shown(self, answer: Answer) -> None:
        """The answer is on the screen."""

    def taken(self, answer: Answer, n_chars: int) -> None:
        """The human took the first ``n_chars`` characters of an answer's text."""

    def rest(self) -> None:
        """Let work be done that waits for a human's pause."""

    def statistics(self) -> SessionStats:
        """Return the session's sums."""


class LocalAsker:
    """Asks a completer of this process; it is closed by whoever made it."""

    def __init__(
        self,
        completer: Completer,
        *,
        deadline_ms: int | None,
        rest: Callable[[], object],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._completer = completer
        self._deadline_ms = deadline_ms
        self._rest = rest
        self._clock = clock
        self._root = ""
        self._places: dict[str, _OpenFile] = {}
        """By the case's id.  Finding them asks the file system, which is no part of an answer."""

    def enter(self, case: EditCase) -> None:
        """Open the case's project and file."""
        root = str(case.project.resolve()) if case.project is not None else ""
        if root != self._root:
            self._change_folder(root, case.project_name)
        place = self._places[case.id] = _OpenFile(uri=_uri(case), file=_file(case))
        self._completer.open_document(_document(case, 0, place))

    def leave(self, case: EditCase) -> None:
        """Close the case's file."""
        place = self._places.pop(case.id)
        self._completer.close_document(place.uri)

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        """Send the text as it is now, and ask."""
        place = self._places[case.id]
        place.version += 1
        started = self._clock()
        self._completer.change_document(_document(case, n_typed, place))
        request = CompletionRequest(
            uri=place.uri,
            file=place.file,
            path=case.path,
            repo_name=case.project_name,
            prefix=case.prefix + case.typed[:n_typed],
            suffix=case.suffix,
            language_id=case.language_id,
            deadline_ms=self._deadline_ms,
            wait_for_model=True,
        )
        result = self._completer.complete(request, CancellationToken()).result()
        return Answer(
            text=result.text,
            n_replaced=result.n_replaced,
            completion_id=result.completion_id,
            source=result.source,
            ms=1000 * (self._clock() - started),
            stats=result.stats,
        )

    def shown(self, answer: Answer) -> None:
        """Tell the completer."""
        self._completer.shown(answer.completion_id)

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Tell the completer."""
        whole = n_chars >= len(answer.text)
        self._completer.accepted(answer.completion_id, None if whole else n_chars)

    def rest(self) -> None:
        """Wait until the completer has nothing left to do."""
        self._rest()

    def statistics(self) -> SessionStats:
        """Return the completer's sums."""
        return self._completer.statistics()

    def _change_folder(self, root: str, name: str) -> None:
        self._wait_while(lambda: self._completer.state() == "loading")
        if self._root:
            self._completer.close_folder(self._root)
        self._root = root
        if root:
            self._completer.open_folder(WorkspaceFolder(root=root, name=name))
            self._wait_while(lambda: self._completer.statistics().index.building)

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        end = self._clock() + _LONGEST_WAIT_S
        while condition():
            if self._clock() > end:
                raise EngineUnavailableError("the completer is not ready after five minutes.")
            time.sleep(_POLL_S)


@dataclass(slots=True, kw_only=True)
class _OpenFile:
    """A case's file, as it stands in the editor."""

    uri: str
    file: str
    version: int = 1


def _document(case: EditCase, n_typed: int, place: _OpenFile) -> Document:
    return Document(
        uri=place.uri,
        path=case.path,
        file=place.file,
        language_id=case.language_id,
        version=place.version,
        text=case.prefix + case.typed[:n_typed] + case.suffix,
    )


def _file(case: EditCase) -> str:
    return str(case.project.resolve() / case.path) if case.project is not None else ""


def _uri(case: EditCase) -> str:
    if case.project is None:
        return f"untitled:{case.id}"
    return (case.project.resolve() / case.path).as_uri()
