"""The open documents on one side of the completer seam, with their latest versions."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final

from speclsp.seam.documents import Document
from speclsp.seam.request import PlacedRequest, Q

N_VERSIONS: Final = 8
"""Latest versions of a document that are kept for requests, which name a version."""
_MAX_CHARS: Final = 4_000_000
"""Characters of a document's kept versions together; two versions are always kept."""


class Documents:
    """The open documents by URI, the most recently used last.  Any thread may call it.

    Versions are immutable.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: OrderedDict[str, deque[Document]] = OrderedDict()

    def open(self, document: Document) -> None:
        """Add an opened document; one that is open already is replaced."""
        with self._lock:
            self._versions.pop(document.uri, None)
            self._versions[document.uri] = deque([document])

    def change(self, document: Document) -> Document | None:
        """Take the next version of a document; return the former one, None where none is open."""
        with self._lock:
            versions = self._versions.get(document.uri)
            if versions is None:
                return None
            former = versions[-1]
            versions.append(document)
            while len(versions) > n_versions(document.text):
                versions.popleft()
            self._versions.move_to_end(document.uri)
            return former

    def keep_newest(self, uri: str) -> None:
        """Forget a document's older versions: they show what is a secret now."""
        with self._lock:
            if (versions := self._versions.get(uri)) is not None:
                self._versions[uri] = deque([versions[-1]])

    def close(self, uri: str) -> Document | None:
        """Forget a document and return its newest version; None where it is not open."""
        with self._lock:
            versions = self._versions.pop(uri, None)
            return None if versions is None else versions[-1]

    def get(self, uri: str) -> Document | None:
        """Return a document's newest version; None where it is not open."""
        with self._lock:
            versions = self._versions.get(uri)
            return None if versions is None else versions[-1]

    def at_version(self, uri: str, version: int) -> Document | None:
        """Return one of a document's latest versions; None where it is not known (any more)."""
        with self._lock:
            versions = self._versions.get(uri, ())
            return next((d for d in reversed(versions) if d.version == version), None)

    def newest(self) -> list[Document]:
        """Return the documents' newest versions, the most recently used first."""
        with self._lock:
            return [versions[-1] for versions in reversed(self._versions.values())]

    def place(self, request: Q) -> PlacedRequest[Q] | None:
        """Return a request with the text of its version.

        None where the document is not open or the version is no longer kept.
        """
        found = self.at_version(request.uri, request.version)
        if found is None:
            return None
        text = found.text if request.edit is None else request.edit.applied_to(found.text)
        above = "".join(f"{cell}\n" for cell in self._texts(request.above))
        below = "".join(f"\n{cell}" for cell in self._texts(request.below))
        return PlacedRequest(
            plain=request,
            text=above + text + below if above or below else text,
            cursor=len(above) + request.offset,
            path=found.path,
            repo_name=found.repo_name,
            language_id=found.language_id,
            file=found.file,
            workspace=found.workspace,
        )

    def _texts(self, cells: tuple[tuple[str, int], ...]) -> list[str]:
        """Return the cells' texts; a version that is not known (any more) gives the newest."""
        found = (self.at_version(uri, version) or self.get(uri) for uri, version in cells)
        return [document.text for document in found if document is not None]


def n_versions(text: str) -> int:
    """Return how many versions to keep of a document."""
    return min(N_VERSIONS, max(2, _MAX_CHARS // (len(text) + 1)))
