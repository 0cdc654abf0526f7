"""Prompts of programs as tokens, and tokens as text, by the target's vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from speclsp.drafting.drafter import TokenArray


class PromptVocabulary(Protocol):
    """What is needed of a vocabulary."""

    n_tokens: int

    def tokenize_prompt(self, text: str, *, adds_special: bool, parses_special: bool) -> TokenArray:
        """Return the tokens of a text, as llama.cpp makes them of a prompt."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text."""

    def text(self, token: int) -> str:
        """Return a token as the vocabulary spells it."""


class PromptTokens:
    """The model's name, and its vocabulary for prompts."""

    def __init__(self, name: str, vocabulary: PromptVocabulary) -> None:
        self.name = name
        self._vocabulary = vocabulary

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""
        return self._vocabulary.n_tokens

    def tokens(self, prompt: str | Sequence[int | str]) -> tuple[int, ...]:
        """Return a prompt's tokens; names of special tokens in its texts are such tokens.

        A list's first part gets the tokens that a prompt begins with, as llama.cpp has it.
        """
        parts = [prompt] if isinstance(prompt, str) else prompt
        found: list[int] = []
        for idx, part in enumerate(parts):
            if isinstance(part, int):
                found.append(part)
            else:
                found += self.tokenize(part, adds_special=idx == 0, parses_special=True)
        return tuple(found)

    def tokenize(self, text: str, *, adds_special: bool, parses_special: bool) -> list[int]:
        """Return the tokens of a text."""
        tokens: list[int] = self._vocabulary.tokenize_prompt(
            text, adds_special=adds_special, parses_special=parses_special
        ).tolist()
        return tokens

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; special ones as they are spelt.  Raises IndexError."""
        if not 0 <= token < self.n_vocab:
            raise IndexError(f"token {token} is not in a vocabulary of {self.n_vocab}")
        return self._vocabulary.piece(token) or self._vocabulary.text(token).encode()

    def text(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens.  Raises IndexError."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")
