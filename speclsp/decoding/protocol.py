"""What the decoding loop needs of a target model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Shape [n, n_vocab]; a view that is valid until the next decode."""


class Target(Protocol):
    """One model context whose KV cache holds ``cached``."""

    @property
    def n_ctx(self) -> int:
        """Positions that the KV cache holds, the model's trained context at most."""

    @property
    def n_batch(self) -> int:
        """Most tokens of one decode call."""

    @property
    def n_ubatch(self) -> int:
        """Tokens that the backend computes at once: the grain of prefill cancellation."""

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""

    @property
    def cached(self) -> Sequence[int]:
        """The token ids that the KV cache holds, by position."""

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions, forget the rest."""

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append ``tokens`` to the cache and return the logits of the last ``n_logits`` of them.

        Row i of the result predicts what follows token ``len(tokens) - n_logits + i``.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty.
        """
