"""Pieces of secrets, by which texts that hold part of one are found.

Which texts must be forgotten does not depend on where an edit cut them: a text that holds eight
characters in a row of a secret holds one of its pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from speclsp.seam.documents import Range, Ranges
from speclsp.secrets.spans import Span, merged

N_LETTERS: Final = 8
"""Characters in a row of a secret that may not be shown or kept."""
_LEAST: Final = 4
"""Characters of the shortest secrets that are found, as a whole: shorter ones stand in any text."""
_MOST: Final = 100_000
"""Of secrets with more characters every text is taken to hold a piece."""
_FEW: Final = 64
"""So many pieces are searched for one by one, more by looking up each place of the text."""


class Pieces:
    """The pieces of some secrets; false where there are none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets: Final = tuple(secret for secret in secrets if len(secret) >= _LEAST)
        """Those that are long enough to be found."""
        self._is_any = sum(map(len, self.secrets)) > _MOST
        self._short: frozenset[str] = frozenset()
        self._pieces: frozenset[str] = frozenset()
        if not self._is_any:
            self._short = frozenset(s for s in self.secrets if len(s) < N_LETTERS)
            self._pieces = frozenset(
                secret[start : start + N_LETTERS]
                for secret in self.secrets
                for start in range(len(secret) - N_LETTERS + 1)
            )

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def joined(self, more: Pieces) -> Pieces:
        """Return the pieces of both, see :func:`clipped`."""
        if not (self and more):
            return self or more
        return Pieces(clipped(dict.fromkeys((*self.secrets, *more.secrets))))

    def are_in(self, text: str) -> bool:
        """Whether a text holds a piece."""
        if self._is_any:
            return bool(text)
        if any(short in text for short in self._short):
            return True
        if len(self._pieces) <= _FEW:
            return any(piece in text for piece in self._pieces)
        starts = range(len(text) - N_LETTERS + 1)
        return any(text[start : start + N_LETTERS] in self._pieces for start in starts)

    def ranges_in(self, text: str) -> Ranges:
        """Return where a text holds pieces, those that overlap as one."""
        if self._is_any:
            return ((0, len(text)),)
        ranges: list[Range] = []
        for piece in (*self._short, *self._pieces):
            start = text.find(piece)
            while start >= 0:
                ranges.append((start, start + len(piece)))
                start = text.find(piece, start + 1)
        return tuple(merged(Span(*one) for one in ranges))


def clipped(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return secrets, or as many of them that any text is taken to hold a piece."""
    kept: list[str] = []
    n_letters = 0
    for secret in secrets:
        if n_letters > _MOST:
            break
        if len(secret) >= _LEAST:
            kept.append(secret[: _MOST + 1])
            n_letters += len(kept[-1])
    return tuple(kept)
