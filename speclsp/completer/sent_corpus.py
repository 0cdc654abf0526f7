"""Sends the files of a workspace folder to a remote engine that drafts from them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from speclsp.engine.remote_target import RemoteTarget
from speclsp.errors import RemoteError
from speclsp.events import EventQueue
from speclsp.project.ignore import IgnoreRules
from speclsp.project.repository import name_elsewhere
from speclsp.project.scan import ScanTally, scan
from speclsp.project.source_text import read_source
from speclsp.settings import Settings

_MAX_CHARS: Final = 16 << 20
"""Most characters that are sent of a folder: about four million tokens, of the ten million that
SGLang takes by default."""


class SentCorpora:
    """The folders that a window's remote engine was sent.  Any thread may call it."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self._is_closed = False
        self._target: object = None
        self._sent: set[str] = set()
        """The folders that ``_target`` was sent."""

    def send(self, target: object, root: str, settings: Settings) -> None:
        """Send a folder's files in the background, once to each target that takes them.

        Where the server was down, the next call sends them again.
        """
        if target is not self._target:
            self._target, self._sent = target, set()
        if not isinstance(target, RemoteTarget) or target.drafts != "corpus" or root in self._sent:
            return
        self._sent.add(root)
        threading.Thread(
            target=self._events.guard,
            args=("sending the project's files", self._run, target, root, settings),
            name="speclsp-corpus",
            daemon=True,
        ).start()

    def close(self) -> None:
        """Send no more files."""
        self._is_closed = True

    def _run(self, target: RemoteTarget, root: str, settings: Settings) -> None:
        def is_ended() -> bool:
            return self._is_closed or target.is_closed

        try:
            texts = source_texts(Path(root), settings, is_ended)
            if not texts or is_ended():
                return
            n_tokens = target.send_corpus(name_elsewhere(root), texts)
        except (RemoteError, OSError) as error:
            is_refused = isinstance(error, RemoteError) and not error.is_down
            if target is self._target and not is_refused:
                self._sent.discard(root)
            if not is_ended():
                raise
            return
        self._events.log(
            "info", f"the remote engine drafts from {n_tokens} tokens of {len(texts)} files."
        )


def source_texts(root: Path, settings: Settings, is_ended: Callable[[], bool]) -> list[str]:
    """Return a folder's source files with secrets masked, the latest changed first.

    Ignored files and files that look like secrets are left out.  The texts have 16 million
    characters at most.
    """
    rules = IgnoreRules(root, settings.exclude)
    found = scan(
        root,
        rules,
        ScanTally(),
        max_file_size=settings.max_file_size,
        max_files=settings.max_files,
    )
    texts: list[str] = []
    n_left = _MAX_CHARS
    for file in sorted(found, key=lambda file: -file.signature.mtime_ns):
        if is_ended():
            return []
        source = read_source(file.path, settings.max_file_size)
        if source is not None and len(source.text) <= n_left:
            texts.append(source.text)
            n_left -= len(source.text)
    return texts
