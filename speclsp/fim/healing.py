"""Token healing: what was typed last is left out of the prompt and held the model to.

A tokenizer cuts a text where it ends, and not where the finished text would be cut: behind
``"    "`` or ``"Fran"`` a model that learned ``"    return"`` and ``"Francon"`` as other tokens
goes on as if those had been passed by (with one space too many, say).  So the prompt ends before
the last token of the cursor's line, or before all of it where that is only white space; and until
the text held back has been said again, the model chooses among the tokens that go along with it
(described by Lundberg, "The Art of Prompt Design: Prompt Boundaries and Token Healing", 2023).

The choice is restricted in the sampler, so that drafts are verified against the same restriction.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, Sampler
from speclsp.fim.protocol import Vocabulary

_N_CHARS_LOOKED_AT = 200
"""Characters before the cursor that decide where its last token begins."""

TokenIds = NDArray[np.int64]


def held_back(vocabulary: Vocabulary, line_before: str) -> str:
    """Return the end of the cursor's line up to the cursor that the prompt should leave out."""
    if not line_before.strip(" \t"):
        return line_before
    tail = line_before[-_N_CHARS_LOOKED_AT:]
    data = b""
    for token in reversed(vocabulary.tokenize(tail).tolist()):
        data = vocabulary.piece(token) + data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            continue  # the token begins inside a character: take the one before it, too
        return text if text and len(text) < len(tail) and tail.endswith(text) else ""
    return ""


class TokenPrefixes:
    """The vocabulary's tokens by the bytes that they begin with.

    Takes some hundred milliseconds to make for 150,000 tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        entries = sorted(
            (piece, token)
            for token in range(vocabulary.n_tokens)
            if token not in vocabulary.end_tokens and (piece := vocabulary.piece(token))
        )
        self._pieces = [piece for piece, _ in entries]
        self._ids: TokenIds = np.array([token for _, token in entries], dtype=np.int64)

    def going_along_with(self, data: bytes) -> TokenIds:
        """Return the tokens that begin with ``data`` or that ``data`` begins with."""
        ranges = [self._range(data, _after(data))]
        ranges += [self._range(data[:n], data[:n] + b"\0") for n in range(1, len(data))]
        return np.concatenate([self._ids[start:end] for start, end in ranges])

    def _range(self, first: bytes, end: bytes | None) -> tuple[int, int]:
        start = bisect_left(self._pieces, first)
        return start, len(self._pieces) if end is None else bisect_left(self._pieces, end)


def _after(data: bytes) -> bytes | None:
    """Return the first bytes that are behind everything which begins with ``data``."""
    stripped = data.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


class HealingSampler:
    """A sampler that holds another one to text until that has been said."""

    def __init__(
        self, sampler: Sampler, prefixes: TokenPrefixes, vocabulary: Vocabulary, text: str
    ) -> None:
        self._sampler = sampler
        self._prefixes = prefixes
        self._piece = vocabulary.piece
        self._data = text.encode("utf-8", "replace")

    def sample(self, row: LogitRow) -> int:
        """Return the token that follows, given its logits, shape [n_vocab]."""
        if not self._data:
            return self._sampler.sample(row)
        allowed = self._prefixes.going_along_with(self._data)
        if not allowed.size:
            self._data = b""  # no token can say it: a vocabulary without all bytes
            return self._sampler.sample(row)
        token = self._sampler.sample(_masked(row, allowed))
        self._data = self._data[len(self._piece(token)) :]
        return token


def _masked(row: LogitRow, allowed: TokenIds) -> LogitRow:
    masked = np.full_like(row, -np.inf)
    masked[allowed] = row[allowed]
    return masked
