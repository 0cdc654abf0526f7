"""Turns files into tokens and tokens into a corpus; knows no threads, and no folders' rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from speclsp.drafting.corpus import SegmentedCorpus
from speclsp.drafting.corpus_builder import CorpusBuilder
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.segment import MAX_TOKEN
from speclsp.errors import SpecLspError, StoreError
from speclsp.index_store.token_store import TokenStore
from speclsp.request import LogLevel
from speclsp.workspace.file_table import FileRecord, FileTable
from speclsp.workspace.scan import FoundFile
from speclsp.workspace.source_text import SourceText, read_source

MAX_TOKENS: Final = 20_000_000
"""Tokens in the index, which takes 16 bytes of memory for each."""

_FIRST_FLUSH: Final = 8_192
_LARGEST_FLUSH: Final = 1_000_000


class FileIndexer:
    """Belongs to one thread, but for ``table``, which any thread may read."""

    def __init__(
        self,
        tokenize: Callable[[str], TokenArray],
        fingerprint: str,
        token_store: TokenStore | None,
        log: Callable[[LogLevel, str], None],
    ) -> None:
        self.table = FileTable()
        self._builder = CorpusBuilder()
        self._tokenize = tokenize
        self._fingerprint = fingerprint
        self._token_store = token_store
        self._log = log
        self._is_full = False
        self._orphans: set[bytes] = set()

    def is_news(self, root: str, file: FoundFile) -> bool:
        """Whether a file is new or differs from when it was last read."""
        record = self.table.record(root, file.path)
        return record is None or record.signature != file.signature

    def index(self, root: str, file: FoundFile, max_file_size: int) -> None:
        """Read a file and take its tokens in; they can be searched after a flush."""
        source = read_source(file.path, max_file_size)
        content = None
        if isinstance(source, SourceText) and self._take_in(root, source, file.path):
            content = source.content
        self._orphaned(self.table.put(root, file.path, FileRecord(file.signature, content)))

    def forget(self, root: str, paths: Iterable[str]) -> None:
        """Take files of a folder out."""
        for path in paths:
            self._orphaned(self.table.remove(root, path))

    def flush_when_due(self) -> bool:
        """Make files searchable when enough are waiting; returns whether it did."""
        due = max(_FIRST_FLUSH, min(_LARGEST_FLUSH, self._builder.n_indexed_tokens // 3))
        if self._builder.n_pending_tokens < due:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Make all files searchable, and keep their tokens."""
        self._builder.flush()
        if self._token_store is not None:
            try:
                self._token_store.flush()
            except StoreError as error:
                self._give_store_up(error)

    def snapshot(self) -> SegmentedCorpus:
        """Return what can be searched now."""
        self._orphans.clear()
        return self._builder.snapshot()

    @property
    def orphans(self) -> frozenset[bytes]:
        """Contents that no file holds any more, but that the last snapshot still has."""
        return frozenset(self._orphans)

    def settle(self) -> None:
        """Tidy up in idle time."""
        self._builder.settle()

    def note_use(self, root: str) -> None:
        """Tell the store which tokens a folder uses, so that it keeps them."""
        if self._token_store is None:
            return
        try:
            self._token_store.note_use(root, self._fingerprint, self.table.contents(root))
        except StoreError as error:
            self._give_store_up(error)

    def _take_in(self, root: str, source: SourceText, path: str) -> bool:
        """Whether the file's content is in the index now."""
        content = source.content
        if content in self._builder or self._builder.revive(content):
            return True
        n_tokens = self._builder.n_indexed_tokens + self._builder.n_pending_tokens
        if n_tokens >= MAX_TOKENS:
            if not self._is_full:
                self._is_full = True
                self._log("warning", f"the project index is full at {n_tokens:,} tokens")
            return False
        tokens = self._tokens(root, source, path)
        if tokens is None:
            return False
        self._builder.add(content, tokens)
        return True

    def _tokens(self, root: str, source: SourceText, path: str) -> TokenArray | None:
        stored = self._stored(source.content)
        if stored is not None:
            return stored
        try:
            tokens = self._tokenize(source.text)
        except SpecLspError as error:
            self._log("warning", f"{path} cannot be tokenised: {error}")
            return None
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) <= MAX_TOKEN:
            self._log("warning", f"{path} is left out: its token ids are too large")
            return None
        if self._token_store is not None:
            try:
                self._token_store.put(root, self._fingerprint, source.content, tokens)
            except StoreError as error:
                self._give_store_up(error)
        return tokens

    def _stored(self, content: bytes) -> TokenArray | None:
        if self._token_store is None:
            return None
        try:
            return self._token_store.get(self._fingerprint, content)
        except StoreError as error:
            self._give_store_up(error)
            return None

    def _give_store_up(self, error: StoreError) -> None:
        self._token_store = None
        self._log("warning", f"tokens are not kept between sessions: {error}")

    def _orphaned(self, content: bytes | None) -> None:
        if content is not None:
            self._orphans.add(content)
            self._builder.remove(content)
