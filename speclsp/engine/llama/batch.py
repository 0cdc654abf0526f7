"""The one batch that all decodes of a context use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

_SEQUENCE = 0
_POSITION_POINTER = ctypes.POINTER(llama.llama_pos)


class DecodeBatch:
    """A ``llama_batch`` of one sequence on NumPy's memory: nothing is allocated per decode."""

    def __init__(self, n_batch: int, n_ctx: int) -> None:
        self._tokens = np.zeros(n_batch, dtype=np.int32)
        self._outputs = np.zeros(n_batch, dtype=np.int8)
        # Position p stands at index p, so that a batch's positions are a window of this array.
        self._positions = np.arange(n_ctx + n_batch, dtype=np.int32)
        self._position_address = self._positions.ctypes.data
        self._n_sequences = np.ones(n_batch, dtype=np.int32)
        self._sequence = np.full(1, _SEQUENCE, dtype=np.int32)
        sequence = self._sequence.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self._sequences = (ctypes.POINTER(ctypes.c_int32) * n_batch)(*[sequence] * n_batch)
        self.native: Any = llama.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(llama.llama_token_p),
            embd=None,
            pos=self._positions.ctypes.data_as(_POSITION_POINTER),
            n_seq_id=self._n_sequences.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=self._sequences,
            logits=self._outputs.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, tokens: Sequence[int], first_position: int, n_logits: int) -> None:
        """Take ``tokens`` at ``first_position`` and on; the last ``n_logits`` give logits."""
        n_tokens = len(tokens)
        n_silent = n_tokens - n_logits
        self._tokens[:n_tokens] = tokens
        self._outputs[:n_silent] = 0
        self._outputs[n_silent:n_tokens] = 1
        self.native.n_tokens = n_tokens
        window = self._position_address + first_position * self._positions.itemsize
        self.native.pos = ctypes.cast(window, _POSITION_POINTER)

    def tokens(self) -> list[int]:
        """The token ids as they went in, as plain integers, whatever sequence they came in."""
        ids: list[int] = self._tokens[: self.native.n_tokens].tolist()
        return ids
