"""Brings a folder's index back from the last session, and keeps it for the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from speclsp.drafting.corpus_builder import CorpusBuilder
from speclsp.drafting.segment import Segment
from speclsp.errors import StoreError
from speclsp.project.file_table import FileRecord
from speclsp.project.scan import FoundFile, Signature
from speclsp.request import LogLevel
from speclsp.storage.index_contents import KeptFile, path_id
from speclsp.storage.segment_store import KeptIndex, SegmentStore

_FRESH_NS: Final = 2_000_000_000
"""A file written this shortly before may be written again without its signature changing."""


class KeptFolders:
    """Belongs to one thread.  Without a store it keeps nothing."""

    def __init__(
        self,
        store: SegmentStore | None,
        fingerprint: str,
        log: Callable[[LogLevel, str], None],
    ) -> None:
        self._store = store
        self._fingerprint = fingerprint
        self._log = log
        self._files: dict[str, Mapping[bytes, KeptFile]] = {}
        self._opened: set[str] = set()

    def open(self, root: str, builder: CorpusBuilder, n_room: int) -> None:
        """Let a builder adopt what was kept of a folder, once, up to ``n_room`` tokens."""
        if root in self._opened:
            return
        self._opened.add(root)
        kept = self._load(root)
        self._files[root] = kept.files
        builder.adopt(_fitting(kept.segments, n_room))

    def content(self, root: str, file: FoundFile) -> bytes | None:
        """Return the content that a file had in the last session, if it is still the same file."""
        kept = self._files.get(root, {}).get(path_id(file.path))
        return kept.content if kept and kept.signature == file.signature.as_tuple() else None

    def is_scanned(self, root: str) -> None:
        """What was kept of a folder has been compared with what is there."""
        self._files.pop(root, None)

    def forget(self, root: str) -> None:
        """The folder was closed; it may be opened again."""
        self._files.pop(root, None)
        self._opened.discard(root)

    def save(
        self, root: str, builder: CorpusBuilder, records: Iterable[tuple[str, FileRecord]]
    ) -> None:
        """Keep a folder's index for the next session, if it has changed."""
        if self._store is None:
            return
        newest_ns = time.time_ns() - _FRESH_NS
        files = {
            path_id(path): KeptFile(record.signature.as_tuple(), record.content)
            for path, record in records
            if record.content is not None and _is_older(record.signature, newest_ns)
        }
        try:
            self._store.save(root, self._fingerprint, builder.segments, files)
        except StoreError as error:
            self._give_up(error)

    def _load(self, root: str) -> KeptIndex:
        if self._store is None:
            return KeptIndex()
        try:
            return self._store.load(root, self._fingerprint)
        except StoreError as error:
            self._give_up(error)
            return KeptIndex()

    def _give_up(self, error: StoreError) -> None:
        self._store = None
        self._log("warning", f"the index is not kept between sessions: {error}")


def _fitting(segments: Iterable[Segment], n_room: int) -> Iterable[Segment]:
    for segment in segments:
        n_room -= segment.n_tokens
        if n_room >= 0:
            yield segment


def _is_older(signature: Signature, newest_ns: int) -> bool:
    return max(signature.mtime_ns, signature.ctime_ns) < newest_ns
