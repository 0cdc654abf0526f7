"""LSP on top of JSON-RPC: its life cycle, its types, and the server's own requests.

pygls's handlers of documents and folders are not registered: its workspace splits lines where LSP
does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import JsonRPCRequestMessage, LanguageServerProtocol

from speclsp.lsp.capabilities import InitializeParams, initialize_params
from speclsp.lsp.converter import structure_params
from speclsp.lsp.own_methods import OWN_METHODS
from speclsp.rpc.connection import JsonRpcConnection

logger = logging.getLogger(__name__)


class SpecProtocol(JsonRpcConnection, LanguageServerProtocol):
    """One editor's connection."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self._initialized = False
        self._shutdown_announced = False
        self.note_arrival: Callable[[Any], None] = lambda _: None
        """Called with the params of each request on its arrival, in its handler's context."""
        self.fm.builtin_features.clear()
        self.fm.add_builtin_feature(types.INITIALIZE, self.lsp_initialize)
        self.fm.add_builtin_feature(types.SHUTDOWN, self.lsp_shutdown)
        self.fm.add_builtin_feature(types.EXIT, self.lsp_exit)

    def begin(self, request: JsonRPCRequestMessage) -> None:
        """Note the request's arrival, and call its handler."""
        self.note_arrival(request.params)
        super().begin(request)

    # --- checks ---------------------------------------------------------------------------------

    def check_request(self, method: str) -> None:
        """Raise JsonRpcException unless ``initialize`` comes first, and once."""
        if not self._initialized and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized("not initialized yet")
        if self._initialized and method == types.INITIALIZE:
            raise JsonRpcInvalidRequest("initialized already")

    def is_request(self, method: str) -> bool:
        """Return whether a method is a request."""
        if method in OWN_METHODS:
            return OWN_METHODS[method].is_request
        known = types.METHOD_TO_TYPES.get(method)
        return known is None or known[1] is not None

    def accepts_notification(self, method: str) -> bool:
        """Return whether a notification is handled in the present state."""
        if method == types.EXIT:
            return True
        if self.shutting_down or not self._initialized:
            logger.debug("dropped %s: not between initialize and shutdown", method)
            return False
        if method == types.SHUTDOWN:
            # Kate sends it without an id, waits for no answer, and sends exit next.
            self._shutdown_announced = True
            return False
        is_known = method in types.METHOD_TO_TYPES or method in OWN_METHODS
        if is_known and self.is_request(method):
            logger.warning("dropped %s: a request without an id", method)
            return False
        return True

    def structure_params(self, method: str, params: Any) -> Any:
        """Return params as lsprotocol's type, or as ours.  Raises JsonRpcInvalidParams."""
        if method == types.INITIALIZE:
            try:
                return initialize_params(params)
            except msgspec.ValidationError as error:
                raise JsonRpcInvalidParams(f"{method}: {error}") from error
        if method in OWN_METHODS:
            params_class: Any = OWN_METHODS[method].params
        else:
            known = types.METHOD_TO_TYPES.get(method)
            params_class = None if known is None else known[2]
        if params_class is None:
            return params
        if params is None and method == types.INITIALIZED:
            params = {}  # some clients leave out the empty object
        return structure_params(self.fm.converter, method, params, params_class)

    # --- the server's own requests --------------------------------------------------------------

    def ask(self, method: str, params: Any) -> asyncio.Future[Any]:
        """Send a request to the client; the future holds the raw JSON result.

        It raises JsonRpcException if the client answers with an error.
        """
        future: asyncio.Future[Any] = self.send_request_async(method, params)
        return future

    def receive_answer(self, message: dict[str, Any]) -> None:
        """Resolve the future of a request of ours; other answers are ignored."""
        msg_id = message.get("id")
        # pygls keeps the requests of both sides in one table, but result types of ours only.
        if not isinstance(msg_id, str) or msg_id not in self._result_types:
            super().receive_answer(message)
            return
        del self._result_types[msg_id]
        future = self._request_futures.pop(msg_id)
        if not future.set_running_or_notify_cancel():
            return
        if (error := message.get("error")) is None:
            future.set_result(message.get("result"))
            return
        detail = error if isinstance(error, dict) else {"message": error}
        code = detail.get("code")
        told = types.ResponseError(
            code=code if isinstance(code, int) else JsonRpcInternalError.CODE,
            message=str(detail.get("message")),
        )
        future.set_exception(JsonRpcException.from_error(told))

    # --- life cycle -----------------------------------------------------------------------------

    def lsp_initialize(  # type: ignore[override]  # pygls's is a generator
        self, params: InitializeParams
    ) -> dict[str, Any]:
        """Take the client's folders and settings, and return the server's capabilities."""
        result: dict[str, Any] = self.fm.features[types.INITIALIZE](params)
        self._initialized = True
        return result

    async def lsp_shutdown(self, *_: Any) -> None:  # type: ignore[override]  # as above
        """Cancel the open requests, then close the session."""
        self.cancel_requests(but=self.msg_id)
        await self.fm.features[types.SHUTDOWN](None)

    def lsp_exit(self, *_: Any) -> None:  # type: ignore[override]  # as above
        """End the connection."""
        self.exit()

    async def close(self) -> int:
        """Close the session; return 0 if the client has asked to shut down, else 1."""
        self.cancel_requests()
        await self.fm.features[types.SHUTDOWN](None)
        return 0 if self.shutting_down or self._shutdown_announced else 1
