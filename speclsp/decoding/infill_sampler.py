"""llama.cpp's sampler ``infill``, which its editor plugins ask for.

After ``llama_sampler_infill`` of llama.cpp's ``src/llama-sampler.cpp``: among the tokens that the
other samplers leave, a likely end wins; tokens of which one begins with the other count as one; and
unlikely tokens are left out, until the end if none is likely.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, SamplingParams, SeededSampler, candidates, draw

_END_FACTOR: Final = 3
"""The ends' probability, times this and the number of tokens, that exceeds the others' ends it."""
_LEAST: Final = 0.2


class InfillSampler(SeededSampler):
    """Draws as ``top_k``, ``top_p``, ``min_p`` and then ``infill``, in llama.cpp's order."""

    __slots__ = ("_ends", "_piece")

    def __init__(
        self, params: SamplingParams, ends: Collection[int], piece: Callable[[int], bytes]
    ) -> None:
        """``ends`` are the end tokens, the one first that is drawn where no token is likely.

        ``piece`` returns a token's bytes.
        """
        super().__init__(params)
        self._ends = tuple(ends)
        self._piece = piece

    def sample_again(self, row: LogitRow) -> int:
        """Return what :meth:`sample` would have returned for ``row`` instead of the last one."""
        token_ids, log_weights = candidates(row, self.params)
        weights = np.exp(log_weights)
        weights /= weights.sum()
        kept, shares = self._likely(token_ids, weights)
        if kept.size == 1:
            return int(kept[0])
        return draw(kept, np.log(shares), self.number)

    def _likely(
        self, token_ids: NDArray[np.int64], shares: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the tokens that may be drawn, and their shares, which need not sum to 1."""
        is_end = np.isin(token_ids, self._ends)
        p_end = float(shares[is_end].sum())
        if _END_FACTOR * p_end * token_ids.size > 1.0 - p_end:
            return token_ids[is_end], shares[is_end]
        shares = self._merged(token_ids, shares)
        kept = is_end | (shares >= _LEAST)
        n_texts = int((kept & ~is_end).sum())
        if not n_texts:
            return np.array(self._ends[:1], dtype=np.int64), np.ones(1)
        shares = shares / shares[kept].sum()
        kept &= (is_end & (shares > 0.0)) | (shares >= 1.0 / (n_texts + 1))
        return token_ids[kept], shares[kept]

    def _merged(
        self, token_ids: NDArray[np.int64], shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Add the share of each token to a likelier one of which it is the beginning, or a longer.

        Merged tokens have share 0.
        """
        merged = shares.copy()
        pieces = [self._piece(token) for token in token_ids.tolist()]
        for one, piece in enumerate(pieces):
            for other, longer in enumerate(pieces):
                if not merged[one]:
                    break
                if one == other or not merged[other] or not (piece and longer.startswith(piece)):
                    continue
                into, of = (one, other) if merged[one] >= merged[other] else (other, one)
                merged[into] += merged[of]
                merged[of] = 0.0
        return merged
