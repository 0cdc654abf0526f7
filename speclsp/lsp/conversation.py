"""One client's conversation, whatever carries its bytes."""

from __future__ import annotations

import asyncio

from speclsp.lsp.error_codes import PARSE_ERROR
from speclsp.lsp.framing import FrameDecoder, FramingProblem
from speclsp.lsp.protocol import MessageWriter
from speclsp.lsp.server import SpecLanguageServer


class Conversation:
    """Takes what a client sends, and ends when it says exit or is gone."""

    def __init__(self, server: SpecLanguageServer, writer: MessageWriter) -> None:
        self._protocol = server.protocol
        self._session = server.session
        self._decoder = FrameDecoder()
        self._gone = asyncio.Event()
        self._protocol.connect(writer)

    def feed(self, data: bytes) -> None:
        """Take bytes of a framed stream."""
        for piece in self._decoder.feed(data):
            if isinstance(piece, FramingProblem):
                self._protocol.refuse(None, PARSE_ERROR, piece.reason)
            else:
                self.take(piece)

    def take(self, body: bytes) -> None:
        """Take one message; after exit there are none."""
        self._session.heard()
        if not self._protocol.exited.is_set():
            self._protocol.receive(body)

    def hang_up(self) -> None:
        """Note that the client is gone."""
        self._gone.set()

    async def until_over(self) -> bool:
        """Wait until the client says exit or is gone.

        False where it left without a word of LSP, as one does that only tries whether the port
        is open: the next one may be the real client.
        """
        ends = [
            asyncio.create_task(self._protocol.exited.wait()),
            asyncio.create_task(self._gone.wait()),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        return self.has_begun

    @property
    def has_begun(self) -> bool:
        """Whether the client has said a word of LSP."""
        return self._protocol.initialized or self._protocol.exited.is_set()

    async def close(self) -> int:
        """Close the session and return the process's exit code.

        That is 0 where the client had asked to shut down, and 1 where it left without.
        """
        self._protocol.cancel_requests()
        await self._session.close()
        return 0 if self._protocol.shutdown_requested else 1
