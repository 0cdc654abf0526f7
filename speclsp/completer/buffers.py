"""Open buffers on the engine's side of the seam: their texts, and their tokens for the drafters.

Texts come from any thread; tokens are made by the engine thread only, when it needs them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from speclsp.drafting.buffer_tokens import BufferTokens, Tokenize
from speclsp.drafting.protocol import TokenArray
from speclsp.request import Document
from speclsp.workspace.secrets import is_secret_path

MAX_OTHER_BUFFERS = 16
"""Other open buffers that one request's drafters look at, the most recently used first."""
MAX_KEPT = 32
"""Buffers whose tokens are kept; the least recently used beyond that are made again."""


class OpenBuffers:
    """The open documents, by URI, the most recently used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[int | None, BufferTokens]] = OrderedDict()

    def put(self, document: Document) -> None:
        """Take an opened or changed document."""
        with self._lock:
            self._documents[document.uri] = document
            self._documents.move_to_end(document.uri)

    def remove(self, uri: str) -> None:
        """Forget a closed document."""
        with self._lock:
            self._documents.pop(uri, None)

    def get(self, uri: str) -> Document | None:
        """Return an open document."""
        with self._lock:
            return self._documents.get(uri)

    def documents(self) -> list[Document]:
        """Return the open documents, the most recently used first."""
        with self._lock:
            return list(reversed(self._documents.values()))

    # What follows belongs to the engine thread.

    def forget_tokens(self) -> None:
        """Drop all tokens: the vocabulary changed."""
        self._tokens.clear()

    def tokens_of_request(self, uri: str, text: str, tokenize: Tokenize) -> BufferTokens:
        """Return the buffer at ``uri`` with the text that a request says it has."""
        buffer = self._buffer(uri, None, tokenize)
        buffer.update(text)
        return buffer

    def warm(self, uri: str, tokenize: Tokenize) -> None:
        """Make the tokens of an open document ahead of the request that needs them."""
        document = self.get(uri)
        if document is not None:
            self._tokens_of(document, tokenize)

    def others(self, uri: str, tokenize: Tokenize) -> tuple[TokenArray, ...]:
        """Return the tokens of the other open buffers, the most recently used first.

        Buffers that look like secrets are left out.
        """
        others = [d for d in self.documents() if d.uri != uri and not is_secret_path(d.path)]
        return tuple(self._tokens_of(document, tokenize) for document in others[:MAX_OTHER_BUFFERS])

    def _tokens_of(self, document: Document, tokenize: Tokenize) -> TokenArray:
        known = self._tokens.get(document.uri)
        if known is not None and known[0] == document.version:
            return known[1].tokens()
        buffer = self._buffer(document.uri, document.version, tokenize)
        buffer.update(document.text)
        return buffer.tokens()

    def _buffer(self, uri: str, version: int | None, tokenize: Tokenize) -> BufferTokens:
        known = self._tokens.pop(uri, None)
        buffer = known[1] if known is not None else BufferTokens(tokenize)
        self._tokens[uri] = (version, buffer)
        while len(self._tokens) > MAX_KEPT:
            self._tokens.popitem(last=False)
        return buffer
