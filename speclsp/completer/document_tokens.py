"""The tokens of the open documents, for the drafters.

Large documents are tokenised in pieces, so that no request waits for that; the drafters see the
tokens made so far.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from speclsp.completer.deleted_texts import DeletedTexts
from speclsp.drafting.buffer_tokens import BufferTokens, Tokenize
from speclsp.drafting.drafter import EMPTY_TOKENS, TokenArray
from speclsp.seam.documents import Document
from speclsp.seam.open_documents import Documents
from speclsp.seam.request import AnyPlaced
from speclsp.secrets.paths import is_secret_path

MAX_OTHER_DOCUMENTS = 16
"""Maximum other open documents of one request, the most recently used first."""
MAX_OTHER_TOKENS = 200_000
"""Maximum tokens of other open documents of one request."""
MAX_KEPT = 32
"""Maximum documents whose tokens are kept; others are tokenised again."""
MAX_TEXTS = 64
"""Maximum other texts whose tokens are kept."""
MAX_CHARS = 400_000
"""Of a larger document the drafters see this many characters around the cursor; of larger other
documents nothing."""
PIECE_CHARS = 32_768
"""Characters that are tokenised at a time, in about 20 ms."""
_GRID_CHARS = 65_536
"""Step in which the visible part of a large document moves, so that its tokens can be reused."""
_NEAR_CHARS = 4_096
"""Characters before the cursor that are tokenised at once while the document's are not ready."""


@dataclass(slots=True)
class _Entry:
    buffer: BufferTokens
    document: Document | None = None
    """The document whose tokens ``buffer`` holds; None where they are not complete."""


class DocumentTokens:
    """Tokens by document, for the engine thread."""

    def __init__(self, documents: Documents, is_ignored: Callable[[str], bool]) -> None:
        """``is_ignored`` takes a file's absolute path."""
        self._documents = documents
        self._is_ignored = is_ignored
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._texts: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.deleted = DeletedTexts(self._may_serve_others)

    def forget(self) -> None:
        """Drop all tokens: the vocabulary changed."""
        self._entries.clear()
        self._texts.clear()
        self.deleted.forget_tokens()

    def forget_texts(self) -> None:
        """Drop what is kept of texts that no document has any more."""
        self.deleted.forget()
        self._texts.clear()

    def kept(self, key: str, make: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """Return the tokens of a text of no document, which ``key`` holds, made once."""
        tokens = self._texts.pop(key, None) or make()
        self._texts[key] = tokens
        while len(self._texts) > MAX_TEXTS:
            self._texts.popitem(last=False)
        return tokens

    def around(
        self, request: AnyPlaced, n_held_back: int, tokenize: Tokenize
    ) -> tuple[TokenArray, TokenArray]:
        """Return the tokens before the cursor and after it.

        Those before leave out the last ``n_held_back`` characters.
        """
        start, text = _seen_part(request)
        key = request.uri
        if request.plain.above or request.plain.below:
            # The cells of a notebook together.  Each cell alone keeps its own tokens.
            first = request.plain.above[0][0] if request.plain.above else request.uri
            key = _notebook_key(first)
        entry = self._entry(key, tokenize)
        document = self._documents.get(key)
        is_all = entry.buffer.update(text, PIECE_CHARS)
        is_current = is_all and document is not None and document.text == text
        entry.document = document if is_current else None
        cursor = request.cursor - start
        if entry.buffer.n_chars < cursor:
            end = request.cursor - n_held_back
            near = request.text[max(0, end - _NEAR_CHARS) : end]
            return tokenize(near.partition("\n")[2] or near), EMPTY_TOKENS
        return entry.buffer.before(cursor - n_held_back), entry.buffer.after(cursor)

    def warm(self, uri: str, tokenize: Tokenize) -> bool:
        """Tokenise a piece of an open document; return whether all of it is tokenised."""
        self.deleted.tokens(tokenize)
        document = self._documents.get(uri)
        if document is None:
            self._entries.pop(uri, None)
            self._entries.pop(_notebook_key(uri), None)
            return True
        return len(document.text) > MAX_CHARS or self._is_made(document, tokenize)

    def others(self, request: AnyPlaced, tokenize: Tokenize) -> tuple[TokenArray, ...]:
        """Return the tokens of other open documents that are ready, the latest used first.

        Ignored files, files with secret names and the notebook's own cells are left out.
        """
        own = {request.uri, *(uri for uri, _ in (*request.plain.above, *request.plain.below))}
        documents = (d for d in self._documents.newest() if d.uri not in own)
        tokens: list[TokenArray] = []
        n_left = MAX_OTHER_TOKENS
        for document in islice(documents, MAX_OTHER_DOCUMENTS):
            if not self._may_serve_others(document):
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

    def _may_serve_others(self, document: Document) -> bool:
        return not is_secret_path(document.path, document.file) and not self._is_ignored(
            document.file
        )

    def _is_made(self, document: Document, tokenize: Tokenize) -> bool:
        """Tokenise a piece of a document; return whether all of it is tokenised."""
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


def _notebook_key(first_cell: str) -> str:
    return f"notebook of {first_cell}"


def _seen_part(request: AnyPlaced) -> tuple[int, str]:
    """Return where the visible part of a document starts, and that part."""
    text, cursor = request.text, request.cursor
    if len(text) <= MAX_CHARS:
        return 0, text
    start = max(0, cursor - MAX_CHARS // 2) // _GRID_CHARS * _GRID_CHARS
    end = ((cursor + MAX_CHARS // 2) // _GRID_CHARS + 1) * _GRID_CHARS
    return start, text[start:end]
