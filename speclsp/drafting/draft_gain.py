"""What a costly drafter's draft is expected to gain, so that it runs only where it pays.

A draft model takes a part of the target's own time for each token.  Its draft is worth that where
the tokens that it usually gets right, per time with its own time added, are more than what the
other drafters' tree gives without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from speclsp.drafting.protocol import Draft
from speclsp.drafting.verify_curve import VerifyCurve

_COSTLY: Final = 0.1
"""Share of T(1) from which on a drafter's time counts."""
_PROBE_EVERY: Final = 32
"""A drafter that does not pay drafts once in so many passes: things change."""
_MEMORY: Final = 32.0
"""Drafts after which an older one has lost 1 − 1/e of its weight."""
_PRIOR: Final = 0.6
"""Share of first tokens that are right, and of each next one after a right one, to begin with."""
_PRIOR_WEIGHT: Final = 4.0


class DraftGain:
    """Follows one drafter's time and how far its drafts were right."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._n_calls = 0
        self._n_declined = 0
        self._draws = False
        self._right: list[float] = []
        self._seen: list[float] = []
        self._draft: tuple[int, ...] = ()

    def drafted(self, draft: Draft, seconds: float) -> None:
        """Note a draft and what it took."""
        tokens = draft.tokens
        self._draws = bool(draft.distributions)
        self._n_calls += 1
        # The first call evaluates the prompt: later ones overrule it.
        weight = 1.0 if self._n_calls <= 2 else 1.0 / min(self._n_calls, _MEMORY)
        self._seconds += weight * (seconds - self._seconds)
        self._draft = tokens
        missing = len(tokens) - len(self._seen)
        self._right += [_PRIOR * _PRIOR_WEIGHT] * missing
        self._seen += [_PRIOR_WEIGHT] * missing

    def learn(self, emitted: Sequence[int]) -> None:
        """Learn what became output where the last draft stood."""
        for depth, (token, real) in enumerate(zip(self._draft, emitted, strict=False)):
            keep = 1.0 - 1.0 / _MEMORY
            self._right[depth] = self._right[depth] * keep + (token == real)
            self._seen[depth] = self._seen[depth] * keep + 1.0
            if token != real:
                break
        self._draft = ()

    def is_cheap(self, single_s: float) -> bool:
        """Whether the drafter's time does not count; ``single_s`` is T(1), 0 if not known.

        One that draws is never cheap: its draft takes the others' place.
        """
        return not self._draws and self._seconds <= _COSTLY * single_s

    def pays(self, other_rate: float, curve: VerifyCurve, single_s: float) -> bool:
        """Whether to draft, where the others give ``other_rate`` tokens in the time of T(1)."""
        cost = self._seconds / single_s if single_s > 0.0 else 0.0
        if self._rate(curve, cost) > other_rate:
            self._n_declined = 0
            return True
        self._n_declined = (self._n_declined + 1) % _PROBE_EVERY
        return self._n_declined == 0

    def _rate(self, curve: VerifyCurve, cost: float) -> float:
        """Return the expected tokens in the time of T(1) with this drafter's draft alone.

        Endless before the first draft: it must be known what it takes.
        """
        expected, path, best = 1.0, 1.0, 0.0 if self._n_calls > 1 else math.inf
        for depth, (right, seen) in enumerate(zip(self._right, self._seen, strict=True)):
            path *= right / seen
            expected += path
            best = max(best, expected / (curve.ratio(depth + 2) + cost))
        return best
