"""How sure the model was of a completion's text, in all and line by line.

The measure is the mean log-probability of the text's tokens: their geometric mean probability, its
logarithm taken.  Unlike the probability of the text it does not fall with the text's length.

Only tokens that contributed to the text count: not those that said again what the user had typed
(token healing), nor those behind the place where a stop rule cut, nor the end token.  Which they
are is told by counting the characters that are no white space, since the text's indentation and
line ends are the file's and not the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

from speclsp.text.trim import Trimmed

_WHITE_SPACE: Final = b" \t\r\n\f\v"


@dataclass(frozen=True, slots=True)
class TextScores:
    """The log-probabilities of a text's tokens, and where in the text they begin."""

    logprobs: tuple[float, ...]
    starts: tuple[int, ...]
    """For each token, how many bytes of the text that are no white space stand before it."""

    end: int
    """The index behind the last of them, among all tokens that were emitted."""

    def mean(self, text: str) -> float | None:
        """Return the mean over the tokens of ``text``, which the whole text begins with.

        None where there are none, or where the model gave no numbers.
        """
        n_dense = _n_dense(text.encode("utf-8", "replace"))
        logprobs = [p for p, s in zip(self.logprobs, self.starts, strict=True) if s < n_dense]
        mean = math.fsum(logprobs) / len(logprobs) if logprobs else math.nan
        return mean if math.isfinite(mean) else None


def text_scores(
    pieces: Sequence[bytes], logprobs: Sequence[float], text: str, *, typed: str = ""
) -> TextScores:
    """Return the scores of the tokens of ``text``.

    ``pieces`` are the bytes of all emitted tokens, which begin with ``typed``, what the user had
    typed already.
    """
    n_dense = _n_dense(text.encode("utf-8", "replace"))
    n_typed = len(typed.encode("utf-8", "replace"))
    begins = [0, *accumulate(map(len, pieces))]
    starts = [0, *accumulate(_own_dense(pieces, begins, n_typed))]
    own = [
        idx
        for idx in range(len(pieces))
        if begins[idx + 1] > n_typed and pieces[idx] and starts[idx] < n_dense
    ]
    return TextScores(
        logprobs=tuple(logprobs[idx] for idx in own),
        starts=tuple(starts[idx] for idx in own),
        end=own[-1] + 1 if own else 0,
    )


Fit: TypeAlias = Callable[[str], Trimmed]
"""Fits what is left of a text to the text around the cursor."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of a text is shown."""

    text: str
    n_replaced: int
    mean_logprob: float | None
    """Of the text; where it is withheld, of what was not shown."""
    withheld: bool = False


def verdict(text: str, n_replaced: int, scores: TextScores, threshold: float, fit: Fit) -> Verdict:
    """Withhold a text whose mean log-probability is below ``threshold``, or cut it.

    It is cut at its last line up to which the mean reaches the threshold, and as ``fit`` says then,
    but not where it replaces something behind the cursor, which was found for all of it.
    """
    mean = scores.mean(text)
    if mean is None or mean >= threshold:
        return Verdict(text, n_replaced, mean)
    part = fit("" if n_replaced else confident_part(text, scores, threshold))
    if part.text:
        return Verdict(part.text, part.n_replaced, scores.mean(part.text))
    return Verdict("", 0, mean, withheld=True)


def confident_part(text: str, scores: TextScores, threshold: float) -> str:
    """Return as many whole lines of ``text`` as have a mean of ``threshold`` or more.

    All of it where that is so of all of it, and nothing where it is so of no beginning.
    """
    lines = text.splitlines(keepends=True)
    for n_lines in range(len(lines), 0, -1):
        part = "".join(lines[:n_lines])
        mean = scores.mean(part)
        if mean is not None and mean >= threshold:
            return part if n_lines == len(lines) else part.rstrip()
    return ""


def _own_dense(pieces: Sequence[bytes], begins: Sequence[int], n_typed: int) -> list[int]:
    """How many bytes of each piece are neither white space nor typed already."""
    return [
        _n_dense(piece[max(0, n_typed - begin) :])
        for piece, begin in zip(pieces, begins, strict=False)
    ]


def _n_dense(data: bytes) -> int:
    return len(data.translate(None, _WHITE_SPACE))
