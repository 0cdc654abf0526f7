"""A project index over a real folder with a tokenizer without a model, and what tests do to it."""

from __future__ import annotations

import re
import subprocess
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from waiting import until

from speclsp.drafting.drafter import TokenArray
from speclsp.project.project_index import ProjectIndex
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import Event, EventQueue
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


class WordTokenizer:
    """One token per word; counts the texts that it was given."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, text: str) -> TokenArray:
        self.gate.wait(60)
        self.n_calls += 1
        return self.tokens(text)

    @staticmethod
    def tokens(text: str) -> TokenArray:
        tokenizer = [zlib.crc32(word.encode()) % 1_000_003 for word in _WORDS.findall(text)]
        return np.array(tokenizer, dtype=np.int32)


class _Recorder(EventQueue):
    def __init__(self, recorded: list[Event]) -> None:
        super().__init__()
        self._recorded = recorded

    def emit(self, event: Event) -> None:
        self._recorded.append(event)


class IndexUnderTest:
    """An index over ``root`` with what it emitted."""

    def __init__(
        self,
        root: Path,
        *,
        token_store: TokenStore | None = None,
        tokenize: WordTokenizer | None = None,
        busy: Callable[[], bool] = lambda: False,
        fingerprint: str = "words",
        **settings: Any,
    ) -> None:
        self.root = root
        self.events: list[Event] = []
        self.tokenize = tokenize or WordTokenizer()
        self.index = ProjectIndex(
            WorkspaceFolder(root=str(root), name=root.name),
            self.tokenize,
            fingerprint,
            settings=Settings(**settings),
            readers=[_Recorder(self.events)],
            open_store=(lambda: token_store) if token_store is not None else None,
            busy=busy,
        )

    def open(self) -> IndexUnderTest:
        self.index.start()
        return self

    def built(self) -> IndexUnderTest:
        until(lambda: not self.index.stats().building)
        return self

    def follows(self, tail: str) -> str:
        """What the index says follows the text, as one of the words that tests use."""
        tokens = WordTokenizer.tokens(tail)
        for corpus in self.index.corpora():
            found, _ = corpus.continuation(tokens, len(tokens), 32, 1)
            if len(found):
                return _WORD_OF.get(int(found[0]), "?")
        return ""

    def of_type(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


_WORD_OF = {int(WordTokenizer.tokens(word)[0]): word for word in map("word{}".format, range(3000))}


def line(number: int) -> str:
    """A line of source text after whose ``key … :`` the word of that number follows."""
    return f"key {number} : word{number}\n"


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )
