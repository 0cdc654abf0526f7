"""What look-ups see of the index: its last snapshot, without the files that are open."""

from __future__ import annotations

import os
import threading

from speclsp.drafting.corpus import SegmentedCorpus
from speclsp.project.file_indexer import FileIndexer


class PublishedCorpus:
    """Reading it never waits.  ``renew`` belongs to the indexer's thread."""

    def __init__(self, indexer: FileIndexer) -> None:
        self._indexer = indexer
        self._lock = threading.Lock()
        self.open_paths: frozenset[str] = frozenset()
        """Files that are open in buffers: what they hold on disk is not drafted from."""
        self.everything = SegmentedCorpus()
        """With the open files."""
        self.visible = self.everything

    def renew(self) -> None:
        """Take a new snapshot."""
        with self._lock:
            self.everything = self._indexer.snapshot()
            self._hide()

    def set_open(self, paths: frozenset[str]) -> None:
        """Say which files are open.  Runs on any thread."""
        with self._lock:
            self.open_paths = frozenset(map(os.path.realpath, paths))
            self._hide()

    def _hide(self) -> None:
        hidden = self._indexer.table.held_only_by(self.open_paths) | self._indexer.orphans
        self.visible = self.everything.hiding(hidden) if hidden else self.everything
