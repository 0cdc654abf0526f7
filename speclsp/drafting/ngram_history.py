"""The text that n-grams are looked up in: before the cursor, behind it, and other open buffers.

What llama.cpp's n-gram drafters call the token history is the text here, not the model's prompt,
whose last token before anything is generated is always ``<|fim_middle|>``.  Everything is indexed
once; a new request costs what changed since the last one, a generated token one entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from speclsp.drafting.ngram_stack import NgramStack, hash_weights, n_shared_at_start, ngram_hashes
from speclsp.drafting.protocol import DraftContext, TokenArray

_Indexed: TypeAlias = tuple[TokenArray, NgramStack]


@dataclass(frozen=True, slots=True)
class Continuation:
    """What followed the key at one place of the history."""

    tokens: tuple[int, ...]
    source: str
    ends_at_cursor: bool = False
    """Whether ``tokens`` are fewer than wanted since the text ends there, at the cursor."""

    def first(self, n_tokens: int) -> tuple[int, ...]:
        """Return ``n_tokens`` tokens, or fewer where a buffer ends.

        Behind the cursor stands what is being drafted itself, so a copy from a place close before
        the cursor goes round: the loop that the text is in goes on.
        """
        tokens = self.tokens
        if self.ends_at_cursor and len(tokens) < n_tokens:
            tokens *= -(-n_tokens // len(tokens))
        return tokens[:n_tokens]


class NgramHistory:
    """All places of the last ``n`` tokens at the cursor, the key."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._weights = hash_weights(n)
        self._written = NgramStack(self._weights)
        # The text behind the cursor changes at its start, so it is pushed from its end on.
        self._behind = NgramStack(self._weights[::-1].copy())
        self._open: list[_Indexed] = []
        self._n_generated = 0

    def begin(self, context: DraftContext) -> None:
        """Take a request's texts."""
        self._written.set(context.prefix)
        self._behind.set(context.suffix[::-1])
        self._open = self._opened(context.buffers)
        self._n_generated = 0

    def extend(self, generated: Sequence[int]) -> None:
        """Append what is new of the request's generated tokens."""
        if len(generated) > self._n_generated:
            self._written.extend(np.array(generated[self._n_generated :], dtype=np.int32))
            self._n_generated = len(generated)

    def key(self) -> array[int]:
        """Return the last n tokens at the cursor; fewer where there are no more."""
        return self._written.tokens[-self._n :]

    def continuations(self, n_wanted: int) -> Iterator[Continuation]:
        """Yield up to ``n_wanted`` tokens from behind each earlier place of the key.

        First come the places before the cursor and then those behind it, both the nearest first;
        then other open buffers, the most recently used first.
        """
        ngram = self.key()
        if len(ngram) < self._n or n_wanted < 1:
            return
        key = int(ngram_hashes(np.array(ngram, dtype=np.int32), self._weights)[0])
        text = self._written.tokens
        for place in self._written.places(key, ngram):
            if place < len(text):
                tokens = tuple(text[place : place + n_wanted])
                yield Continuation(tokens, "buffer", place + n_wanted > len(text))
        text = self._behind.tokens
        for place in self._behind.places(key, ngram[::-1]):
            end = place - self._n
            if end:
                tokens = tuple(reversed(text[max(0, end - n_wanted) : end]))
                yield Continuation(tokens, "buffer")
        for _, stack in self._open:
            text = stack.tokens
            for place in stack.places(key, ngram):
                if place < len(text):
                    yield Continuation(tuple(text[place : place + n_wanted]), "open")

    def _opened(self, buffers: Sequence[TokenArray]) -> list[_Indexed]:
        """Return a stack for each buffer: its own, or else the most similar one that is free."""
        free = {id(tokens): (tokens, stack) for tokens, stack in self._open}
        known = [free.pop(id(tokens), None) for tokens in buffers]
        return [
            pair or (tokens, self._similar(tokens, free))
            for tokens, pair in zip(buffers, known, strict=True)
        ]

    def _similar(self, tokens: TokenArray, free: dict[int, _Indexed]) -> NgramStack:
        shared = {key: n_shared_at_start(known, tokens) for key, (known, _) in free.items()}
        best = max(shared, key=shared.__getitem__, default=None)
        if best is not None and shared[best]:
            _, stack = free.pop(best)
        else:
            stack = NgramStack(self._weights)
        stack.set(tokens)
        return stack
