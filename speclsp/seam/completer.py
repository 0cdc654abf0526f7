"""The completer seam: what the language server and the command line call.

Requests, answers, documents, statistics, events, resolved settings and a cancellation token cross
it: no llama_cpp, pygls or lsprotocol object, and no callable.  But for the token they are frozen,
made of strings, numbers, and tuples or dicts of them, and survive a round trip through
``msgspec.json``, so that the completer may run in this process or in another one.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol, TypeVar

from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.events import Event
from speclsp.seam.request import R, Request
from speclsp.seam.statistics import EngineState, SessionStats
from speclsp.settings import Settings

_T = TypeVar("_T")


class Completer(Protocol):
    """Every method may be called from any thread, and returns at once unless stated otherwise.

    Slow work runs on the completer's own threads.  Its results arrive as events.
    """

    def start(self) -> None:
        """Begin to load the models and to index the folders."""

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings; return the changed ones that take effect after a restart.

        A change of an ``engine`` setting reloads the models in the background.
        """

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""

    def close_folder(self, root: str) -> None:
        """Forget a folder."""

    def reindex(self) -> None:
        """Scan all folders again."""

    def open_document(self, document: Document) -> None:
        """Take an open document, its secrets masked.

        Its text replaces the file's, and that of a document opened by this URI before.
        """

    def change_document(self, document: Document, edit: TextEdit, hidden: Ranges = ()) -> None:
        """Take the next version of an open document, which ``edit`` makes of the former one.

        ``hidden`` are the ranges of the former version whose letters are secrets now, one at least
        where anything became a secret; see :class:`~speclsp.seam.documents.Range`.  They are
        forgotten wherever they were kept or learned, before the next prompt.
        """

    def save_document(self, uri: str) -> None:
        """Read a document's file again: the document was saved."""

    def close_document(self, uri: str) -> None:
        """Drop a document: the file's text counts again."""

    def submit(self, request: Request[R], cancel: CancellationToken) -> Future[R]:
        """Have a request of any kind answered.

        The future raises :class:`~speclsp.errors.EngineUnavailableError` at once while the engine
        is loading, off or failed, and :class:`~speclsp.errors.EngineError` where decoding fails.
        A cancelled, superseded or overdue request returns the text so far, or none.
        While the user types the text that is being generated, the newer request gets its rest.
        """

    def learn(self, accepted: AcceptedText) -> None:
        """Keep a text that the user accepted, and draft from it."""

    def forget(self, name: str, ranges: Ranges) -> None:
        """Forget the learned text of this name, and all else with the letters at ``ranges`` in it.

        They are secrets now; see :attr:`~speclsp.seam.documents.AcceptedText.name`.
        """

    def forget_secrets(self, secrets: tuple[str, ...]) -> None:
        """Forget what holds a piece of these secrets, as where a change hides them."""

    def statistics(self) -> SessionStats:
        """Return the completer's share of a session's statistics: models, index, unused work.

        Requests and suggestions are counted above the seam.
        """

    def state(self) -> EngineState:
        """Return the state of the engine."""

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None when none came in time or the completer is closed."""

    def close(self) -> None:
        """Stop all threads, free the models and flush the stores; wait at most 5 s for that."""


def answered(answer: _T) -> Future[_T]:
    """Return a future that is done."""
    future: Future[_T] = Future()
    future.set_result(answer)
    return future
