"""Open buffers on the engine's side of the seam: their texts, and their tokens for the drafters.

Texts come from any thread; tokens are made by the engine thread only.  It makes them in pieces:
neither a request nor those behind it wait until a large buffer is tokenised, and until it is, the
drafters see what there is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from speclsp.drafting.buffer_tokens import BufferTokens, Tokenize
from speclsp.drafting.protocol import EMPTY_TOKENS, TokenArray
from speclsp.request import Document
from speclsp.secrets.paths import is_secret_path

MAX_OTHER_BUFFERS = 16
"""Other open buffers that one request's drafters look at, the most recently used first."""
MAX_OTHER_TOKENS = 200_000
"""Tokens of other open buffers that one request's drafters look at."""
MAX_KEPT = 32
"""Buffers whose tokens are kept; the least recently used beyond that are made again."""
MAX_BUFFER_CHARS = 400_000
"""Of a larger buffer the drafters see this much around the cursor, and of others nothing."""
PIECE_CHARS = 32_768
"""Text that is tokenised at a time, in about 20 ms."""
_GRID_CHARS = 65_536
"""The part of a large buffer that is seen moves in such steps, so that its tokens last."""
_NEAR_CHARS = 4_096
"""Text before the cursor that is tokenised at once while the buffer's tokens are being made."""


@dataclass(slots=True)
class _Entry:
    buffer: BufferTokens
    document: Document | None = None
    """What ``buffer`` holds the tokens of, where that is all of an open document."""


class OpenBuffers:
    """The open documents, by URI, the most recently used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def put(self, document: Document) -> None:
        """Take an opened or changed document."""
        with self._lock:
            self._documents[document.uri] = document
            self._documents.move_to_end(document.uri)

    def remove(self, uri: str) -> Document | None:
        """Forget a closed document, and return it."""
        with self._lock:
            return self._documents.pop(uri, None)

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
        self._entries.clear()

    def around(
        self, uri: str, prefix: str, suffix: str, n_held_back: int, tokenize: Tokenize
    ) -> tuple[TokenArray, TokenArray]:
        """Return the tokens before the cursor and after it.

        Those before leave out the last ``n_held_back`` characters.
        """
        start, text = _seen_part(prefix, suffix)
        entry = self._entry(uri, tokenize)
        document = self.get(uri)
        is_all = entry.buffer.update(text, PIECE_CHARS)
        is_current = is_all and document is not None and document.text == text
        entry.document = document if is_current else None
        cursor = len(prefix) - start
        if entry.buffer.n_chars < cursor:
            near = prefix[: len(prefix) - n_held_back][-_NEAR_CHARS:]
            return tokenize(near.partition("\n")[2] or near), EMPTY_TOKENS
        before, _ = entry.buffer.split(cursor - n_held_back)
        _, after = entry.buffer.split(cursor)
        return before, after

    def warm(self, uri: str, tokenize: Tokenize) -> bool:
        """Make a piece of the tokens of an open document ahead; returns whether all are there."""
        document = self.get(uri)
        if document is None:
            self._entries.pop(uri, None)
            return True
        return len(document.text) > MAX_BUFFER_CHARS or self._is_made(document, tokenize)

    def others(self, uri: str, tokenize: Tokenize) -> tuple[TokenArray, ...]:
        """Return the tokens of other open buffers that are there, the most recently used first.

        Buffers that look like secrets are left out.
        """
        tokens: list[TokenArray] = []
        n_left = MAX_OTHER_TOKENS
        for document in self.documents()[: MAX_OTHER_BUFFERS + 1]:
            if document.uri == uri or is_secret_path(document.path):
                continue
            entry = self._entries.get(document.uri)
            is_small = len(document.text) <= PIECE_CHARS
            if (entry is None or entry.document is not document) and not (
                is_small and self._is_made(document, tokenize)
            ):
                continue
            of_document = self._entries[document.uri].buffer.tokens()
            if of_document.size <= n_left:
                tokens.append(of_document)
                n_left -= of_document.size
        return tuple(tokens)

    def _is_made(self, document: Document, tokenize: Tokenize) -> bool:
        """Make a piece of a document's tokens; whether all are there."""
        entry = self._entry(document.uri, tokenize)
        if entry.document is document:
            return True
        if not entry.buffer.update(document.text, PIECE_CHARS):
            return False
        entry.document = document
        return True

    def _entry(self, uri: str, tokenize: Tokenize) -> _Entry:
        entry = self._entries.pop(uri, None) or _Entry(BufferTokens(tokenize))
        self._entries[uri] = entry
        while len(self._entries) > MAX_KEPT:
            self._entries.popitem(last=False)
        return entry


def _seen_part(prefix: str, suffix: str) -> tuple[int, str]:
    """Return the buffer's text, or the part around the cursor of a large one, and its start."""
    n_chars = len(prefix) + len(suffix)
    if n_chars <= MAX_BUFFER_CHARS:
        return 0, prefix + suffix
    cursor = len(prefix)
    start = max(0, cursor - MAX_BUFFER_CHARS // 2) // _GRID_CHARS * _GRID_CHARS
    end = ((cursor + MAX_BUFFER_CHARS // 2) // _GRID_CHARS + 1) * _GRID_CHARS
    return start, prefix[start:] + suffix[: end - cursor]
