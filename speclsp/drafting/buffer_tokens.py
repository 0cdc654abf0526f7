"""Tokens of a whole open buffer, kept up to date at the cost of what changed.

The drafters search the whole buffer, so its tokens are needed at every keystroke.  The text is cut
into blocks of lines.  A new version is compared with the old one block by block from both ends; the
blocks between are cut again with their neighbours, and tokenised where they changed.

A block ends after a newline that is followed by a line with text: byte-level pre-tokenizers join a
newline with blank lines after it, so such a cut does not change the tokens.  Where they join it
with the next line's indentation, too, as GPT-2's does, the cut costs one more token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from speclsp.drafting.drafter import EMPTY_TOKENS, TokenArray

Tokenize: TypeAlias = Callable[[str], TokenArray]

BLOCK_LINES = 8
"""Least lines per block, except where a change ends; few, since the block at the cursor is
tokenised at every keystroke."""
N_KEPT_PIECES = 4
"""Parts of blocks whose tokens are kept: enough for two cursors."""
MAX_BLOCK_CHARS = 8192
"""Longer blocks, of minified files, are cut inside a line."""


@dataclass(frozen=True, slots=True)
class _Block:
    text: str
    tokens: TokenArray


def cut_blocks(text: str) -> list[str]:
    """Cut a text into blocks; joined they are the text."""
    blocks: list[str] = []
    start, n_lines = 0, 0
    position = 0
    while position < len(text):
        newline = text.find("\n", position)
        end = len(text) if newline < 0 else newline + 1
        if n_lines >= BLOCK_LINES and not text[position:end].isspace():
            blocks.append(text[start:position])
            start, n_lines = position, 0
        n_lines += 1
        while end - start > MAX_BLOCK_CHARS:
            blocks.append(text[start : start + MAX_BLOCK_CHARS])
            start, n_lines = start + MAX_BLOCK_CHARS, 0
        position = end
    if start < len(text):
        blocks.append(text[start:])
    return blocks


class BufferTokens:
    """The tokens of one buffer.  Not thread-safe: the engine thread owns it."""

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._blocks: list[_Block] = []
        self._whole: TokenArray | None = None
        self._piece = lru_cache(N_KEPT_PIECES)(tokenize)
        """Returns the tokens of part of a block."""

    @property
    def n_chars(self) -> int:
        """Characters from the text's start that are tokenised."""
        return sum(len(block.text) for block in self._blocks)

    def update(self, text: str, n_chars_max: int | None = None) -> bool:
        """Take the buffer's new text and tokenise the blocks that changed.

        After about ``n_chars_max`` new characters, the rest of the text is left out until the next
        call.  Returns whether all of the text is tokenised.
        """
        blocks = self._blocks
        n_head, head_end = _matching_head(blocks, text)
        n_tail, tail_start = _matching_tail(blocks[n_head:], text, head_end)
        if n_head + n_tail == len(blocks) and head_end == tail_start:
            return True
        # The blocks beside the change are cut anew, too: they may be too short now, or its first
        # and last line may be theirs.
        if n_head:
            n_head -= 1
            head_end -= len(blocks[n_head].text)
        if n_tail:
            tail_start += len(blocks[len(blocks) - n_tail].text)
            n_tail -= 1
        known = {block.text: block for block in blocks[n_head : len(blocks) - n_tail]}
        pieces = cut_blocks(text[head_end:tail_start])
        cut: list[_Block] = []
        n_chars = 0
        for piece in pieces:
            block = known.get(piece)
            if block is None:
                if n_chars_max is not None and n_chars >= n_chars_max:
                    break
                n_chars += len(piece)
                block = _Block(piece, self._tokenize(piece))
            cut.append(block)
        is_all = len(cut) == len(pieces)
        self._blocks = blocks[:n_head] + cut + (blocks[len(blocks) - n_tail :] if is_all else [])
        self._whole = None
        return is_all

    def tokens(self) -> TokenArray:
        """Return the tokens of the whole text."""
        if self._whole is None:
            self._whole = _joined([block.tokens for block in self._blocks])
        return self._whole

    def before(self, offset: int) -> TokenArray:
        """Return the tokens before ``offset`` (code points), tokenised up to there."""
        idx, start = self._block_at(offset)
        tokens = [block.tokens for block in self._blocks[:idx]]
        if start < offset and idx < len(self._blocks):
            tokens.append(self._piece(self._blocks[idx].text[: offset - start]))
        return _joined(tokens)

    def after(self, offset: int) -> TokenArray:
        """Return the tokens after ``offset`` (code points), tokenised from there."""
        idx, start = self._block_at(offset)
        tokens = [block.tokens for block in self._blocks[idx:]]
        if start < offset and tokens:
            tokens[0] = self._piece(self._blocks[idx].text[offset - start :])
        return _joined(tokens)

    def _block_at(self, offset: int) -> tuple[int, int]:
        """Return the index and the start of the block with the character at ``offset``.

        That is the number of blocks and the text's length where no such character is tokenised.
        """
        start = 0
        for idx, block in enumerate(self._blocks):
            if offset < start + len(block.text):
                return idx, start
            start += len(block.text)
        return len(self._blocks), start


def _matching_head(blocks: list[_Block], text: str) -> tuple[int, int]:
    """Return how many blocks from the start stand in ``text`` too, and where they end."""
    end = 0
    for n_head, block in enumerate(blocks):
        if not text.startswith(block.text, end):
            return n_head, end
        end += len(block.text)
    return len(blocks), end


def _matching_tail(blocks: list[_Block], text: str, head_end: int) -> tuple[int, int]:
    """Return how many blocks from the end stand in ``text`` too, and where they start."""
    start = len(text)
    for n_tail, block in enumerate(reversed(blocks)):
        begin = start - len(block.text)
        if begin < head_end or not text.startswith(block.text, begin):
            return n_tail, start
        start = begin
    return len(blocks), start


def _joined(arrays: list[TokenArray]) -> TokenArray:
    joined = np.concatenate(arrays) if arrays else EMPTY_TOKENS
    joined.setflags(write=False)
    return joined
