"""What was asked and answered at each point, and what a cut at some probability would have shown.

Records are kept as JSON lines, from which all tables can be made again without a model.

The cut: the text ends before the token at which the product of the probabilities of its tokens,
p(t1) · p(t2) · …, falls below a threshold.  What is left ends at the end of a word, and is nothing
where it has no letter and no digit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from speclsp.common_ends import common_head
from speclsp.errors import SpecLspError
from speclsp.text.confidence import TextScores, text_scores

_WHITE_SPACE: Final = " \t\r\n\f\v"
_INSIDE_WORD: Final = re.compile(r"(?<=\w)(?=\w)")
_PART_OF_WORD: Final = re.compile(r"\w+\Z")


class PointsError(SpecLspError):
    """A file of points, or of records of them, that cannot be used."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a function that is typed, and what the human wrote there."""

    case: str
    n_typed: int
    """Characters of the function's body before the cursor."""
    project: str
    language_id: str
    path: str
    line_before: str
    """The cursor's line up to the cursor."""
    human: str
    """What follows: the rest of the body, and some of the text behind it."""

    @property
    def key(self) -> tuple[str, int]:
        """What the point is known by."""
        return self.case, self.n_typed

    @property
    def place(self) -> str:
        """Where it is in its line."""
        return "within a line" if self.line_before.strip() else "at the beginning of a line"


class PointRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A side's answer at a point."""

    side: str
    point: Point
    shown: str
    """The text on screen; empty for none."""
    n_replaced: int = 0
    text: str = ""
    """The text without thresholds; as ``shown`` where there is none."""
    pieces: tuple[str, ...] = ()
    """The tokens that were generated, an end token among them; bytes that are no UTF-8 are lone
    surrogates."""
    logprobs: tuple[float, ...] = ()
    held_back: str = ""
    """The end of ``line_before`` that the tokens repeat first."""
    finish_reason: str = ""
    stopped_by: str = ""
    source: str = "model"
    n_prompt: int = 0
    n_prompt_evaluated: int = 0
    n_predicted: int = 0
    n_passes: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    ms: float = 0.0

    @property
    def scores(self) -> TextScores:
        """The log-probabilities of the tokens of ``text``."""
        pieces = [piece.encode("utf-8", "surrogateescape") for piece in self.pieces]
        return text_scores(pieces, self.logprobs, self.text, typed=self.held_back)


# --- judging -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A shown text beside the human's."""

    is_shown: bool = False
    is_right: bool = False
    """Whether the human's text begins with it."""
    has_right_line: bool = False
    """Whether the human's text begins with its first line that is not blank."""
    n_saved: int = 0
    """Its characters if it is right, or else those of the words before the first difference."""
    n_wrong: int = 0
    """Its other characters."""


def judged(text: str, point: Point) -> Judged:
    """Judge a text at a point; white space at its end does not count."""
    text, human = text.replace("\r", "").rstrip(), point.human.replace("\r", "")
    if not text:
        return Judged()
    n_common = common_head(text, human)
    is_right = n_common == len(text)
    n_line = len(text) - len(text.lstrip())
    n_line += len(text[n_line:].partition("\n")[0].rstrip())
    n_saved = len(text) if is_right else _n_words(text, n_common)
    return Judged(
        is_shown=True,
        is_right=is_right,
        has_right_line=n_common >= n_line,
        n_saved=n_saved,
        n_wrong=len(text) - n_saved,
    )


def _n_words(text: str, n_chars: int) -> int:
    """Return the length of the whole words among the first ``n_chars`` characters."""
    if _INSIDE_WORD.match(text, n_chars):
        n_chars -= len(_last_word(text[:n_chars]))
    return len(text[:n_chars].rstrip())


def _last_word(text: str) -> str:
    found = _PART_OF_WORD.search(text)
    return found.group() if found else ""


# --- cutting -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """A text that was ended early, and the tokens that were generated for it."""

    text: str
    n_tokens: int


def n_kept_tokens(logprobs: Sequence[float], threshold: float) -> int:
    """Return how many tokens come before the product of the probabilities falls too low."""
    least, total = math.log(threshold) if threshold > 0.0 else -math.inf, 0.0
    for idx, logprob in enumerate(logprobs):
        total += logprob
        if total < least:
            return idx
    return len(logprobs)


def cut_text(record: PointRecord, n_kept: int) -> Cut:
    """Return a record's text up to its token of index ``n_kept``, which was generated, too."""
    scores = record.scores
    if n_kept >= len(scores.logprobs):
        return Cut(record.text, len(record.pieces))
    n_healed = scores.end - len(scores.logprobs)
    kept = before_dense(record.text, scores.starts[n_kept])
    n_chars = len(kept)
    if _INSIDE_WORD.match(record.text, n_chars):
        kept = kept.removesuffix(_last_word(kept))
    kept = kept.rstrip()
    if not any(char.isalnum() for char in kept):
        kept = ""
    return Cut(kept, n_healed + n_kept + 1)


def before_dense(text: str, n_dense: int) -> str:
    """Return the beginning of a text that has ``n_dense`` bytes which are no white space."""
    n_bytes = 0
    for idx, char in enumerate(text):
        if char not in _WHITE_SPACE:
            if n_bytes >= n_dense:
                return text[:idx]
            n_bytes += len(char.encode("utf-8", "replace"))
    return text


# --- files ---------------------------------------------------------------------------------------


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file of records: what all of them were made with."""

    model: str
    """The model file's name and bytes."""
    options: dict[str, Any]
    """Of the drawing of points, and settings that differ from their defaults."""


class RecordFile:
    """Records on disk: a header, then a line for each, appended function by function."""

    def __init__(self, path: Path, header: Header) -> None:
        """Raise :class:`PointsError` if the file holds records of another run."""
        self._path = path
        self.records: list[PointRecord] = []
        if path.exists() and path.stat().st_size:
            known, self.records = read_records(path)
            if known != header:
                raise PointsError(
                    f"{path} holds records of another model, other points or other settings.",
                    remedy="Name another file, or run with the same options to go on.",
                )
            self._write("w", [header, *self.records])  # without a line that was cut short
        else:
            self._write("w", [header])

    def add(self, records: Sequence[PointRecord]) -> None:
        """Append records; raises :class:`PointsError` if they cannot be written."""
        self._write("a", records)
        self.records += records

    def _write(self, mode: Literal["a", "w"], lines: Iterable[Header | PointRecord]) -> None:
        text = "".join(json.dumps(msgspec.to_builtins(line)) + "\n" for line in lines)
        try:
            with self._path.open(mode, encoding="ascii") as file:
                file.write(text)
        except OSError as error:
            raise PointsError(f"{self._path} cannot be written: {error.strerror}.") from error


def read_records(path: Path) -> tuple[Header, list[PointRecord]]:
    """Read a file of records; a last line that was not written to its end is left out.

    Raises :class:`PointsError`.
    """
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise PointsError(f"cannot read the records in {path}: {error}.") from error
    lines = text.split("\n")[:-1]
    if not lines:
        raise PointsError(f"{path} holds no records.")
    try:
        header = _read(lines[0], Header)
        return header, [_read(line, PointRecord) for line in lines[1:]]
    except (json.JSONDecodeError, msgspec.ValidationError) as error:
        raise PointsError(f"{path} is no file of records of points: {error}.") from error


def _read(line: str, kind: Callable[..., Any]) -> Any:
    # msgspec's own reader refuses lone surrogates.
    return msgspec.convert(json.loads(line), kind)
