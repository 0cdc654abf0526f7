"""The completer seam: what the language server and the command line may ask of a completer.

Only the data of :mod:`speclsp.request`, the resolved settings and a cancellation token cross it.
No llama_cpp object, no pygls or lsprotocol object and no callable does.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from speclsp.cancellation import CancellationToken
from speclsp.request import (
    AcceptedText,
    CompletionRequest,
    CompletionResult,
    Document,
    EngineState,
    Event,
    SessionStats,
    TextEdit,
    WorkspaceFolder,
)
from speclsp.settings import Settings


class Completer(Protocol):
    """Every method returns at once and may be called from any thread.

    Slow work runs on threads of the completer's own; what it has to say comes as events.
    """

    def start(self) -> None:
        """Begin to load the models and to index the folders."""

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings.

        Returns the names of changed settings that only a restart of the server puts into effect.
        A change of an ``engine`` setting reloads the models in the background.
        """

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""

    def close_folder(self, root: str) -> None:
        """Forget a folder."""

    def reindex(self) -> None:
        """Scan all folders again."""

    def open_document(self, document: Document) -> None:
        """Take an open document: from now on its text counts, not the file's.

        Its secrets are masked.  One that is open already is replaced.
        """

    def change_document(self, uri: str, version: int, edit: TextEdit) -> None:
        """Take an edit of an open document, which makes its next version."""

    def save_document(self, uri: str) -> None:
        """A document was written to its file."""

    def close_document(self, uri: str) -> None:
        """A document was closed: the file's text counts again."""

    def complete(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        """Complete at a cursor.

        The future raises :class:`~speclsp.errors.EngineUnavailableError` at once while the engine
        is loading, off or failed, and :class:`~speclsp.errors.EngineError` where decoding fails.
        A cancelled, superseded or overdue request returns what is finished so far, or nothing.
        While the user types what is being generated, the generation goes on for the newer request,
        which gets the rest of the text.
        """

    def could_join(self, request: CompletionRequest) -> bool:
        """Whether what is being generated may answer a request: it then need not wait."""

    def learn(self, accepted: AcceptedText) -> None:
        """The user took a text."""

    def statistics(self) -> SessionStats:
        """Return what the completer knows of a session: models, index, and work done in vain.

        What became of requests is counted above the seam.
        """

    def state(self) -> EngineState:
        """What the engine is doing."""

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do, idle work included; whether that came about."""

    def next_event(self, timeout_s: float) -> Event | None:
        """The next event, or None when none came in time or the completer is closed."""

    def close(self) -> None:
        """Stop all threads, free the models, flush the stores; waits for them, 5 s at most."""
