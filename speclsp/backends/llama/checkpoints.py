"""Saved states of recurrent layers.

Such layers keep one state instead of all positions, so tokens can be taken back only by restoring a
state that was saved before them.  What hybrid models' attention layers hold of the text stays where
it is: of these a state has nothing.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from llama_cpp import llama_cpp as llama
from numpy.typing import NDArray

from speclsp.backends.llama.sequences import TEXT

_BYTES: Any = ctypes.POINTER(ctypes.c_uint8)
_PARTIAL: Final = llama.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
_ON_DEVICE: Final = llama.LLAMA_STATE_SEQ_FLAGS_ON_DEVICE
_N_KEPT: Final = 2
"""States in the host's memory: of the prompt's stable part, and of the last place gone back to."""


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    n_tokens: int
    """Tokens that the state follows."""
    data: NDArray[np.uint8]
    flags: int


class Checkpoints:
    """The saved states of one context's text, of its present tokens only."""

    def __init__(self, context: int) -> None:
        self._context = context
        self._kept: list[_Checkpoint] = []
        self._before_draft: _Checkpoint | None = None

    def last(self, n_tokens: int) -> int:
        """Return the most tokens, at most ``n_tokens``, that a state was saved after, or 0."""
        return max((one.n_tokens for one in self._all() if one.n_tokens <= n_tokens), default=0)

    def save(self, n_tokens: int) -> None:
        """Save the state after all ``n_tokens`` of the text; the oldest one makes room."""
        if any(one.n_tokens == n_tokens for one in self._kept):
            return
        saved = self._saved(n_tokens, _PARTIAL)
        if saved is not None:
            self._kept = [*self._kept, saved][-_N_KEPT:]

    def save_before_draft(self, n_tokens: int) -> None:
        """Save the state on the device, where only the last such state is kept."""
        if self.last(n_tokens) != n_tokens:
            self._before_draft = self._saved(n_tokens, _PARTIAL | _ON_DEVICE)

    def restore(self, n_tokens: int) -> bool:
        """Restore the state after ``n_tokens``, forget later ones, and return whether it worked.

        Attention layers still hold what followed.
        """
        self.forget_after(n_tokens)
        saved = next((one for one in self._all() if one.n_tokens == n_tokens), None)
        return saved is not None and write_state(self._context, saved.data, saved.flags)

    def forget_after(self, n_tokens: int) -> None:
        """Forget the states after more than ``n_tokens``."""
        self._kept = [one for one in self._kept if one.n_tokens <= n_tokens]
        if self._before_draft is not None and self._before_draft.n_tokens > n_tokens:
            self._before_draft = None

    def clear(self) -> None:
        """Forget all states."""
        self._kept.clear()
        self._before_draft = None

    def _all(self) -> list[_Checkpoint]:
        return self._kept if self._before_draft is None else [*self._kept, self._before_draft]

    def _saved(self, n_tokens: int, flags: int) -> _Checkpoint | None:
        data = read_state(self._context, flags)
        return None if data is None else _Checkpoint(n_tokens, data, flags)


def read_state(context: int, flags: int = 0) -> NDArray[np.uint8] | None:
    """Return a copy of the text's state, with ``flags`` of a part of it; None if that fails."""
    llama.llama_synchronize(context)
    size = int(llama.llama_state_seq_get_size_ext(context, TEXT, flags))
    data = np.empty(size, dtype=np.uint8)
    n_bytes = llama.llama_state_seq_get_data_ext(
        context, data.ctypes.data_as(_BYTES), size, TEXT, flags
    )
    return data if size and n_bytes == size else None


def write_state(context: int, data: NDArray[np.uint8], flags: int = 0) -> bool:
    """Replace the text's state by one that :func:`read_state` returned; False if that fails."""
    n_bytes = llama.llama_state_seq_set_data_ext(
        context, data.ctypes.data_as(_BYTES), data.nbytes, TEXT, flags
    )
    return int(n_bytes) == data.nbytes
