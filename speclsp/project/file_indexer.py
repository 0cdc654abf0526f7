"""Turns files into tokens and tokens into corpora; knows no threads, and no folders' rules.

Each workspace folder has a corpus of its own, so that it can be kept, forgotten and closed by
itself.  A content that several folders hold is in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from speclsp.drafting.corpus import SegmentedCorpus
from speclsp.drafting.corpus_builder import MAX_SEGMENTS, CorpusBuilder, tokens_to_flush
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.query import MAX_TOKEN
from speclsp.drafting.suffix_array import SortInterruptedError
from speclsp.errors import SpecLspError, StoreError
from speclsp.project.file_table import FileRecord, FileTable
from speclsp.project.kept_folders import KeptFolders
from speclsp.project.scan import FoundFile
from speclsp.project.source_text import SourceText, read_source, unmasked
from speclsp.request import LogLevel
from speclsp.secrets.masked_text import masked
from speclsp.settings import Settings
from speclsp.storage.segment_store import SegmentStore
from speclsp.storage.token_store import TokenStore

_LEAST_SEGMENTS: Final = 2


class FileIndexer:
    """Belongs to one thread, but for ``table``, which any thread may read."""

    def __init__(
        self,
        tokenize: Callable[[str], TokenArray],
        fingerprint: str,
        token_store: TokenStore | None,
        segment_store: SegmentStore | None,
        log: Callable[[LogLevel, str], None],
        closing: Callable[[], bool],
    ) -> None:
        """``closing`` says whether what takes long is not worth its while any more."""
        self.table = FileTable()
        self._builders: dict[str, CorpusBuilder] = {}
        self._tokenize = tokenize
        self._fingerprint = fingerprint
        self._token_store = token_store
        self._kept = KeptFolders(segment_store, fingerprint, log)
        self._log = log
        self._closing = closing
        self._is_full = False
        self._n_searchable_tokens = 0
        self._orphans: set[bytes] = set()

    def open_folder(self, root: str, max_index_tokens: int) -> None:
        """Before a folder is scanned: bring back what was kept of it in the last session.

        Nothing of that is found before :meth:`index` has seen its file again.
        """
        self.table.forget_skipped(root)
        self._kept.open(root, self._builder(root), max_index_tokens - self._n_tokens)

    def folder_is_scanned(self, root: str) -> None:
        """After a folder was scanned: what was not seen again is gone."""
        self._kept.is_scanned(root)
        self._builder(root).release()

    def close_folder(self, root: str) -> None:
        """Take all files of a folder out."""
        self.forget(root, self.table.paths(root))
        self._kept.forget(root)
        if root in self._builders:
            self._builders[root].release()
            self.flush()

    def keep(self, root: str) -> None:
        """Keep a folder's index for the next session."""
        self._kept.save(root, self._builder(root), self.table.records(root))

    def is_news(self, root: str, file: FoundFile) -> bool:
        """Whether a file is new or differs from when it was last read."""
        record = self.table.record(root, file.path)
        return record is None or record.signature != file.signature

    def index(self, root: str, file: FoundFile, settings: Settings) -> None:
        """Take a file in, reading it where need be; it can be searched after a flush."""
        content = self._kept.content(root, file)
        if content is None or not self._has(content):
            content = None
            mask = masked if settings.mask_secrets else unmasked
            source = read_source(file.path, settings.max_file_size, mask)
            if isinstance(source, SourceText):
                content = self._take_in(root, source, file.path, settings.max_index_tokens)
        self._orphaned(self.table.put(root, file.path, FileRecord(file.signature, content)))

    def forget(self, root: str, paths: Iterable[str]) -> None:
        """Take files of a folder out."""
        for path in paths:
            self._orphaned(self.table.remove(root, path))

    def flush_when_due(self) -> bool:
        """Make files searchable when enough are waiting; returns whether it did."""
        n_pending = sum(builder.n_pending_tokens for builder in self._builders.values())
        n_waiting = self._n_living_tokens + n_pending - self._n_searchable_tokens
        if n_waiting < tokens_to_flush(self._n_searchable_tokens):
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Make all files searchable, and keep their tokens."""
        with suppress(SortInterruptedError):
            for builder in self._builders.values():
                builder.flush(self._closing)
        for root in list(self._builders):
            if not self._builders[root].n_indexed_tokens and not self.table.paths(root):
                del self._builders[root]
        self._share_segments()
        self._n_searchable_tokens = self._n_living_tokens
        if self._token_store is not None:
            try:
                self._token_store.flush()
            except StoreError as error:
                self._give_store_up(error)

    def snapshot(self) -> SegmentedCorpus:
        """Return what can be searched now."""
        self._orphans.clear()
        return SegmentedCorpus(
            view for builder in self._builders.values() for view in builder.views()
        )

    @property
    def orphans(self) -> frozenset[bytes]:
        """Contents that no file holds any more, but that the last snapshot still has."""
        return frozenset(self._orphans)

    def settle(self, interrupted: Callable[[], bool]) -> bool:
        """Tidy up in idle time; False when interrupted."""
        try:
            for builder in self._builders.values():
                builder.settle(interrupted)
        except SortInterruptedError:
            return False
        return True

    def note_use(self, root: str) -> None:
        """Tell the store which tokens a folder uses, so that it keeps them."""
        if self._token_store is None:
            return
        try:
            self._token_store.note_use(root, self._fingerprint, self.table.contents(root))
        except StoreError as error:
            self._give_store_up(error)

    @property
    def _n_tokens(self) -> int:
        """Tokens that are indexed or wait to be, removed ones included."""
        return sum(
            builder.n_indexed_tokens + builder.n_pending_tokens
            for builder in self._builders.values()
        )

    @property
    def _n_living_tokens(self) -> int:
        return sum(builder.n_living_tokens for builder in self._builders.values())

    def _builder(self, root: str) -> CorpusBuilder:
        if root not in self._builders:
            self._builders[root] = CorpusBuilder()
            self._share_segments()
        return self._builders[root]

    def _share_segments(self) -> None:
        """Let the folders that hold something have about as many segments together as one has."""
        for builder in self._builders.values():
            builder.max_segments = max(_LEAST_SEGMENTS, MAX_SEGMENTS // len(self._builders))

    def _has(self, content: bytes) -> bool:
        """Whether a content is in the index, after its removal was taken back if need be."""
        builders = self._builders.values()
        return any(content in builder for builder in builders) or any(
            builder.revive(content) for builder in builders
        )

    def _take_in(
        self, root: str, source: SourceText, path: str, max_index_tokens: int
    ) -> bytes | None:
        """Return the content of a file, if it is in the index now."""
        content = source.content
        if self._has(content):
            return content
        n_tokens = self._n_tokens
        if n_tokens >= max_index_tokens:
            if not self._is_full:
                self._is_full = True
                self._log(
                    "warning",
                    f"the project index is full at {n_tokens:,} tokens (max_index_tokens)",
                )
            return None
        tokens = self._tokens(root, source, path)
        if tokens is None:
            return None
        self._builder(root).add(content, tokens)
        return content

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
            for builder in self._builders.values():
                builder.remove(content)
