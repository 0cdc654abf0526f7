"""Token healing: the prompt leaves out the last typed characters, and the model repeats them.

The end of a text is a token boundary, even where the finished text would have none: after
``"    "`` or ``"Fran"`` a model that learned ``"    return"`` and ``"Francon"`` as other tokens
continues as if these were excluded, with one space too many for example.  So the prompt ends at
the last *stable* boundary of the cursor's line, and until the text after it has been repeated,
only tokens that agree with it are allowed (Lundberg, "The Art of Prompt Design: Prompt Boundaries
and Token Healing", 2023).

A boundary is stable if no token of the vocabulary can span it, however the text continues.  Then
every tokenisation of every continuation has a boundary there, and the prompt's tokens are the
first tokens of the finished text.  Leaving out only the last token, as usual, is not enough:
``" retur"`` is ``" re"``, ``"tur"``, and no model ever saw ``"turn"`` after ``" re"``.

The sampler restricts the choice, so that drafts are verified under the same restriction.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, RedrawingSampler
from speclsp.vocabulary_protocol import Vocabulary

_N_BYTES_MAX = 96
"""Maximum bytes that are left out; base64 and rulers may have no stable boundary."""

_N_REFUSED_MAX = 64
"""Maximum tokens that are refused at one boundary, in case of broken logits."""

_LAST_PIECE = re.compile(r"(?:[^\w\s]| )?\w+\Z| ?[^\w\s]+\Z|\s+\Z")

TokenIds = NDArray[np.int64]


def healing_prefix(prefixes: TokenPrefixes, line_before: str) -> str:
    """Return the text before the cursor that the prompt leaves out.

    That is the text after the last stable boundary of the cursor's line, in whole characters, or
    all of a line of white space.  ``prefixes`` are the vocabulary's tokens.
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


def word_prefix(line_before: str) -> str:
    """Return the text before the cursor that the prompt leaves out where no vocabulary is known.

    That is the last word, run of symbols or of white space, with the one character before a word:
    most vocabularies have no token across its beginning.  All of a line of white space is left out.
    """
    if not line_before.strip(" \t"):
        return line_before
    near = line_before[-_N_BYTES_MAX:]
    found = _LAST_PIECE.search(near)
    if found is None or (found.start() == 0 and len(near) < len(line_before)):
        return ""
    return found[0]


def _character_start(data: bytes, boundary: int) -> int:
    """Return ``boundary``, or the start of the character that contains it."""
    while 0 < boundary < len(data) and data[boundary] & 0xC0 == 0x80:
        boundary -= 1
    return boundary


class TokenPrefixes:
    """The vocabulary's tokens by their first bytes.

    Construction takes some hundred milliseconds for 150,000 tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        entries = sorted(
            (piece, token)
            for token in range(vocabulary.n_tokens)
            if token not in vocabulary.end_tokens and (piece := vocabulary.piece(token))
        )
        self._pieces = [piece for piece, _ in entries]
        self._whole = frozenset(self._pieces)
        self.line_ends = frozenset(token for piece, token in entries if b"\n" in piece)
        """Tokens with a line feed."""
        self._n_bytes_max = max(map(len, self._pieces), default=0)
        self._ids: TokenIds = np.array([token for _, token in entries], dtype=np.int64)

    def compatible_with(self, data: bytes) -> TokenIds:
        """Return the tokens that begin with ``data``, and those that ``data`` begins with."""
        ranges = [self._range(data, _after(data))]
        ranges += [self._range(data[:n], data[:n] + b"\0") for n in range(1, len(data))]
        return np.concatenate([self._ids[start:end] for start, end in ranges])

    def start_of_unfinished(self, data: bytes) -> int:
        """Return the start of the first token that may continue beyond the end of ``data``."""
        for start in range(max(0, len(data) - self._n_bytes_max), len(data)):
            tail = data[start:]
            # ``tail`` itself sorts before ``tail`` and a zero byte, and all that continue it after.
            first, end = self._range(tail + b"\0", _after(tail))
            if first < end:
                return start
        return len(data)

    def start_of_token_across(self, data: bytes, boundary: int) -> int:
        """Return the start of the first token in ``data`` that spans ``boundary``.

        That is ``boundary`` if there is none.
        """
        for start in range(max(0, boundary - self._n_bytes_max), boundary):
            last_end = min(len(data), start + self._n_bytes_max)
            if any(data[start:end] in self._whole for end in range(boundary + 1, last_end + 1)):
                return start
        return boundary

    def is_stable(self, data: bytes, boundary: int) -> bool:
        """Whether no token spans ``boundary``, however ``data`` continues."""
        is_crossed = self.start_of_token_across(data, boundary) < boundary
        return not is_crossed and self.start_of_unfinished(data) >= boundary

    def _range(self, first: bytes, end: bytes | None) -> tuple[int, int]:
        start = bisect_left(self._pieces, first)
        return start, len(self._pieces) if end is None else bisect_left(self._pieces, end)


def _after(data: bytes) -> bytes | None:
    """Return the first bytes in sort order after everything that begins with ``data``."""
    stripped = data.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


class HealingSampler:
    """A sampler that constrains another sampler to a text until the text is complete.

    If a token then ends at the cursor, the next tokens may not complete a word that the tokenizer
    would cut elsewhere: the word's own token was among the choices before and was not chosen, and
    the model was not trained on such a cut.  Without this, 14 of 1,540 words are broken at the
    cursor (docs/decisions/prompt-layout.md).
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
        self._emitted = b""
        self._is_over = not text
        """Whether the restriction has ended."""
        self.chosen_by: LogitRow | None = None
        """The row that the last token was chosen from, -inf for excluded tokens; None if none was
        excluded."""

    def take(self, token: int) -> None:
        """Take a token that was chosen elsewhere."""
        if not self._is_over:
            self._emit(self._vocabulary.piece(token))

    def refuses(self, token: int) -> bool:
        """Whether a token is excluded although it agrees with the text."""
        return (
            not self._is_over
            and len(self._emitted) >= len(self._typed)
            and self._removes_boundary(token)
        )

    def sample(self, row: LogitRow) -> int:
        """Return the token that follows, given its logits, shape [n_vocab]."""
        self.chosen_by = None
        if self._is_over:
            return self._sampler.sample(row)
        remaining = self._typed[len(self._emitted) :]
        if not remaining:
            token = self._sample_after_cursor(row)
        else:
            allowed = self._prefixes.compatible_with(remaining)
            # A vocabulary without all bytes may have no such token.
            self._is_over = not allowed.size
            self.chosen_by = _masked(row, allowed) if allowed.size else None
            token = self._sampler.sample(row if self.chosen_by is None else self.chosen_by)
        self._emit(self._vocabulary.piece(token))
        return token

    def _emit(self, piece: bytes) -> None:
        n_before, cursor = len(self._emitted), len(self._typed)
        self._emitted += piece
        if len(self._emitted) < cursor:
            return
        ends_at_cursor = bool(piece) and (n_before >= cursor or len(self._emitted) == cursor)
        if not ends_at_cursor or self._prefixes.is_stable(self._emitted, cursor):
            self._is_over = True

    def _sample_after_cursor(self, row: LogitRow) -> int:
        token = self._sampler.sample(row)
        if not self._removes_boundary(token):
            return token
        row = self.chosen_by = row.copy()
        for _ in range(_N_REFUSED_MAX):
            row[token] = -np.inf
            # With the same random number: one is drawn for each emitted token.
            token = self._sampler.sample_again(row)
            if not self._removes_boundary(token):
                break
        return token

    def _removes_boundary(self, token: int) -> bool:
        """Whether the tokenizer would have no boundary at the cursor if ``token`` followed."""
        try:
            text = (self._emitted + self._vocabulary.piece(token)).decode("utf-8")
        except UnicodeDecodeError:
            return False
        tokens = self._vocabulary.tokenize(text).tolist()
        ends = accumulate(len(self._vocabulary.piece(natural)) for natural in tokens)
        return len(self._typed) not in ends


def _masked(row: LogitRow, allowed: TokenIds) -> LogitRow:
    masked = np.full_like(row, -np.inf)
    masked[allowed] = row[allowed]
    return masked
