"""Token healing: what was typed last is left out of the prompt and held the model to.

A tokenizer cuts a text where it ends, and not where the finished text would be cut: behind
``"    "`` or ``"Fran"`` a model that learned ``"    return"`` and ``"Francon"`` as other tokens
goes on as if those had been passed by (with one space too many, say).  So the prompt ends at the
last *stable* boundary of the cursor's line, and until the text held back has been said again, the
model chooses among the tokens that go along with it (described by Lundberg, "The Art of Prompt
Design: Prompt Boundaries and Token Healing", 2023).

A boundary is stable if no token of the vocabulary can stand across it, however the text goes on.
Then every tokenisation of every continuation has a boundary there, and the prompt's tokens are
those that the finished text begins with.  Holding back the last token only, as is usual, does not
reach that: ``" retur"`` is ``" re"``, ``"tur"``, and behind ``" re"`` no model ever saw ``"turn"``.

The choice is restricted in the sampler, so that drafts are verified against the same restriction.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, RedrawingSampler
from speclsp.prompt.protocol import Vocabulary

_N_BYTES_MAX = 96
"""Most bytes that are held back; in base64 or a ruler no boundary may be stable for long."""

_N_REFUSED_MAX = 64
"""Most tokens that are refused at one boundary; a row of broken logits has no better ones."""

TokenIds = NDArray[np.int64]


def healing_prefix(prefixes: TokenPrefixes, line_before: str) -> str:
    """Return the end of the cursor's line up to the cursor that the prompt should leave out.

    ``prefixes`` are the vocabulary's tokens.  It is what stands behind the line's last stable
    boundary, whole characters of it, and all of a line that is only white space.
    """
    if not line_before.strip(" \t"):
        return line_before
    data = line_before.encode("utf-8", "replace")
    boundary = _character_start(data, prefixes.start_of_unfinished(data))
    while len(data) - boundary < _N_BYTES_MAX:
        before = _character_start(data, prefixes.start_of_token_across(data, boundary))
        if before == boundary:
            break
        boundary = before
    return line_before[len(line_before) - len(data[boundary:].decode("utf-8")) :]


def _character_start(data: bytes, boundary: int) -> int:
    """Return ``boundary``, or where the character begins that it lies in."""
    while 0 < boundary < len(data) and data[boundary] & 0xC0 == 0x80:
        boundary -= 1
    return boundary


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
        self._whole = frozenset(self._pieces)
        self._n_bytes_max = max(map(len, self._pieces), default=0)
        self._ids: TokenIds = np.array([token for _, token in entries], dtype=np.int64)

    def going_along_with(self, data: bytes) -> TokenIds:
        """Return the tokens that begin with ``data`` or that ``data`` begins with."""
        ranges = [self._range(data, _after(data))]
        ranges += [self._range(data[:n], data[:n] + b"\0") for n in range(1, len(data))]
        return np.concatenate([self._ids[start:end] for start, end in ranges])

    def start_of_unfinished(self, data: bytes) -> int:
        """Return where the first token begins that may go on beyond the end of ``data``."""
        for start in range(max(0, len(data) - self._n_bytes_max), len(data)):
            tail = data[start:]
            # Nothing that begins with ``tail`` lies between it and ``tail`` and a zero byte.
            first, end = self._range(tail + b"\0", _after(tail))
            if first < end:
                return start
        return len(data)

    def start_of_token_across(self, data: bytes, boundary: int) -> int:
        """Return where the first token begins that ends in ``data`` behind ``boundary``, not at it.

        It is ``boundary`` where there is no token across it.
        """
        for start in range(max(0, boundary - self._n_bytes_max), boundary):
            last_end = min(len(data), start + self._n_bytes_max)
            if any(data[start:end] in self._whole for end in range(boundary + 1, last_end + 1)):
                return start
        return boundary

    def is_stable(self, data: bytes, boundary: int) -> bool:
        """Whether no token stands across ``boundary``, however ``data`` goes on."""
        is_crossed = self.start_of_token_across(data, boundary) < boundary
        return not is_crossed and self.start_of_unfinished(data) >= boundary

    def _range(self, first: bytes, end: bytes | None) -> tuple[int, int]:
        start = bisect_left(self._pieces, first)
        return start, len(self._pieces) if end is None else bisect_left(self._pieces, end)


def _after(data: bytes) -> bytes | None:
    """Return the first bytes that are behind everything which begins with ``data``."""
    stripped = data.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


class HealingSampler:
    """A sampler that holds another one to text until that has been said.

    Where a token then ends at the cursor, those after it may not complete a word that the
    tokenizer would have cut elsewhere: that word's own token was among the choices before and was
    passed by, and what the model says behind such a cut is no longer what it was trained on.
    """

    def __init__(
        self,
        sampler: RedrawingSampler,
        prefixes: TokenPrefixes,
        vocabulary: Vocabulary,
        text: str,
    ) -> None:
        self._sampler = sampler
        self._prefixes = prefixes
        self._vocabulary = vocabulary
        self._typed = text.encode("utf-8", "replace")
        self._said = b""
        self._is_over = not text
        """Whether nothing is held to the text any more."""
        self.chosen_by: LogitRow | None = None
        """What the last token was chosen by, -inf for each token that was not to be had; None
        where that was the row as it was given."""

    def said(self, token: int) -> None:
        """Take a token that was chosen otherwise, to go on behind it."""
        if not self._is_over:
            self._say(self._vocabulary.piece(token))

    def refuses(self, token: int) -> bool:
        """Whether a token that goes along with the text may all the same not come next."""
        return (
            not self._is_over and len(self._said) >= len(self._typed) and self._moves_the_cut(token)
        )

    def sample(self, row: LogitRow) -> int:
        """Return the token that follows, given its logits, shape [n_vocab]."""
        self.chosen_by = None
        if self._is_over:
            return self._sampler.sample(row)
        remaining = self._typed[len(self._said) :]
        if not remaining:
            token = self._behind_the_cursor(row)
        else:
            allowed = self._prefixes.going_along_with(remaining)
            # No token can say it: a vocabulary without all bytes.
            self._is_over = not allowed.size
            self.chosen_by = _masked(row, allowed) if allowed.size else None
            token = self._sampler.sample(row if self.chosen_by is None else self.chosen_by)
        self._say(self._vocabulary.piece(token))
        return token

    def _say(self, piece: bytes) -> None:
        n_before, cursor = len(self._said), len(self._typed)
        self._said += piece
        if len(self._said) < cursor:
            return
        is_cut_at_cursor = bool(piece) and (n_before >= cursor or len(self._said) == cursor)
        if not is_cut_at_cursor or self._prefixes.is_stable(self._said, cursor):
            self._is_over = True

    def _behind_the_cursor(self, row: LogitRow) -> int:
        token = self._sampler.sample(row)
        if not self._moves_the_cut(token):
            return token
        row = self.chosen_by = row.copy()
        for _ in range(_N_REFUSED_MAX):
            row[token] = -np.inf
            # By the same random number: one is drawn for each token that is emitted.
            token = self._sampler.sample_again(row)
            if not self._moves_the_cut(token):
                break
        return token

    def _moves_the_cut(self, token: int) -> bool:
        """Whether the tokenizer would end no token at the cursor if ``token`` followed."""
        try:
            text = (self._said + self._vocabulary.piece(token)).decode("utf-8")
        except UnicodeDecodeError:
            return False
        tokens = self._vocabulary.tokenize(text).tolist()
        ends = accumulate(len(self._vocabulary.piece(natural)) for natural in tokens)
        return len(self._typed) not in ends


def _masked(row: LogitRow, allowed: TokenIds) -> LogitRow:
    masked = np.full_like(row, -np.inf)
    masked[allowed] = row[allowed]
    return masked
