"""The completer seam: what the language server and the command line may ask of a completer.

Only the data of :mod:`speclsp.request`, the resolved settings and a cancellation token cross it.
No llama_cpp object, no pygls or lsprotocol object and no callable does.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from speclsp.cancellation import CancellationToken
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    Document,
    EngineState,
    Event,
    SessionStats,
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
        """A buffer was opened: from now on its text counts, not the file's."""

    def change_document(self, document: Document) -> None:
        """A buffer has a new version."""

    def save_document(self, uri: str) -> None:
        """A buffer was written to its file."""

    def close_document(self, uri: str) -> None:
        """A buffer was closed: the file's text counts again."""

    def known(self, request: CompletionRequest) -> CompletionResult | None:
        """Answer a request without the model: None where only the model can.

        Text typed as an earlier answer has it gets that one's rest (``source`` memory), and an
        automatic request that cannot help gets no text (``source`` filter).  An older request of
        the same document is superseded, unless what is generated for it agrees with the newer.
        """

    def delay_ms(self, request: CompletionRequest) -> float:
        """How many milliseconds to wait for the next keystroke before :meth:`complete`.

        0 for a request that the user made, and where waiting saves nothing.
        """

    def complete(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        """Complete at a cursor.

        The future raises :class:`~speclsp.errors.EngineUnavailableError` at once while the engine
        is loading, off or failed, and :class:`~speclsp.errors.EngineError` where decoding fails.
        What :meth:`known` knows is answered so here, too.  A cancelled, superseded or overdue
        request returns what is finished so far, or nothing.
        """

    def shown(self, completion_id: str) -> None:
        """The suggestion is on screen."""

    def accepted(self, completion_id: str, n_chars: int | None = None) -> None:
        """The user took the suggestion: the first ``n_chars`` of it (cumulative), or all."""

    def statistics(self) -> SessionStats:
        """The session's sums so far."""

    def state(self) -> EngineState:
        """What the engine is doing."""

    def next_event(self, timeout_s: float) -> Event | None:
        """The next event, or None when none came in time or the completer is closed."""

    def close(self) -> None:
        """Stop all threads, free the models, flush the stores; waits for them, 5 s at most."""
