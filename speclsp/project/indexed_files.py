"""The indexed files: each file's content hash and outline, and the tokens of each content.

A content is indexed once for all files that have it: copies and renamed files need no extra memory.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from speclsp.drafting.drafter import TokenArray
from speclsp.drafting.token_index import MAX_TOKEN
from speclsp.errors import SpecLspError, StoreError
from speclsp.project.corpus import Corpus
from speclsp.project.scan import FoundFile, Signature
from speclsp.project.source_text import SourceText, read_source, unmasked
from speclsp.prompt.context.definitions import NameCodes, outline_of
from speclsp.seam.events import LogLevel
from speclsp.secrets.masked_text import masked
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore

_FIRST_FLUSH: Final = 8_192
"""Tokens that a scan collects before it makes the first of them searchable."""
MAX_TOKENS: Final = 20_000_000
"""Tokens in the index of a folder.  Each takes 8 bytes of memory, and 60 while they are sorted
(docs/decisions/project-index.md)."""
_MAX_OUTLINED: Final = 4_000
"""Most outlined files of a folder."""
_MAX_OUTLINED_BYTES: Final = 200_000
"""Larger files are mostly generated and are not outlined."""
_VERSIONS: Final = itertools.count()
"""Versions of outlines.  No two indexes share one: they may hold different files of a folder."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as last read; ``content`` is None if the file is not indexed."""

    signature: Signature
    content: bytes | None


class Outlines(NamedTuple):
    """The outlines of the folder's files: the names that each defines."""

    version: int = -1
    """Changes whenever an outline changes; no other index's outlines have it."""
    by_path: Mapping[str, NameCodes] = {}
    """Keys are relative to the folder and use slashes."""


class IndexedFiles:
    """The files of one folder.  One thread adds and removes them; any thread may query.

    Paths are absolute, as ``root`` is.
    """

    def __init__(
        self,
        root: str,
        tokenize: Callable[[str], TokenArray],
        fingerprint: str,
        settings: Settings,
        open_store: Callable[[], TokenStore] | None,
        log: Callable[[LogLevel, str], None],
    ) -> None:
        """``open_store`` opens the store of tokens at its first use; None for none."""
        self.corpus = Corpus()
        self._root = root
        self._tokenize = tokenize
        self._fingerprint = fingerprint
        self._settings = settings
        self._mask = masked if settings.mask_secrets else unmasked
        self._open_store = open_store
        self._token_store: TokenStore | None = None
        self._log = log
        self._reported_full = False
        # Guards what follows.
        self._lock = threading.Lock()
        self._records: dict[str, FileRecord] = {}
        self._holders: dict[bytes, set[str]] = {}
        """By content: the paths of the files that have it."""
        self._outlines: dict[str, NameCodes] = {}
        self._version = next(_VERSIONS)
        self.open_paths: frozenset[str] = frozenset()

    # --- changes --------------------------------------------------------------------------------

    def take(self, file: FoundFile) -> SourceText | None:
        """Read and outline a file; return its text where it still has to be tokenised."""
        source = read_source(file.path, self._mask)
        self._outline(file, "" if source is None else source.text)
        if source is None or not self._settings.index_project:
            self._record(file, None)
            return None
        content = source.content
        is_there = content in self.corpus or self.corpus.revive(content)
        if not is_there and not self._is_full():
            stored = self._stored(lambda store: store.get(self._fingerprint, content))
            if stored is None:
                return source
            self.corpus.add(content, stored)
            is_there = True
        self._record(file, content if is_there else None)
        return None

    def tokenise(self, file: FoundFile, source: SourceText) -> None:
        """Tokenise a file; it can be searched after the next :meth:`flush`."""
        is_there = source.content in self.corpus
        if not is_there and not self._is_full():
            tokens = self._tokens(source, file.path)
            if tokens is not None:
                self.corpus.add(source.content, tokens)
                is_there = True
        self._record(file, source.content if is_there else None)

    def forget(self, paths: Iterable[str]) -> None:
        """Remove files."""
        for path in paths:
            with self._lock:
                content = self._drop(path)
                self._version = next(_VERSIONS)
                self._outlines.pop(Path(path).relative_to(self._root).as_posix(), None)
            if content is not None:
                self.corpus.remove(content)

    def forget_skipped(self) -> None:
        """Forget the files that are not indexed, so that they are read again."""
        with self._lock:
            self._records = {p: r for p, r in self._records.items() if r.content is not None}

    def is_flush_due(self) -> bool:
        """Whether enough tokens are pending to sort them."""
        return self.corpus.n_pending_tokens >= max(_FIRST_FLUSH, self.corpus.n_tokens)

    def flush(self, pause: Callable[[], None]) -> None:
        """Make all added files searchable and write their tokens to the store."""
        self._hide_open()
        self.corpus.flush(pause)
        self._stored(lambda store: store.flush())

    def note_use(self) -> None:
        """Record in the store which tokens the folder uses, so that they are evicted last."""
        records = list(self._records.values())
        contents = [record.content for record in records if record.content is not None]
        self._stored(lambda store: store.note_use(self._root, self._fingerprint, contents))

    def close(self) -> None:
        """Close the store; it is not used any more."""
        store, self._token_store, self._open_store = self._token_store, None, None
        if store is not None:
            store.close()

    def set_open(self, paths: frozenset[str]) -> None:
        """Set the files open in buffers: the corpus hides their text on disk."""
        self.open_paths = paths
        self._hide_open()

    # --- queries --------------------------------------------------------------------------------

    def has_changed(self, file: FoundFile) -> bool:
        """Whether a file is new or has changed since it was read."""
        record = self._records.get(file.path)
        return record is None or record.signature != file.signature

    def paths(self) -> list[str]:
        """Return the known files."""
        return list(self._records)

    def holds_below(self, path: str) -> bool:
        """Whether known files lie below ``path``."""
        start = path + os.sep
        return any(known.startswith(start) for known in self._records)

    def outlines(self) -> Outlines:
        """Return the outlines."""
        with self._lock:
            return Outlines(self._version, dict(self._outlines))

    def text(self, relative: str) -> str | None:
        """Return the text of an outlined file; None if it can no longer be read."""
        source = read_source(str(Path(self._root, relative)), self._mask)
        return None if source is None else source.text

    @property
    def n_files(self) -> int:
        """Files that are indexed."""
        with self._lock:
            return sum(map(len, self._holders.values()))

    @property
    def n_skipped(self) -> int:
        """Files that were read but are not indexed."""
        with self._lock:
            return sum(record.content is None for record in self._records.values())

    # --- contents -------------------------------------------------------------------------------

    def _drop(self, path: str) -> bytes | None:
        """Forget a file; return its content if no other file has it."""
        record = self._records.pop(path, None)
        if record is None or record.content is None:
            return None
        holders = self._holders[record.content]
        holders.discard(path)
        if holders:
            return None
        del self._holders[record.content]
        return record.content

    def _hide_open(self) -> None:
        """Hide the contents that only open files have."""
        with self._lock:
            opened = (self._records.get(path) for path in self.open_paths)
            contents = {r.content for r in opened if r is not None and r.content is not None}
            self.corpus.hide([c for c in contents if self._holders[c] <= self.open_paths])

    def _record(self, file: FoundFile, content: bytes | None) -> None:
        with self._lock:
            former = self._drop(file.path)
            self._records[file.path] = FileRecord(file.signature, content)
            if content is not None:
                self._holders.setdefault(content, set()).add(file.path)
        if former is not None and former != content:
            self.corpus.remove(former)

    def _outline(self, file: FoundFile, text: str) -> None:
        if file.relative not in self._outlines and len(self._outlines) >= _MAX_OUTLINED:
            return
        is_large = file.signature.n_bytes > _MAX_OUTLINED_BYTES
        outline = None if is_large else outline_of(file.relative, text)
        with self._lock:
            self._version = next(_VERSIONS)
            self._outlines.pop(file.relative, None)
            if outline is not None:
                self._outlines[file.relative] = outline

    def _is_full(self) -> bool:
        n_tokens = self.corpus.n_tokens + self.corpus.n_pending_tokens
        if n_tokens < MAX_TOKENS:
            return False
        if not self._reported_full:
            self._reported_full = True
            text = f"the project index is full at {n_tokens:,} tokens; `exclude` leaves files out"
            self._log("warning", text)
        return True

    def _tokens(self, source: SourceText, path: str) -> TokenArray | None:
        """Tokenise a text and store the tokens; None if it cannot be indexed."""
        try:
            tokens = self._tokenize(source.text)
        except SpecLspError as error:
            self._log("warning", f"{path} cannot be tokenised: {error}")
            return None
        if len(tokens) and int(tokens.max()) > MAX_TOKEN:
            self._log("warning", f"{path} is left out: its token ids are too large")
            return None
        self._stored(lambda store: store.put(self._root, self._fingerprint, source.content, tokens))
        return tokens

    def _stored(self, ask: Callable[[TokenStore], TokenArray | None]) -> TokenArray | None:
        """Use the store; a failing store is reported once and no longer used."""
        if self._open_store is None:
            return None
        try:
            if self._token_store is None:
                self._token_store = self._open_store()
            return ask(self._token_store)
        except StoreError as error:
            self.close()
            self._log("warning", f"tokens are not kept between sessions: {error}")
            return None
