"""The end of a token sequence, in the form that segments are searched for."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import numpy as np

from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.suffix_array import DEPTH, SEPARATOR

KEY_TOKENS: Final = 3
KEY_BITS: Final = 21

MAX_TOKEN: Final = 2**KEY_BITS - 2
"""Largest token id that can be indexed: three of them, each plus one, share a key of 63 bits."""

_NO_KEYS: Final = [SEPARATOR] * (2 * KEY_TOKENS)


class Query:
    """The end of a token sequence, prepared for searching segments.

    It takes at most the last ``n_max`` tokens.  Nothing matches an id that no file can hold.
    """

    __slots__ = ("_tail", "_text", "deeper_key", "key", "n_tokens")

    def __init__(self, tail: TokenArray, n_max: int) -> None:
        self._tail = tail[-min(n_max, DEPTH) :][::-1]
        self.n_tokens = len(self._tail)
        nearest = self._tail[: 2 * KEY_TOKENS].tolist()
        if nearest and not 0 <= min(nearest) <= max(nearest) <= MAX_TOKEN:
            # In keys there is no number left for such an id.
            nearest = list(takewhile(lambda token: 0 <= token <= MAX_TOKEN, nearest))
            self.n_tokens = len(nearest)
        first, second, third, *deeper = [token + 1 for token in nearest] + _NO_KEYS[len(nearest) :]
        self.key = (first << 2 * KEY_BITS) | (second << KEY_BITS) | third
        first, second, third = deeper
        self.deeper_key = (first << 2 * KEY_BITS) | (second << KEY_BITS) | third
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """The tokens, the last one first, as segments hold them."""
        if self._text is None:
            tokens = self._tail[: self.n_tokens].astype(np.uint32)
            # A negative id is a very large one now.
            tokens[tokens > MAX_TOKEN] = np.iinfo(np.uint32).max - 1
            self._text = (tokens + np.uint32(1)).astype(">u4").tobytes()
        return self._text
