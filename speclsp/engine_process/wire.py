"""The messages between a window and the engine process, and the connection that carries them.

A frame is the length of a message in four bytes (big-endian) and the message in MessagePack.
Texts are masked before they get here.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from speclsp.engine_process.transport import Streams
from speclsp.errors import EngineProcessError
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.edit import EditRequest, EditResult
from speclsp.seam.events import Event
from speclsp.seam.statistics import SessionStats
from speclsp.seam.text import TextRequest, TextResult
from speclsp.settings import PER_REQUEST, Settings

MAX_FRAME: Final = 1 << 28
"""Bytes of the longest message."""
MAX_CHARS: Final = (MAX_FRAME >> 2) - (1 << 16)
"""Characters of a document that fits into a message, whatever its characters are."""

_LENGTH_BYTES: Final = 4

AnyRequest: TypeAlias = CompletionRequest | EditRequest | TextRequest
AnyResult: TypeAlias = CompletionResult | EditResult | TextResult


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
    hidden: Ranges = ()
    """Ranges of the version before whose letters are secrets now."""


class SaveDocument(_Message, frozen=True):
    """A document was written to its file."""

    uri: str


class CloseDocument(_Message, frozen=True):
    """Forget a document."""

    uri: str


class Ask(_Message, frozen=True):
    """A request; the engine answers each number once, with Answer or Failed."""

    number: int
    request: AnyRequest


class Cancel(_Message, frozen=True):
    """Stop a request; it is still answered."""

    number: int
    for_good: bool


class Learn(_Message, frozen=True):
    """A text that the user accepted."""

    accepted: AcceptedText


class Forget(_Message, frozen=True):
    """Forget a text that was learned: its letters at ``ranges`` are secrets now."""

    name: str
    ranges: Ranges


class ForgetSecrets(_Message, frozen=True):
    """Forget what holds a piece of these secrets, of which an engine before may have learned."""

    secrets: tuple[str, ...]


class AskStatistics(_Message, frozen=True):
    """Send Statistics."""


WindowMessage = (
    ApplySettings
    | OpenFolder
    | CloseFolder
    | Reindex
    | OpenDocument
    | ChangeDocument
    | SaveDocument
    | CloseDocument
    | Ask
    | Cancel
    | Learn
    | Forget
    | ForgetSecrets
    | AskStatistics
)


# --- from the engine to a window ------------------------------------------------------------------


class Answer(_Message, frozen=True):
    """The result of a request."""

    number: int
    result: AnyResult


class Failed(_Message, frozen=True):
    """The error of a request: an exception's class of ``speclsp.errors``, and its texts."""

    number: int
    error: str
    message: str
    remedy: str


class Statistics(_Message, frozen=True):
    """The engine's share of the session's statistics; also follows answers, at most once a second.

    It comes before each StateChanged and Progress, too.
    """

    stats: SessionStats


class Closing(_Message, frozen=True):
    """The engine shuts down on purpose; it is not restarted before the next request."""


EngineMessage = Answer | Failed | Event | Statistics | Closing


# --- the connection -------------------------------------------------------------------------------

_Received = TypeVar("_Received")


class Connection(Generic[_Received]):
    """One end of a connection, in the event loop that opened it."""

    def __init__(
        self, streams: Streams, decoder: msgspec.msgpack.Decoder[_Received], *, max_waiting: int
    ) -> None:
        """``decoder`` is OF_ENGINES at a window's end, and OF_WINDOWS at the engine's.

        ``max_waiting`` is the bound, in bytes, of what waits for a peer that does not read.
        """
        self._reader, self._writer = streams
        self._decoder = decoder
        self._encoder = msgspec.msgpack.Encoder()
        self._max_waiting = max_waiting
        self._is_finished = False
        self.n_sent = 0
        """Bytes that were sent or wait."""

    def send(self, *messages: msgspec.Struct) -> bool:
        """Send messages in order, or let them wait; return whether the connection is open.

        Raises :class:`~speclsp.errors.EngineProcessError`, and sends nothing, where a message is
        too long or has a number beyond 64 bits.
        """
        frames = b"".join(map(self._frame, messages))
        if self.is_closed:
            return False
        n_waiting = self._writer.transport.get_write_buffer_size()
        if n_waiting and n_waiting + len(frames) > self._max_waiting:
            self.abort()
            return False
        self.n_sent += len(frames)
        self._writer.write(frames)
        return not self.is_closed

    async def receive(self) -> _Received | None:
        """Return the next message; None at the end of the connection.

        Raises :class:`~speclsp.errors.EngineProcessError` for bytes that are no message.
        """
        try:
            n_bytes = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
            if n_bytes > MAX_FRAME:
                raise EngineProcessError(f"a message of {n_bytes:,} bytes was announced.")
            body = await self._reader.readexactly(n_bytes)
        except (asyncio.IncompleteReadError, OSError):
            return None
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise EngineProcessError(f"a message cannot be read: {error}.") from error

    @property
    def is_closed(self) -> bool:
        """Whether nothing is sent any more."""
        return self._is_finished or self._writer.is_closing()

    def finish(self) -> None:
        """Send what waits, and then the end; the peer ends the connection."""
        self._is_finished = True
        with suppress(OSError):  # the peer has left
            self._writer.write_eof()

    def close(self) -> None:
        """Send what waits, and close the connection."""
        self._writer.close()

    def abort(self) -> None:
        """Close the connection; what still waits is not sent."""
        self._writer.transport.abort()

    def _frame(self, message: msgspec.Struct) -> bytes:
        try:
            body = self._encoder.encode(message)
        except UnicodeEncodeError:
            body = self._encoder.encode(_in_utf8(msgspec.to_builtins(message)))
        except OverflowError as error:
            raise EngineProcessError(f"a number cannot be sent: {error}.") from error
        if len(body) > MAX_FRAME:
            raise EngineProcessError(f"{len(body):,} bytes are too many for one message.")
        return len(body).to_bytes(_LENGTH_BYTES) + body


def _in_utf8(value: Any) -> Any:
    """Return a value with question marks for what UTF-8 cannot encode: a path may have that."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case list() | tuple():
            return [_in_utf8(one) for one in value]
        case dict():
            return {_in_utf8(name): _in_utf8(one) for name, one in value.items()}
        case _:
            return value


# Made once: msgspec looks at the classes then, and crashes where two threads do so at once.
OF_ENGINES: Final = msgspec.msgpack.Decoder(EngineMessage)
OF_WINDOWS: Final = msgspec.msgpack.Decoder(WindowMessage)
