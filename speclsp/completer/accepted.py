"""What the user accepted: kept per workspace, and drafted from like any other text."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.drafting.protocol import EMPTY_TOKENS, TokenArray
from speclsp.engine.models import Tokenizer
from speclsp.request import AcceptedText
from speclsp.secrets.masked_text import holds_secret
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore

MAX_TEXTS = 500
"""Accepted texts per workspace that are drafted from."""


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
        self._n_taken = itertools.count()
        self._store = KeptStore(
            AcceptedStore.open, events, what="accepted completions are", persist=settings.persist
        )
        self._tokenizer: Tokenizer | None = None
        self._texts: dict[str, list[str]] = {}
        self._tokens: dict[str, TokenArray] = {}

    def take(self, accepted: AcceptedText) -> None:
        """Keep a text; those that may be secret are not kept."""
        before, text, path = accepted.before, accepted.text, accepted.path
        if not text.strip() or is_secret_path(path):
            return
        if self._settings.mask_secrets and holds_secret(before + text, path):
            return
        root = self._root_of(accepted.file)
        self._count(root, before, text)
        self._later(f"accepted {next(self._n_taken)}", lambda: self._add(root, path, before + text))

    # The engine thread runs what follows.

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Tokenise with another vocabulary from now on."""
        self._tokenizer = tokenizer
        self._tokens.clear()

    def tokens(self, file: str) -> tuple[TokenArray, ...]:
        """Return the tokens of what was accepted in a file's workspace."""
        root = self._root_of(file)
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
