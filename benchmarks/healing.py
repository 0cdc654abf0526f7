"""Every split point inside identifiers: what a cursor there does to the words that are completed.

A cursor inside a word is a boundary that the tokenizer would not have put there.  Three things can
come of it, and each is counted with healing and without:

* the completion *disagrees* with the text held back: its bytes do not begin with it;
* the prompt's tokens are not those that the finished line begins with, so that the model goes on
  from where no text of its training ever was (*moved*);
* the completed word is cut at the cursor, where its own tokenisation has no boundary: the
  ``Fran|conia`` of the literature (*broken*).

A word that a small model cuts elsewhere, or that it ends at the cursor, is its own choice.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.machine import loaded_models
from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.backends.weights import Tokenizer
from speclsp.decoding.sampling import GreedySampler, Sampler
from speclsp.decoding.speculate import generate
from speclsp.decoding.target import Target
from speclsp.drafting.drafter import DraftContext
from speclsp.prompt.healing import HealingSampler, healing_prefix
from speclsp.prompt.prompt import PromptBudget, PromptExcerpt
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import Vocabulary
from tests.support.prompts import build_prompt

_WORD: Final = re.compile(r"[^\W\d]\w+")
_BUDGET: Final = PromptBudget(n_prompt=512)
_N_TOKENS_MAX: Final = 24
"""Most tokens of a completion: what is held back, and the rest of one word."""


@dataclass(frozen=True, slots=True)
class Split:
    """A cursor inside a word, as if the rest of its line had not been written yet."""

    path: str
    before: str
    """The text before the cursor, whole."""
    after: str
    """The text after it, from the end of the cursor's line on."""
    rest: str
    """The rest of the word, as it was written."""

    @property
    def line_before(self) -> str:
        """The cursor's line up to the cursor."""
        return self.before.rpartition("\n")[2]


@dataclass(slots=True)
class SplitCounts:
    """Sums over split points."""

    n_splits: int = 0
    n_continued: int = 0
    """Those at which the model went on with the word."""
    n_right: int = 0
    """Those at which it said the very word that was written."""
    n_disagreeing: int = 0
    n_moved: int = 0
    n_broken: int = 0
    n_held_back: int = 0
    """Tokens that were said again, summed up."""
    examples: list[str] = field(default_factory=list)
    """Words that were broken, ``|`` at the cursor."""


def word_splits(path: str, text: str) -> Iterator[Split]:
    """Yield each place inside each identifier of ``text`` (LF line ends)."""
    for word in _WORD.finditer(text):
        line_end = text.find("\n", word.start())
        after = text[line_end:] if line_end >= 0 else ""
        for cursor in range(word.start() + 1, word.end()):
            yield Split(path, text[:cursor], after, text[cursor : word.end()])


def count_splits(
    splits: Iterable[Split],
    tokenizer: Tokenizer,
    target: Target,
    clock: Callable[[], float],
    hold_back: Callable[[str], str],
    progress: Callable[[], None] = lambda: None,
) -> SplitCounts:
    """Complete every split greedily, and count what the cursor did to the text.

    ``hold_back`` says how much of a line is left to the model; nothing is no healing.
    """
    counts = SplitCounts()
    excerpt: PromptExcerpt | None = None
    for split in splits:
        typed = hold_back(split.line_before)
        prompt = build_prompt(
            tokenizer.family,
            tokenizer.vocabulary,
            repo_name="corpus",
            path=split.path,
            prefix=split.before.removesuffix(typed),
            suffix=split.after,
            budget=_BUDGET,
            excerpt=excerpt,
            layout="anchored",
        )
        excerpt = prompt.excerpt
        word = _CompletedWord(tokenizer, typed)
        generate(
            target,
            DraftContext(prompt=prompt.tokens),
            drafter=None,
            sampler=word.sampler,
            n_predict=_N_TOKENS_MAX,
            stop=word.feed,
            interrupted=lambda: None,
            clock=clock,
        )
        _count(counts, split, typed, word, tokenizer.vocabulary)
        progress()
    return counts


def healing(tokenizer: Tokenizer) -> Callable[[str], str]:
    """How much of a line the server holds back."""
    return lambda line_before: healing_prefix(tokenizer.prefixes, line_before)


def no_healing(_line_before: str) -> str:
    """Hold back nothing."""
    return ""


class _CompletedWord:
    """What the model says, up to the end of the word at the cursor."""

    def __init__(self, tokenizer: Tokenizer, typed: str) -> None:
        self._piece = tokenizer.vocabulary.piece
        self._end_tokens = tokenizer.family.end_tokens
        self._n_typed = len(typed.encode())
        greedy = GreedySampler()
        self.sampler: Sampler = (
            HealingSampler(greedy, tokenizer.prefixes, tokenizer.vocabulary, typed)
            if typed
            else greedy
        )
        self.pieces: list[bytes] = []

    def feed(self, token: int) -> bool:
        """Take the next token; True when the word has ended."""
        if token in self._end_tokens:
            return True
        self.pieces.append(self._piece(token))
        return len(self.continuation) < len(self.said[self._n_typed :].decode("utf-8", "ignore"))

    @property
    def said(self) -> bytes:
        """All that was said, the text held back first."""
        return b"".join(self.pieces)

    @property
    def continuation(self) -> str:
        """The rest of the word behind the cursor."""
        text = self.said[self._n_typed :].decode("utf-8", "ignore")
        end = re.match(r"\w*", text)
        return end.group() if end else ""


def _count(
    counts: SplitCounts, split: Split, typed: str, word: _CompletedWord, vocabulary: Vocabulary
) -> None:
    line_before = split.line_before
    n_shown = len(line_before.removesuffix(typed).encode())
    cursor = len(line_before.encode())
    counts.n_splits += 1
    counts.n_continued += bool(word.continuation)
    counts.n_right += word.continuation == split.rest
    counts.n_disagreeing += not word.said.startswith(typed.encode())
    counts.n_held_back += sum(end <= cursor for end in _ends(word.pieces, n_shown))
    shown = vocabulary.tokenize(line_before.removesuffix(typed)).tolist()
    natural = vocabulary.tokenize(line_before + word.continuation).tolist()
    counts.n_moved += natural[: len(shown)] != shown
    natural_ends = _ends([vocabulary.piece(token) for token in natural], 0)
    is_cut = cursor == n_shown or cursor in _ends(word.pieces, n_shown)
    if word.continuation and is_cut and cursor not in natural_ends:
        counts.n_broken += 1
        counts.examples.append(f"{_last_word(line_before)}|{word.continuation}")


def _ends(pieces: Iterable[bytes], start: int) -> set[int]:
    """Where each piece ends, the first one beginning at ``start``."""
    ends: set[int] = set()
    for piece in pieces:
        start += len(piece)
        ends.add(start)
    return ends


def _last_word(text: str) -> str:
    return next((word.group() for word in _WORD.finditer(text) if word.end() == len(text)), text)


_N_EXAMPLES: Final = 8


def run(settings: Settings, *, files: Sequence[Path]) -> Report:
    """Complete at every place inside the identifiers of the files, with healing and without."""
    splits = [
        split
        for file in files
        for split in word_splits(file.name, file.read_text(encoding="utf-8", errors="replace"))
    ]
    counts: dict[str, SplitCounts] = {}
    with RunProgress() as progress, loaded_models(settings) as (tokenizer, weights):
        task = progress.add_task("Completing", total=2 * len(splits))
        for name, hold_back in (("without", no_healing), ("with", healing(tokenizer))):
            progress.update(task, description=f"{name} healing")
            counts[name] = count_splits(
                splits,
                tokenizer,
                weights.target,
                time.perf_counter,
                hold_back,
                progress=lambda: progress.advance(task),
            )
    broken = [f"broken without healing: {one}" for one in counts["without"].examples[:_N_EXAMPLES]]
    return Report([_table(counts), *broken], counts)


def _table(counts: dict[str, SplitCounts]) -> Table:
    headers = ("healing", "places", "word right", "disagreeing", "moved", "broken", "tokens healed")
    table = Table("Places inside identifiers", headers)
    for name, count in counts.items():
        table.add(
            name,
            str(count.n_splits),
            str(count.n_right),
            str(count.n_disagreeing),
            str(count.n_moved),
            str(count.n_broken),
            f"{count.n_held_back / max(1, count.n_splits):.2f}",
        )
    return table
