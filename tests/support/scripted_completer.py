"""A completer that does as it is told, and writes down what it was asked."""

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from speclsp.errors import EngineUnavailableError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import (
    CompletionRequest,
    CompletionResult,
    GeneratedText,
    PlacedCompletion,
)
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.events import Event, EventQueue
from speclsp.seam.open_documents import Documents
from speclsp.seam.statistics import EngineState, RequestStats, SessionStats
from speclsp.settings import Settings


@dataclasses.dataclass
class Asked:
    """One request with what became of it."""

    request: PlacedCompletion
    """With the text of its document."""
    cancel: CancellationToken
    future: Future[CompletionResult]
    completion_id: str

    def answer(
        self,
        text: str,
        *,
        n_replaced: int = 0,
        finish_reason: Any = "stop",
        mean_logprob: float | None = None,
        alternatives: tuple[GeneratedText, ...] = (),
    ) -> None:
        self.future.set_result(
            CompletionResult(
                generated=GeneratedText(
                    completion_id=self.completion_id,
                    text=text,
                    n_replaced=n_replaced,
                    mean_logprob=mean_logprob,
                    finish_reason=finish_reason,
                ),
                stats=RequestStats(n_prompt=7, n_predicted=3),
                alternatives=alternatives,
            )
        )


class ScriptedCompleter:
    """Answers each request by ``script``; a script that does nothing leaves it open."""

    def __init__(self, settings: Settings, script: Callable[[Asked], None] | None = None) -> None:
        self.settings = settings
        self.script = script or (lambda asked: asked.answer("completed"))
        self.asked: list[Asked] = []
        self.calls: list[tuple[Any, ...]] = []
        self.hidden: list[Ranges] = []
        """Of each change, the ranges of what became a secret."""
        self.open_documents = Documents()
        self.opened: list[Document] = []
        self.folders: dict[str, str] = {}
        self.learned: list[AcceptedText] = []
        self.applied: list[Settings] = []
        self.needs_restart: tuple[str, ...] = ()
        self.engine_state: EngineState = "ready"
        self.closed = False
        self.thread_names: set[str] = set()
        self._events = EventQueue()
        self.emit = self._events.emit

    def start(self) -> None:
        self.calls.append(("start",))

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        self.applied.append(settings)
        self.settings = settings
        return self.needs_restart

    def open_folder(self, folder: WorkspaceFolder) -> None:
        self.calls.append(("open_folder", folder.root, folder.name))
        self.folders[folder.root] = folder.name

    def close_folder(self, root: str) -> None:
        self.calls.append(("close_folder", root))
        self.folders.pop(root, None)

    def reindex(self) -> None:
        self.calls.append(("reindex",))

    def open_document(self, document: Document) -> None:
        self.calls.append(("open_document", document.uri))
        self.opened.append(document)
        self.open_documents.open(document)

    @property
    def documents(self) -> dict[str, Document]:
        """The newest versions by URI."""
        return {document.uri: document for document in self.open_documents.newest()}

    def change_document(self, document: Document, edit: TextEdit, hidden: Ranges = ()) -> None:
        self.calls.append(("change_document", document.uri, document.version))
        self.hidden.append(hidden)
        former = self.open_documents.change(document)
        assert former is not None
        assert former.edited(document.version, edit) == document

    def save_document(self, uri: str) -> None:
        self.calls.append(("save_document", uri))

    def close_document(self, uri: str) -> None:
        self.calls.append(("close_document", uri))
        self.open_documents.close(uri)

    def submit(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        self.thread_names.add(threading.current_thread().name)
        placed = self.open_documents.place(request)
        assert placed is not None
        asked = Asked(placed, cancel, Future(), request.completion_id)
        if self.engine_state == "ready":
            self.asked.append(asked)
            self.script(asked)
        else:
            error = EngineUnavailableError(f"The engine is {self.engine_state}.", remedy="Look up.")
            asked.future.set_exception(error)
        return asked.future

    def learn(self, accepted: AcceptedText) -> None:
        self.calls.append(("learn", accepted.text))
        self.learned.append(accepted)

    def forget(self, name: str, ranges: Ranges) -> None:
        self.calls.append(("forget", name, ranges))

    def forget_secrets(self, secrets: tuple[str, ...]) -> None:
        self.calls.append(("forget_secrets", secrets))

    def statistics(self) -> SessionStats:
        return SessionStats(state="ready")

    def state(self) -> EngineState:
        return self.engine_state

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        return self._events.next(timeout_s)

    def close(self) -> None:
        self.calls.append(("close",))
        self.closed = True
        self._events.close()
