"""What the user accepted: kept per workspace, and drafted from like any other text."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.completer.private_text import may_be_learned
from speclsp.drafting.protocol import EMPTY_TOKENS, TokenArray
from speclsp.engine.models import Tokenizer
from speclsp.request import CompletionRequest
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore

MAX_REMEMBERED = 256
"""Completions whose later acceptances are known to be of the same text."""
MAX_TEXTS = 500
"""Accepted texts per workspace that are drafted from."""
CONTEXT_LINES = 2
"""Lines before the cursor that are kept with an accepted text: what a later draft matches on."""


@dataclass(frozen=True, slots=True)
class _Taken:
    completion_id: str
    request: CompletionRequest
    text: str


class AcceptedTexts:
    """Accepted completions.  Everything slow is left to ``later``, which runs it when idle.

    ``count`` gets each one too: the workspace, the text before it and the text.
    """

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        *,
        root_of: Callable[[str], str],
        later: Callable[[str, Callable[[], None]], None],
        count: Callable[[str, str, str], None],
    ) -> None:
        self._root_of = root_of
        self._later = later
        self._count = count
        self._settings = settings
        self._lock = threading.Lock()
        self._in_part: _Taken | None = None
        self._learned: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._store = KeptStore(
            AcceptedStore.open, events, what="accepted completions are", persist=settings.persist
        )
        self._tokenizer: Tokenizer | None = None
        self._texts: dict[str, list[str]] = {}
        self._tokens: dict[str, TokenArray] = {}

    def take(self, completion_id: str, request: CompletionRequest, text: str) -> None:
        """Note that ``text`` was accepted at the request's cursor, all that was suggested.

        A second time of the same completion changes nothing.
        """
        with self._lock:
            if self._in_part is not None and self._in_part.completion_id == completion_id:
                self._in_part = None
            self._learn(_Taken(completion_id, request, text))

    def take_part(self, completion_id: str, request: CompletionRequest, text: str) -> None:
        """Note that ``text`` was accepted, the first part of what was suggested.

        It is learned when no more of it can come: with the next completion that is accepted.
        """
        with self._lock:
            if self._in_part is not None and self._in_part.completion_id != completion_id:
                self._learn(self._in_part)
            self._in_part = _Taken(completion_id, request, text)

    def flush(self) -> None:
        """Learn what was accepted in part so far."""
        with self._lock:
            if self._in_part is not None:
                self._learn(self._in_part)
                self._in_part = None

    def _learn(self, taken: _Taken) -> None:
        """Keep a text; a secret file's never is."""
        request, text = taken.request, taken.text
        if taken.completion_id in self._learned:
            return
        self._learned.append(taken.completion_id)
        if not text.strip() or is_secret_path(request.path):
            return
        root = self._root_of(request.file)
        before = "".join(request.prefix.splitlines(keepends=True)[-CONTEXT_LINES:])
        if not may_be_learned(self._settings, before, text, request.path):
            return
        self._count(root, before, text)
        learned = before + text
        self._later(
            f"accepted {taken.completion_id}", lambda: self._add(root, request.path, learned)
        )

    # The engine thread runs what follows.

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Tokenise with another vocabulary from now on."""
        self._tokenizer = tokenizer
        self._tokens.clear()

    def tokens(self, request: CompletionRequest) -> tuple[TokenArray, ...]:
        """Return the tokens of what was accepted in the request's workspace, newest first."""
        root = self._root_of(request.file)
        if root not in self._tokens:
            self._texts.setdefault(root, self._load(root))
            parts = [self._tokenize(text) for text in self._texts[root]]
            self._tokens[root] = np.concatenate([EMPTY_TOKENS, *parts])
        tokens = self._tokens[root]
        return (tokens,) if tokens.size else ()

    def close(self) -> None:
        """Close the store; the engine thread has ended."""
        self._store.close()

    def _add(self, root: str, path: str, text: str) -> None:
        texts = self._texts.setdefault(root, self._load(root))
        texts.append(text)
        del texts[:-MAX_TEXTS]
        self._tokens.pop(root, None)  # joined again by the next request
        self._store.use(lambda store: store.append(root, path, text), otherwise=None)

    def _load(self, root: str) -> list[str]:
        return self._store.use(lambda store: store.recent(root, MAX_TEXTS), otherwise=[])

    def _tokenize(self, text: str) -> TokenArray:
        assert self._tokenizer is not None
        return self._tokenizer.vocabulary.tokenize(text)
