"""How confident the model was of a completion's text, by which texts are ordered.

The measure is the mean log-probability of the text's tokens, the logarithm of their geometric mean
probability.  Unlike the probability of the text it does not fall with the text's length.

Only tokens of the text count: not those that repeat what the user typed (token healing), nor those
after the place where a stop rule cut, nor the end token.  Tokens are matched to the text by
counting characters without white space, since the text has the file's indentation and line ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

_WHITE_SPACE: Final = b" \t\r\n\f\v"


@dataclass(frozen=True, slots=True)
class TextScores:
    """The log-probabilities of a text's tokens, and where in the text they begin."""

    logprobs: tuple[float, ...]
    starts: tuple[int, ...]
    """For each token, the bytes of the text before it, white space not counted."""

    end: int
    """The index after the last of them, among all tokens that were emitted."""

    def mean(self, text: str) -> float | None:
        """Return the mean over the tokens of ``text``, which the whole text begins with.

        None if there are none, or where the model gave no numbers.
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
    untyped = [p[max(0, n_typed - begin) :] for p, begin in zip(pieces, begins, strict=False)]
    starts = [0, *accumulate(map(_n_dense, untyped))]
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


def _n_dense(data: bytes) -> int:
    """Return how many bytes are no white space."""
    return len(data.translate(None, _WHITE_SPACE))
