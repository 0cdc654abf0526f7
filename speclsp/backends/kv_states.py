"""Saves the KV states of earlier prompts.

A context's cache holds one text.  The cache is copied before the prompt of another document or
position replaces it, and restored when a later prompt begins like the copy.  That takes
milliseconds instead of a prefill.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from speclsp.common_ends import common_head
from speclsp.decoding.target import Target

_N_WORTH: Final = 48
"""Fewest tokens that are worth a copy; fewer are evaluated as quickly."""

_N_STATES: Final = 64
"""Most saved states of any size: each prompt is compared with all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class KvState:
    """A copy of a target's cache: its tokens by position, and the engine's bytes."""

    tokens: tuple[int, ...]
    data: NDArray[np.uint8]


@runtime_checkable
class StatefulTarget(Target, Protocol):
    """A target whose cache can be saved and restored."""

    @property
    def state_size(self) -> int:
        """Size in bytes of the state that :meth:`save_state` would return."""

    def save_state(self) -> KvState | None:
        """Return a copy of the cache; None if that fails."""

    def restore_state(self, state: KvState) -> bool:
        """Replace the cache by ``state``; return False, with an empty cache, if that fails."""


class KvStates:
    """The saved states of one target.  Belongs to the target's thread."""

    def __init__(self, target: Target, n_bytes_max: int) -> None:
        """``n_bytes_max`` limits the bytes of all saved states; 0 saves none."""
        self._target = target
        self._stateful = target if isinstance(target, StatefulTarget) else None
        self._n_bytes_max = n_bytes_max
        self._states: OrderedDict[tuple[int, ...], KvState] = OrderedDict()
        self._n_prompt = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the saved states."""
        return sum(state.data.nbytes for state in self._states.values())

    def n_reusable(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a prompt the cache or a saved state holds."""
        return max(common_head(self._target.cached, tokens), self._best(tokens)[1])

    def prepare(self, tokens: Sequence[int]) -> None:
        """Restore the saved state that shares the longest beginning with a prompt.

        Saves the last prompt's state first where the new prompt replaces it.
        """
        target = self._target
        n_live = common_head(target.cached, tokens)
        best, n_best = self._best(tokens)
        if min(self._n_prompt, len(target.cached)) - n_live >= _N_WORTH:
            self._save()
        if self._stateful is not None and best is not None and n_best - n_live >= _N_WORTH:
            if not self._stateful.restore_state(best):
                self._states.pop(best.tokens, None)
            elif best.tokens in self._states:  # unless saving dropped it
                self._states.move_to_end(best.tokens)
        self._n_prompt = len(tokens)

    def _best(self, tokens: Sequence[int]) -> tuple[KvState | None, int]:
        best, n_best = None, 0
        for state in self._states.values():
            n_common = common_head(state.tokens, tokens)
            if n_common > n_best:
                best, n_best = state, n_common
        return best, n_best

    def _save(self) -> None:
        """Save the last prompt's state and drop saved states that it contains."""
        target = self._stateful
        if target is None or target.state_size > self._n_bytes_max:
            return
        target.truncate(self._n_prompt)
        live = tuple(target.cached)
        for tokens in list(self._states):
            n_common = common_head(tokens, live)
            if len(live) - n_common < _N_WORTH:
                self._states.move_to_end(tokens)
                return
            if len(tokens) - n_common < _N_WORTH:
                del self._states[tokens]
        state = target.save_state()
        if state is None:
            return
        self._states[state.tokens] = state
        while self.n_bytes > self._n_bytes_max or len(self._states) > _N_STATES:
            self._states.popitem(last=False)
