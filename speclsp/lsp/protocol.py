"""Messages in and out: the server's side of JSON-RPC and of LSP's life cycle.

pygls dispatches and serialises; what it leaves open is settled here.  Every request gets exactly
one answer: malformed ones an error with the field named, those before ``initialize`` or after
``shutdown`` the code that LSP has for them, cancelled and superseded ones RequestCancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound
from pygls.protocol import LanguageServerProtocol, lsp_method

from speclsp.lsp.converter import structure_params
from speclsp.lsp.error_codes import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    SERVER_NOT_INITIALIZED,
)
from speclsp.lsp.execute_command import COMMANDS
from speclsp.lsp.message_json import read_message
from speclsp.lsp.notebooks import NOTEBOOK_SYNC
from speclsp.lsp.questions import OpenQuestions

if TYPE_CHECKING:
    from cattrs import Converter
    from pygls.lsp.server import LanguageServer

logger = logging.getLogger(__name__)

_OWN_METHODS = frozenset(
    {
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CHANGE,
        types.TEXT_DOCUMENT_DID_CLOSE,
        types.NOTEBOOK_DOCUMENT_DID_OPEN,
        types.NOTEBOOK_DOCUMENT_DID_CHANGE,
        types.NOTEBOOK_DOCUMENT_DID_CLOSE,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
        types.WORKSPACE_EXECUTE_COMMAND,
    }
)
"""pygls' built-in ones keep a workspace of its own, which splits lines where LSP does not."""


class MessageWriter(Protocol):
    """Where messages go; ``send`` never blocks and never raises."""

    def send(self, body: bytes) -> None:
        """Send one message, unframed."""


class SpecProtocol(LanguageServerProtocol):
    """One client's connection."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        self._shutdown_announced = False
        self._initialized = False  # pygls reads every property while it looks for methods
        super().__init__(server, converter)
        for method in _OWN_METHODS:
            self.fm.builtin_features.pop(method, None)
        self._out: MessageWriter | None = None
        self._questions = OpenQuestions()
        self.exited = asyncio.Event()
        """Set by the exit notification."""

    @property
    def shutdown_requested(self) -> bool:
        """Whether the client has asked to shut down, be it without waiting for an answer."""
        return self._shutdown or self._shutdown_announced

    @property
    def initialized(self) -> bool:
        """Whether initialize was answered with success."""
        return self._initialized

    def connect(self, writer: MessageWriter) -> None:
        """Send everything from now on to ``writer``."""
        self._out = writer

    # --- in -------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> None:
        """Take one message.  Whatever it is, it does not raise."""
        try:
            message = read_message(body)
        except (ValueError, RecursionError) as error:
            self.refuse(None, PARSE_ERROR, f"not JSON: {error}")
            return
        if not isinstance(message, dict):
            self.refuse(None, INVALID_REQUEST, "a message is one JSON object; LSP has no batches")
        elif "method" not in message and ("result" in message or "error" in message):
            self._questions.take_answer(message)
        elif "id" in message:
            self._take_request(message)
        else:
            self._take_notification(message)

    def refuse(self, msg_id: str | int | None, code: int, reason: str) -> None:
        """Answer a message with an error."""
        logger.warning("refused a message: %s", reason)
        error = {"code": code, "message": reason}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "error": error})

    def _take_request(self, message: dict[str, Any]) -> None:
        msg_id, method = message["id"], message.get("method")
        if isinstance(msg_id, bool) or not isinstance(msg_id, (int, str)):
            self.refuse(None, INVALID_REQUEST, "id must be a number or a string")
        elif not isinstance(method, str):
            self.refuse(msg_id, INVALID_REQUEST, "method must be a string")
        elif message.get("jsonrpc") != self.VERSION:
            self.refuse(msg_id, INVALID_REQUEST, f"jsonrpc must be {self.VERSION!r}")
        elif self._shutdown:
            self.refuse(msg_id, INVALID_REQUEST, "the server is shutting down")
        elif self._initialized == (method == types.INITIALIZE):
            code = INVALID_REQUEST if self._initialized else SERVER_NOT_INITIALIZED
            reason = "initialized already" if self._initialized else "not initialized yet"
            self.refuse(msg_id, code, reason)
        elif msg_id in self._request_futures:
            self.refuse(msg_id, INVALID_REQUEST, f"a request with id {msg_id!r} is still open")
        else:
            self._dispatch_request(msg_id, method, message.get("params"))

    def _dispatch_request(self, msg_id: int | str, method: str, params: Any) -> None:
        try:
            self._get_handler(method)
        except JsonRpcMethodNotFound:
            self.refuse(msg_id, METHOD_NOT_FOUND, f"unknown method {method!r}")
            return
        if _has_answer(method) is False:
            self.refuse(msg_id, INVALID_REQUEST, f"{method} is a notification and takes no id")
            return
        try:
            structured = self._structured(method, params)
        except ValueError as error:
            self.refuse(msg_id, INVALID_PARAMS, f"{method}: {error}")
            return
        # Here, not in its handler: a task starts later, and what comes next must be refused.
        self._shutdown = method == types.SHUTDOWN
        # Each handler runs in a context of its own, which holds the request's id.
        contextvars.copy_context().run(self._handle_request, msg_id, method, structured)

    def _take_notification(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if not isinstance(method, str):
            self.refuse(None, INVALID_REQUEST, "method must be a string")
            return
        too_late = self._shutdown and method != types.EXIT
        if too_late or not (self._initialized or method == types.EXIT):
            logger.debug("dropped %s: not between initialize and shutdown", method)
            return
        if method == types.SHUTDOWN:
            # Kate sends it so, waits for no answer, and goes on with exit.
            self._shutdown_announced = True
            return
        if _has_answer(method):
            logger.warning("dropped %s: a request without an id", method)
            return
        try:
            if method != types.CANCEL_REQUEST:
                self._get_handler(method)
            params = self._structured(method, message.get("params"))
        except JsonRpcMethodNotFound:
            logger.debug("ignored %s", method)
        except ValueError as error:
            logger.warning("dropped %s: %s", method, error)
        else:
            contextvars.copy_context().run(self._handle_notification, method, params)

    def _structured(self, method: str, params: Any) -> Any:
        known = types.METHOD_TO_TYPES.get(method)
        if known is None or known[2] is None:
            return params
        if params is None and method == types.INITIALIZED:
            params = {}  # some clients leave out the empty object
        return structure_params(self._converter, params, known[2])

    def _handle_cancel_notification(self, msg_id: int | str) -> None:
        # A cancel often comes when the answer is on its way already.
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.cancel()

    # --- out ------------------------------------------------------------------------------------

    def _send_data(self, data: Any) -> None:
        if self._out is not None:
            body = json.dumps(data, default=self._serialize_message, separators=(",", ":"))
            self._out.send(body.encode(self.CHARSET))

    def _send_handler_result(self, future: Future[Any], *, msg_id: int | str) -> None:
        self._request_futures.pop(msg_id, None)
        if future.cancelled():
            self._answer_error(msg_id, REQUEST_CANCELLED, "cancelled")
            return
        error = future.exception()
        if error is None:
            try:
                self._send_response(msg_id, result=future.result())
                return
            except (TypeError, ValueError, AttributeError) as unwritable:
                error = unwritable
        if isinstance(error, JsonRpcException):
            self._answer_error(msg_id, error.code, error.message)
            return
        logger.error("request %r failed", msg_id, exc_info=error)
        self._answer_error(msg_id, INTERNAL_ERROR, f"{type(error).__name__}: {error}")

    def _answer_error(self, msg_id: int | str, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "error": error})

    def ask(self, method: str, params: Any) -> asyncio.Future[Any]:
        """Send a request to the client; the future holds the raw JSON result.

        It raises JsonRpcException where the client answers with an error.
        """
        msg_id, future = self._questions.new()
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "method": method, "params": params})
        return future

    # --- life cycle -----------------------------------------------------------------------------

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(
        self, params: types.InitializeParams
    ) -> Generator[Any, Any, types.InitializeResult]:
        """Settle the position encoding and the capabilities."""
        self.client_capabilities = params.capabilities
        encoding = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
        yield self.fm.features[types.INITIALIZE], (params, str(_value(encoding))), None
        builder = ServerCapabilitiesBuilder(
            self.client_capabilities,
            {*self.fm.features, *self.fm.builtin_features},
            self.fm.feature_options,
            list(COMMANDS),
            types.TextDocumentSyncKind.Incremental,
            NOTEBOOK_SYNC,
            encoding,
        )
        self.server_capabilities = builder.build()  # type: ignore[no-untyped-call]  # pygls' own
        if _has_inline_completion(params.capabilities):
            # Both at once would have the engine supersede the one by the other.
            self.server_capabilities.completion_provider = None
        self._initialized = True
        return types.InitializeResult(
            capabilities=self.server_capabilities, server_info=self.server_info
        )

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """Cancel the open requests, then run the server's own handler."""
        self.cancel_requests(but=self.msg_id)
        yield self.fm.features[types.SHUTDOWN], args, None

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: Any) -> None:  # type: ignore[override]  # and plain functions
        """Let the transport end."""
        self.exited.set()

    def cancel_requests(self, *, but: int | str | None = None) -> None:
        """Cancel what is open on either side, apart from one request of the client."""
        for msg_id, future in tuple(self._request_futures.items()):
            if msg_id != but:
                future.cancel()
        self._questions.cancel()


def _has_answer(method: str) -> bool | None:
    """Whether LSP makes a method a request; None where LSP does not know it."""
    known = types.METHOD_TO_TYPES.get(method)
    return None if known is None else known[1] is not None


def _has_inline_completion(capabilities: types.ClientCapabilities) -> bool:
    return (
        capabilities.text_document is not None
        and capabilities.text_document.inline_completion is not None
    )


def _value(encoding: types.PositionEncodingKind | str) -> str:
    return encoding.value if isinstance(encoding, types.PositionEncodingKind) else encoding
