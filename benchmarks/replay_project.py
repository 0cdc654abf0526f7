"""A real project to replay: its files, an index of them, and places where lines are taken out.

A cursor's truth is what a human wrote there.  Cursors are drawn by a seeded generator, so that a
run can be repeated: files by their size, lines evenly.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speclsp.drafting.drafter import Candidate, TokenArray
from speclsp.errors import SpecLspError
from speclsp.project.corpus import Corpus
from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import ScanTally, scan
from speclsp.project.source_text import SourceText, read_source
from speclsp.settings import Settings

Tokenize = Callable[[str], TokenArray]

CODE_ENDINGS: Final = frozenset(
    """
    .c .cc .clj .cpp .cs .cxx .dart .ex .exs .go .h .hpp .hs .java .jl .js .jsx .kt .lua .m .ml
    .mjs .nim .php .pl .py .pyi .r .rb .rs .scala .sh .sql .swift .ts .tsx .vue .zig
    """.split()  # noqa: SIM905 - a table of words, not code
)
"""Files that cursors are drawn from; drafts come from all files that the index takes."""

N_LEAST_LINES: Final = 30
"""Shorter files have no cursors."""
N_GAP_LINES: Final = (3, 20)
"""Least and most lines that are taken out at a cursor."""
N_COPIED_LINES: Final = (8, 30)
"""Least and most lines of existing code that are typed again with changes."""
N_TRUTH: Final = 128
"""Most tokens of what is taken out that are replayed."""
_N_LEAST_TRUTH: Final = 16
_CHANGED_LINES: Final = 0.1
"""Share of a copy's lines that are dropped, and that another line of the file comes after."""
_N_ATTEMPTS: Final = 200
_IDENTIFIER: Final = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{3,}\b")


class ReplayError(SpecLspError):
    """A project cannot be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCursor:
    """A place in a file: the text around it, and the text that was there."""

    path: str
    """Relative to the project."""
    prefix: str
    truth: str
    suffix: str


class CorpusWithout:
    """A view of a corpus with some files hidden.  Belongs to one thread."""

    def __init__(self, corpus: Corpus, hidden: Sequence[bytes]) -> None:
        self._corpus = corpus
        self._hidden = hidden

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Find what followed the longest suffix of ``tail``."""
        self._corpus.hide(self._hidden)
        return self._corpus.continuation(tail, n_min, n_max, n_tokens)

    def candidates(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> list[Candidate]:
        """Return what followed suffixes of ``tail``."""
        self._corpus.hide(self._hidden)
        return self._corpus.candidates(tail, n_min, n_max, n_tokens)


class ReplayProject:
    """The files of a folder, read and indexed as the server does.

    Raises :class:`ReplayError` where no file is long enough to be replayed.
    """

    def __init__(self, root: Path, settings: Settings, tokenize: Tokenize) -> None:
        self.root = root
        self.name = root.resolve().name
        self._texts: dict[str, SourceText] = {}
        self._tokenize = tokenize
        self.corpus = self._read(root, settings)
        self._choices = {
            path: source
            for path, source in self._texts.items()
            if Path(path).suffix.lower() in CODE_ENDINGS
            and source.text.count("\n") >= N_LEAST_LINES
        }
        if not self._choices:
            raise ReplayError(
                f"{root} holds no code file of {N_LEAST_LINES} lines or more.",
                remedy="Name the folder of a project with source code.",
            )

    def corpus_without(self, cursor: ReplayCursor) -> CorpusWithout:
        """Return the index without the cursor's own file, as it is while the file is open."""
        source = self._texts.get(cursor.path)
        return CorpusWithout(self.corpus, [] if source is None else [source.content])

    def gaps(self, n_cursors: int, seed: int) -> list[ReplayCursor]:
        """Return places where lines are taken out."""
        return self._drawn(n_cursors, random.Random(f"gaps {seed}"), _gap)  # noqa: S311 - no secret

    def edits(self, n_cursors: int, seed: int) -> list[ReplayCursor]:
        """Return places where a changed copy of the code before the cursor is typed."""
        return self._drawn(n_cursors, random.Random(f"edits {seed}"), _edit)  # noqa: S311

    def _read(self, root: Path, settings: Settings) -> Corpus:
        corpus = Corpus()
        for file in scan(root, IgnoreRules(root, settings.exclude), ScanTally()):
            source = read_source(file.path)
            if isinstance(source, SourceText):
                self._texts[file.relative] = source
                corpus.add(source.content, self._tokenize(source.text))
        corpus.flush()
        return corpus

    def _drawn(
        self,
        n_cursors: int,
        generator: random.Random,
        draw: Callable[[str, list[str], random.Random], ReplayCursor | None],
    ) -> list[ReplayCursor]:
        paths = list(self._choices)
        weights = [len(source.text) for source in self._choices.values()]
        cursors: list[ReplayCursor] = []
        for _ in range(_N_ATTEMPTS * n_cursors):
            if len(cursors) == n_cursors:
                break
            path = generator.choices(paths, weights)[0]
            lines = self._choices[path].text.splitlines(keepends=True)
            cursor = draw(path, lines, generator)
            if cursor is not None and len(self._tokenize(cursor.truth)) >= _N_LEAST_TRUTH:
                cursors.append(cursor)
        return cursors


def _gap(path: str, lines: list[str], generator: random.Random) -> ReplayCursor | None:
    start = generator.randrange(2, len(lines) - N_GAP_LINES[0])
    end = start + generator.randint(*N_GAP_LINES)
    if not lines[start].strip():
        return None
    return ReplayCursor(
        path=path,
        prefix="".join(lines[:start]),
        truth="".join(lines[start:end]),
        suffix="".join(lines[end:]),
    )


def _edit(path: str, lines: list[str], generator: random.Random) -> ReplayCursor | None:
    """Type a block again: a name changed throughout, lines left out, lines put in."""
    n_lines = generator.randint(*N_COPIED_LINES)
    start = generator.randrange(0, max(1, len(lines) - n_lines))
    block = lines[start : start + n_lines]
    names = Counter(_IDENTIFIER.findall("".join(block)))
    repeated = sorted(name for name, n in names.items() if n > 1)
    if not repeated or not block[0].strip():
        return None
    old = generator.choice(repeated)
    new = f"{old}_{generator.choice(('copy', 'new', 'other', 'two'))}"
    truth: list[str] = []
    for line in block:
        if generator.random() >= _CHANGED_LINES:
            truth.append(re.sub(rf"\b{re.escape(old)}\b", new, line))
        if generator.random() < _CHANGED_LINES:
            truth.append(generator.choice(lines))
    return ReplayCursor(
        path=path,
        prefix="".join(lines[: start + n_lines]),
        truth="".join(truth),
        suffix="".join(lines[start + n_lines :]),
    )
