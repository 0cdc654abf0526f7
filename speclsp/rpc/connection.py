"""JSON-RPC 2.0, for the language server and for ``speclsp complete``.

pygls runs the handlers and serialises what they return.  This module adds two guarantees: each
request gets exactly one answer, and a malformed message gets an error that says what is wrong.
Specification: https://www.jsonrpc.org/specification.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

from cattrs import Converter
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcRequestCancelled,
)
from pygls.protocol import JsonRPCNotification, JsonRPCProtocol, JsonRPCRequestMessage
from pygls.server import JsonRPCServer

from speclsp.rpc.framing import FrameDecoder, FramingProblem

logger = logging.getLogger(__name__)

MessageId = int | str
Reply: TypeAlias = Callable[[dict[str, Any]], None]

_CANCEL = "$/cancelRequest"
_SHUTDOWN = "shutdown"
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_message(body: bytes) -> Any:
    """Return the JSON value of a message.  Raises JsonRpcParseError.

    A lone surrogate, which JavaScript writes as an escape, becomes U+FFFD: UTF-8 cannot encode it.
    """
    try:
        value = json.loads(body)
        if _SURROGATE_ESCAPE.search(body):
            units = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
            value = json.loads(units.decode("utf-16-le", "replace"))
    except (ValueError, RecursionError) as error:
        raise JsonRpcParseError(f"not JSON: {error}") from error
    return value


def error_answer(msg_id: MessageId | None, error: BaseException) -> dict[str, Any]:
    """Return the answer to a request that failed."""
    if not isinstance(error, JsonRpcException):
        logger.error("request %r failed", msg_id, exc_info=error)
        error = JsonRpcInternalError(f"{type(error).__name__}: {error}")
    members: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        members["data"] = error.data
    return {"jsonrpc": JsonRPCProtocol.VERSION, "id": msg_id, "error": members}


class JsonRpcConnection(JsonRPCProtocol):
    """One client's connection: a transport feeds it bytes and waits until it is over.

    Use it on the event loop's thread only.
    """

    accepts_batches = False

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self._write: Callable[[bytes], None] | None = None
        self._decoder: FrameDecoder | None = None
        self._batch_replies: dict[MessageId, Reply] = {}
        self._over = asyncio.Event()
        self.shutting_down = False
        """Whether the client has asked to shut down; later requests are refused."""
        self.exited = False
        """Whether the client has asked the server to end."""
        self.abandoned = False
        """Whether the client is gone and reads no answers."""
        self.answered: MessageId | None = None
        """The id of a request that was answered before this connection was made."""

    # --- what a protocol defines ----------------------------------------------------------------

    @abstractmethod
    def is_request(self, method: str) -> bool:
        """Return whether a method that has a handler may be called with an id."""

    @abstractmethod
    def accepts_notification(self, method: str) -> bool:
        """Return whether a method may be called without an id now; the others are dropped."""

    @abstractmethod
    def structure_params(self, method: str, params: Any) -> Any:
        """Return a message's params as its handler takes them.  Raises JsonRpcInvalidParams."""

    @abstractmethod
    async def close(self) -> int:
        """End the session once the connection is over, and return the process's exit code."""

    def check_request(self, method: str) -> None:
        """Raise JsonRpcException where a request must be refused in the present state."""

    def begin(self, request: JsonRPCRequestMessage) -> None:
        """Call a request's handler; this runs in a context of its own."""
        self.handle_message(request)

    def receive_answer(self, message: dict[str, Any]) -> None:
        """Receive the client's answer to a request of the server."""
        logger.debug("ignored an answer to %r", message.get("id"))

    # --- life -----------------------------------------------------------------------------------

    def connect(self, write: Callable[[bytes], None], decoder: FrameDecoder | None = None) -> None:
        """Begin with a client; ``write``, which must not block or raise, sends to it.

        Messages are framed as ``decoder`` reads them; without one, they are bare bodies.
        """
        self._write, self._decoder = write, decoder

    def exit(self) -> None:
        """End the connection at the client's request; later messages are ignored."""
        self.exited = True
        self._over.set()

    def hang_up(self) -> None:
        """End the connection because the client is gone, or the process was told to stop."""
        self.abandoned = True
        self.cancel_requests()
        self._over.set()

    async def until_over(self) -> None:
        """Wait until the connection has ended."""
        await self._over.wait()

    # --- in -------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Receive bytes of a framed stream; no bytes are its end."""
        assert self._decoder is not None, "connect() was given no decoder"
        pieces = self._decoder.feed(data) if data else self._decoder.finish()
        for piece in pieces:
            if isinstance(piece, FramingProblem):
                self.refuse(JsonRpcParseError(piece.reason))
            else:
                self.receive(piece)
        if not data:
            self._over.set()

    def receive(self, body: bytes) -> None:
        """Receive one message.  Whatever it is, this does not raise."""
        if self.exited:
            return
        try:
            message = read_message(body)
            if isinstance(message, list) and message and self.accepts_batches:
                self._receive_batch(message)
            else:
                self._receive(message, self._send_data)
        except Exception as error:  # noqa: BLE001  reported to the client and in the log
            self.refuse(error)

    def refuse(
        self, error: Exception, msg_id: MessageId | None = None, reply: Reply | None = None
    ) -> None:
        """Answer a message with an error; without an id it is malformed."""
        if isinstance(error, JsonRpcException):
            logger.warning("refused a message: %s", error)
        (reply or self._send_data)(error_answer(msg_id, error))

    def cancel_requests(self, *, but: MessageId | None = None) -> None:
        """Cancel the open requests of either side, apart from one."""
        for msg_id, future in tuple(self._request_futures.items()):
            if msg_id != but:
                future.cancel()

    def _receive_batch(self, members: list[Any]) -> None:
        """Receive a batch, whose answers are sent as one array when all are there."""
        answers: list[dict[str, Any]] = []
        n_expected = len(members)

        def send_if_complete() -> None:
            if answers and len(answers) == n_expected:
                self._send_data(answers)

        def add(answer: dict[str, Any]) -> None:
            answers.append(answer)
            send_if_complete()

        for member in members:
            if not self._receive(member, add):
                n_expected -= 1
                send_if_complete()

    def _receive(self, message: Any, reply: Reply) -> bool:
        """Receive a message; return whether ``reply`` gets an answer, now or later."""
        if not isinstance(message, dict):
            self.refuse(JsonRpcInvalidRequest("a message must be a JSON object"), reply=reply)
        elif "method" not in message and ("result" in message or "error" in message):
            self.receive_answer(message)
            return False
        elif "id" in message:
            self._receive_request(message, reply)
        elif not isinstance(message.get("method"), str):
            self.refuse(JsonRpcInvalidRequest("method must be a string"), reply=reply)
        else:
            self._receive_notification(message["method"], message.get("params"))
            return False
        return True

    def _receive_request(self, message: dict[str, Any], reply: Reply) -> None:
        msg_id = message["id"]
        if isinstance(msg_id, bool) or not isinstance(msg_id, (int, str)):
            self.refuse(JsonRpcInvalidRequest("id must be a number or a string"), reply=reply)
            return
        try:
            method, params = self._checked(msg_id, message)
        except Exception as error:  # noqa: BLE001  reported to the client and in the log
            self.refuse(error, msg_id, reply)
            return
        # Set before the handler, a task, runs: the messages that follow must be refused.
        self.shutting_down = method == _SHUTDOWN
        self._batch_replies[msg_id] = reply
        if msg_id == self.answered:  # before this connection was made
            self.answered, self._batch_replies[msg_id] = None, lambda _: None
        request = JsonRPCRequestMessage(msg_id, method, self.VERSION, params)
        contextvars.copy_context().run(self.begin, request)

    def _checked(self, msg_id: MessageId, message: dict[str, Any]) -> tuple[str, Any]:
        """Return a request's method and its params as the handler takes them.

        Raises JsonRpcException.
        """
        method = message.get("method")
        if not isinstance(method, str):
            raise JsonRpcInvalidRequest("method must be a string")
        if message.get("jsonrpc") != self.VERSION:
            raise JsonRpcInvalidRequest(f"jsonrpc must be {self.VERSION!r}")
        if self.shutting_down:
            raise JsonRpcInvalidRequest("the server is shutting down")
        self.check_request(method)
        if msg_id in self._request_futures:
            raise JsonRpcInvalidRequest(
                f"a request with id {msg_id!r} is still open", data={"field": "$.id"}
            )
        self._check_handler(method)
        if not self.is_request(method):
            raise JsonRpcInvalidRequest(f"{method} is a notification and takes no id")
        return method, self.structure_params(method, message.get("params"))

    def _receive_notification(self, method: str, params: Any) -> None:
        if not self.accepts_notification(method):
            return
        try:
            if method != _CANCEL:
                self._check_handler(method)
            structured = self.structure_params(method, params)
        except JsonRpcMethodNotFound:
            logger.debug("ignored %s", method)
        except JsonRpcException as error:
            logger.warning("dropped %s: %s", method, error.message)
        else:
            if method != _CANCEL:
                self.handle_message(JsonRPCNotification(method, self.VERSION, structured))
            # Often the answer is on its way already, which pygls would warn of.
            elif (future := self._request_futures.get(structured.id)) is not None:
                future.cancel()

    def _check_handler(self, method: str) -> None:
        if method not in self.fm.builtin_features and method not in self.fm.features:
            raise JsonRpcMethodNotFound.of(method)

    # --- out ------------------------------------------------------------------------------------

    def _send_data(self, data: Any) -> None:
        if self._write is not None:
            text = json.dumps(data, default=self.fm.converter.unstructure, separators=(",", ":"))
            body = text.encode(self.CHARSET)
            self._write(body if self._decoder is None else self._decoder.framed(body))

    def _send_handler_result(self, future: Future[Any], *, msg_id: MessageId) -> None:
        self._request_futures.pop(msg_id, None)
        reply: Reply = self._batch_replies.pop(msg_id, self._send_data)
        error: BaseException | None
        if future.cancelled():
            error = JsonRpcRequestCancelled("cancelled")
        elif (error := future.exception()) is None:
            try:
                reply({"jsonrpc": self.VERSION, "id": msg_id, "result": future.result()})
                return
            except (TypeError, ValueError, AttributeError) as unwritable:
                error = unwritable
        reply(error_answer(msg_id, error))
