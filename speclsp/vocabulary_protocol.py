"""The interface of a model's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the window's side has no NumPy
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FimTokenIds:
    """Ids of the fill-in-the-middle tokens that the GGUF names; None if it names none."""

    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None
    pad: int | None = None
    repo: int | None = None
    separator: int | None = None


class Vocabulary(Protocol):
    """A model's tokens.  Safe to use from any thread."""

    @property
    def n_tokens(self) -> int:
        """The number of token ids."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The GGUF's scalar metadata, as text."""

    @property
    def fingerprint(self) -> str:
        """A hash over all tokens: equal for equal vocabularies, whatever the weights."""

    @property
    def bos(self) -> int | None:
        """The beginning-of-sequence token if the model wants one before a prompt."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a generation (llama.cpp's end-of-generation tokens)."""

    @property
    def fim(self) -> FimTokenIds:
        """The fill-in-the-middle tokens."""

    def tokenize(self, text: str) -> NDArray[np.int32]:
        """Return the tokens of plain text, shape [n], without BOS.

        Names of special tokens stay text.
        """

    def special(self, text: str) -> int | None:
        """Return the id of the control or user-defined token whose text is exactly ``text``."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text; empty for control tokens."""
