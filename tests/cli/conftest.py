import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from speclsp.answers import CompletionResult, GeneratedText
from speclsp.cancellation import CancellationToken
from speclsp.documents import AcceptedText, Document, Place, TextEdit
from speclsp.errors import EngineUnavailableError
from speclsp.events import Event
from speclsp.open_documents import Documents
from speclsp.requests import CompletionRequest, PlacedCompletion
from speclsp.settings import Settings
from speclsp.statistics import EngineState, RequestStats, SessionStats


class FakeCompleter:
    """A completer that answers with the prefix's last word, when it is told to."""

    def __init__(self) -> None:
        self.engine_state: EngineState = "ready"
        self.requests: list[PlacedCompletion] = []
        self.learned: list[AcceptedText] = []
        self.open_documents = Documents()
        self.documents: list[tuple[str, Document | str]] = []
        self.started = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.answer: Callable[[PlacedCompletion], str] = lambda r: f"<{r.prefix}>"

    def submit(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        future: Future[CompletionResult] = Future()
        if self.engine_state in {"loading", "off", "failed"}:
            future.set_exception(
                EngineUnavailableError(f"The engine is {self.engine_state}.", remedy="Look up.")
            )
            return future
        placed = self.open_documents.place(request)
        assert placed is not None
        self.requests.append(placed)
        self.started.set()

        def work() -> None:
            while not self.may_answer.wait(0.005):
                if cancel.cancelled:
                    break
            try:
                text = self.answer(placed)
            except Exception as error:  # noqa: BLE001  # whatever a test wants to fail with
                future.set_exception(error)
                return
            future.set_result(
                CompletionResult(
                    generated=GeneratedText(
                        completion_id="1",
                        text=text,
                        finish_reason="cancelled" if cancel.cancelled else "stop",
                    ),
                    stats=RequestStats(n_prompt=7, n_predicted=1, n_target_passes=1),
                )
            )

        threading.Thread(target=work, daemon=True).start()
        return future

    def start(self) -> None: ...

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        return ()

    def open_folder(self, folder: object) -> None: ...

    def close_folder(self, root: str) -> None: ...

    def reindex(self) -> None: ...

    def open_document(self, document: Document) -> None:
        self.documents.append(("open", document))
        self.open_documents.open(document)

    def change_document(
        self, uri: str, version: int, edit: TextEdit, hidden: tuple[Place, ...] = ()
    ) -> None:
        document = self.open_documents.change(uri, version, edit)
        assert document is not None
        self.documents.append(("change", document))

    def save_document(self, uri: str) -> None: ...

    def close_document(self, uri: str) -> None:
        self.documents.append(("close", uri))
        self.open_documents.close(uri)

    def forget(self, name: str, places: tuple[Place, ...]) -> None: ...

    def learn(self, accepted: AcceptedText) -> None:
        self.learned.append(accepted)

    def statistics(self) -> SessionStats:
        return SessionStats()

    def wait_idle(self, timeout_s: float) -> bool:
        return True

    def state(self) -> EngineState:
        return self.engine_state

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        return None

    def close(self) -> None: ...


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the commands of these tests, and their processes, out of the user's folders."""
    folder = tmp_path_factory.mktemp("xdg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield


@pytest.fixture
def fake_completer() -> FakeCompleter:
    return FakeCompleter()
