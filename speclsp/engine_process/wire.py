"""The messages between a window and the engine process, and the connection that carries them.

A frame is the length of a message in four bytes (big-endian) and the message in MessagePack.
Texts are masked before they get here.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

import msgspec

from speclsp.errors import EngineProcessError
from speclsp.request import (
    AcceptedText,
    CompletionRequest,
    CompletionResult,
    Document,
    EditRequest,
    EditResult,
    Event,
    Q,
    R,
    Request,
    Result,
    SessionStats,
    TextEdit,
    TextRequest,
    TextResult,
    WorkspaceFolder,
)
from speclsp.settings import PER_REQUEST, Settings

MAX_FRAME: Final = 1 << 28
"""Bytes of the longest message."""
MAX_CHARS: Final = (MAX_FRAME >> 2) - (1 << 16)
"""Characters of a document that fits into a message, whatever its characters are."""

_LENGTH_BYTES: Final = 4
_READ_BYTES: Final = 1 << 18


class _Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message is an array: its class's name, then the fields in order."""


def settings_elsewhere(own: Settings, window: Settings) -> Settings:
    """Return the settings of a window of another machine, for an engine with settings ``own``.

    The window chooses what each request reads; models, files and what is kept are the engine's.
    """
    chosen = {name: getattr(window, name) for name in PER_REQUEST}
    return replace(own, **chosen, persist=own.persist and window.persist)


# --- from a window to the engine ------------------------------------------------------------------


class ApplySettings(_Message, frozen=True):
    """Settings of this window, with model files instead of names; the first message.

    Later ones do not differ in settings of scope ``engine``.
    """

    settings: Settings


class OpenFolder(_Message, frozen=True):
    """Index a folder for this window."""

    folder: WorkspaceFolder


class CloseFolder(_Message, frozen=True):
    """Forget a folder of this window."""

    root: str


class Reindex(_Message, frozen=True):
    """Scan this window's folders again."""


class OpenDocument(_Message, frozen=True):
    """A document, whole."""

    document: Document


class ChangeDocument(_Message, frozen=True):
    """The next version of a document."""

    uri: str
    version: int
    edit: TextEdit


class SaveDocument(_Message, frozen=True):
    """A document was written to its file."""

    uri: str


class CloseDocument(_Message, frozen=True):
    """Forget a document."""

    uri: str


class Ask(_Message, Generic[Q], frozen=True):
    """A request; the engine answers each number once, with Answer or Failed."""

    number: int
    request: Q


class Complete(Ask[CompletionRequest], frozen=True):
    """A request for a completion."""


class AskEdit(Ask[EditRequest], frozen=True):
    """A request for a next edit."""


class AskText(Ask[TextRequest], frozen=True):
    """A request for the model's own text."""


class Cancel(_Message, frozen=True):
    """Stop a request; it is still answered."""

    number: int
    for_good: bool


class Learn(_Message, frozen=True):
    """A text that the user accepted."""

    accepted: AcceptedText


class AskStatistics(_Message, frozen=True):
    """Send Statistics."""


class AwaitIdle(_Message, frozen=True):
    """Send Idle when the engine is idle, or after ``timeout_s`` seconds."""

    number: int
    timeout_s: float


WindowMessage = (
    ApplySettings
    | OpenFolder
    | CloseFolder
    | Reindex
    | OpenDocument
    | ChangeDocument
    | SaveDocument
    | CloseDocument
    | Complete
    | AskEdit
    | AskText
    | Cancel
    | Learn
    | AskStatistics
    | AwaitIdle
)


# --- from the engine to a window ------------------------------------------------------------------


class Answer(_Message, Generic[R], frozen=True):
    """The result of a request."""

    number: int
    result: R


class Completed(Answer[CompletionResult], frozen=True):
    """The result of a request for a completion."""


class Edited(Answer[EditResult], frozen=True):
    """The result of a request for a next edit."""


class Wrote(Answer[TextResult], frozen=True):
    """The result of a request for the model's own text."""


class Failed(_Message, frozen=True):
    """The error of a request: an exception's class of ``speclsp.errors``, and its texts."""

    number: int
    error: str
    message: str
    remedy: str


class Statistics(_Message, frozen=True):
    """The engine's share of the session's statistics; comes before each Answer, too."""

    stats: SessionStats


class Idle(_Message, frozen=True):
    """Whether nothing was left to do when an AwaitIdle ended."""

    number: int
    is_idle: bool


class Closing(_Message, frozen=True):
    """The engine shuts down on purpose; it is not restarted before the next request."""


class Dropped(_Message, frozen=True):
    """A defect ended the engine's service for this window; the engine's log has more."""


ASKS: Final[Mapping[type[Request[Any]], Callable[[int, Any], Complete | AskEdit | AskText]]] = {
    CompletionRequest: Complete,
    EditRequest: AskEdit,
    TextRequest: AskText,
}
ANSWERS: Final[Mapping[type[Result], Callable[[int, Any], Completed | Edited | Wrote]]] = {
    CompletionResult: Completed,
    EditResult: Edited,
    TextResult: Wrote,
}
"""The messages of each kind of request and result."""

EngineMessage = Completed | Edited | Wrote | Failed | Event | Statistics | Idle | Closing | Dropped


# --- the connection -------------------------------------------------------------------------------

_Received = TypeVar("_Received")


class Connection(Generic[_Received]):
    """One end of a connected stream socket.

    Any thread may send and close; one thread receives.  Sending never blocks: what the peer does
    not take at once waits here until the receiving thread sends it.
    """

    def __init__(
        self, sock: socket.socket, decoder: msgspec.msgpack.Decoder[_Received], *, max_waiting: int
    ) -> None:
        """``max_waiting`` is the bound, in bytes, of what waits for a peer that does not read."""
        sock.setblocking(False)
        self._socket = sock
        self._decoder = decoder
        self._encoder = msgspec.msgpack.Encoder()
        self._max_waiting = max_waiting
        self._sending = threading.Condition()
        self._waiting = bytearray()
        """Bytes that the socket has not taken."""
        self._is_closed = False
        self._buffer = bytearray()
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self.n_sent = 0
        """Bytes that were sent or wait."""

    def send(self, *messages: msgspec.Struct) -> bool:
        """Send messages in order; return whether the connection is open.

        Raises :class:`~speclsp.errors.EngineProcessError`, and sends nothing, where a message
        cannot be encoded or is too long.
        """
        frames = b"".join(map(self._frame, messages))
        with self._sending:
            if self._is_closed:
                return False
            if self._waiting and len(self._waiting) + len(frames) > self._max_waiting:
                self._close()
                return False
            self.n_sent += len(frames)
            n_taken = 0 if self._waiting else self._send_now(frames)
            if not self._is_closed:
                self._waiting += memoryview(frames)[n_taken:]
            if self._waiting:
                self.wake()
            return not self._is_closed

    def receive(self, timeout_s: float | None) -> list[_Received] | None:
        """Return the messages that arrive within a time or until :meth:`wake`, in order.

        Sends what waits.  May return early, without messages; None where the connection is closed.
        Raises :class:`~speclsp.errors.EngineProcessError` for bytes that are no message.
        """
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)
        self._selector.modify(self._socket, events)
        ready: dict[object, int] = {}
        for key, mask in self._selector.select(timeout_s):
            # kqueue (macOS) gives a socket that can be read and written two entries.
            ready[key.fileobj] = ready.get(key.fileobj, 0) | mask
        if self._is_closed:
            return None
        if self._woken in ready:
            self._woken.recv(_READ_BYTES)
        if ready.get(self._socket, 0) & selectors.EVENT_WRITE:
            with self._sending:
                del self._waiting[: self._send_now(self._waiting)]
                self._sending.notify_all()
        if not ready.get(self._socket, 0) & selectors.EVENT_READ:
            return []
        try:
            received = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            received = b""
        if not received:
            self.close()
            return None
        self._buffer += received
        return self._messages()

    @property
    def is_closed(self) -> bool:
        """Whether nothing is sent or received any more."""
        return self._is_closed

    def wake(self) -> None:
        """Let :meth:`receive` return now."""
        with contextlib.suppress(OSError):
            self._waker.send(b".")

    def finish(self, timeout_s: float) -> None:
        """Wait until everything is sent, and close the sending direction."""
        with self._sending:
            self._sending.wait_for(lambda: self._is_closed or not self._waiting, timeout_s)
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection; what still waits is not sent."""
        with self._sending:
            self._close()

    def free(self) -> None:
        """Close the sockets, when the receiving thread has ended."""
        self.close()
        for opened in (self._selector, self._socket, self._woken, self._waker):
            opened.close()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._waiting.clear()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.wake()
        self._sending.notify_all()

    def _frame(self, message: msgspec.Struct) -> bytes:
        try:
            body = self._encoder.encode(message)
        except UnicodeEncodeError as error:
            raise EngineProcessError(f"a text cannot be sent to the engine: {error}.") from error
        if len(body) > MAX_FRAME:
            raise EngineProcessError(f"{len(body):,} bytes are too many for one message.")
        return len(body).to_bytes(_LENGTH_BYTES) + body

    def _send_now(self, frames: bytes | bytearray) -> int:
        """Send what the socket takes without waiting; return how many bytes it took."""
        try:
            return self._socket.send(frames)
        except BlockingIOError:
            pass
        except OSError:
            self._close()
        return 0

    def _messages(self) -> list[_Received]:
        messages: list[_Received] = []
        buffer, start = self._buffer, 0
        view = memoryview(buffer)
        while len(buffer) >= start + _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            end = body + int.from_bytes(buffer[start:body])
            if end - body > MAX_FRAME:
                raise EngineProcessError(f"a message of {end - body:,} bytes was announced.")
            if len(buffer) < end:
                break
            try:
                messages.append(self._decoder.decode(view[body:end]))
            except (msgspec.DecodeError, RecursionError) as error:
                raise EngineProcessError(f"a message cannot be read: {error}.") from error
            start = end
        view.release()
        del buffer[:start]
        return messages


# Made once: msgspec looks at the classes then, and crashes where two threads do so at once.
_OF_ENGINES: Final = msgspec.msgpack.Decoder(EngineMessage)
_OF_WINDOWS: Final = msgspec.msgpack.Decoder(WindowMessage)


def window_connection(sock: socket.socket, *, max_waiting: int) -> Connection[EngineMessage]:
    """Return a window's end of a connection."""
    return Connection(sock, _OF_ENGINES, max_waiting=max_waiting)


def engine_connection(sock: socket.socket, *, max_waiting: int) -> Connection[WindowMessage]:
    """Return the engine's end of a connection."""
    return Connection(sock, _OF_WINDOWS, max_waiting=max_waiting)
