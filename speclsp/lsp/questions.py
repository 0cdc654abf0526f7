"""What the client was asked and has not answered yet."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any

from pygls.exceptions import JsonRpcException

from speclsp.lsp.error_codes import INTERNAL_ERROR

logger = logging.getLogger(__name__)


class OpenQuestions:
    """The server's own requests by id, apart from the client's, whose ids it cannot choose."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[Any]] = {}
        self._next_idx = itertools.count(1)

    def new(self) -> tuple[str, asyncio.Future[Any]]:
        """Return a new id, and the future that is going to hold the raw JSON result."""
        msg_id = f"speclsp-{next(self._next_idx)}"
        future = asyncio.get_running_loop().create_future()
        self._open[msg_id] = future
        future.add_done_callback(lambda _: self._open.pop(msg_id, None))
        return msg_id, future

    def take_answer(self, message: Mapping[str, Any]) -> None:
        """Give an answer to who asked; one that nobody waits for is dropped."""
        msg_id = message.get("id")
        future = self._open.get(msg_id) if isinstance(msg_id, str) else None
        if future is None or future.done():
            logger.debug("ignored an answer to %r", msg_id)
            return
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
            return
        detail = error if isinstance(error, dict) else {"message": error}
        code = detail.get("code")
        future.set_exception(
            JsonRpcException(
                message=str(detail.get("message")),
                code=code if isinstance(code, int) else INTERNAL_ERROR,
            )
        )

    def cancel(self) -> None:
        """Wait for no answer any more."""
        for future in tuple(self._open.values()):
            future.cancel()
