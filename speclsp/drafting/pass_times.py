"""What passes take and what drafting gained, so that a drafter that only costs time rests."""

from __future__ import annotations

from typing import Final

_MEMORY: Final = 32.0
"""Passes after which the weight of an older one's time has fallen to 1/e."""

_WINDOW: Final = 48
"""Passes over which gain and cost are compared."""
_FIRST_REST: Final = 32
_LONGEST_REST: Final = 512


class PassTimes:
    """Estimates T(1) from passes of all sizes, and what drafting takes beside it."""

    def __init__(self) -> None:
        self.single_s = 0.0
        """T(1) in seconds; 0 where no pass was timed."""
        self._draft_s = 0.0
        self._ratio = 1.0
        self._started: float | None = None

    def begin(self) -> None:
        """Forget the pass under way: the request is another one."""
        self._started = None

    def started(self, now: float, ratio: float) -> None:
        """Note that a pass starts that is expected to take ``ratio`` times T(1)."""
        self._started = now
        self._ratio = ratio

    def ended(self, now: float) -> None:
        """Note that the pass has ended; told twice, the first time counts."""
        if self._started is None:
            return
        single_s = (now - self._started) / self._ratio
        self._started = None
        if self.single_s <= 0.0:
            self.single_s = single_s
        else:
            # A pause of the machine must not pass for a slow model.
            single_s = min(single_s, 4.0 * self.single_s)
            self.single_s += (single_s - self.single_s) / _MEMORY

    def drafted(self, seconds: float) -> None:
        """Note what it took to find candidates and to choose from them."""
        self._draft_s += (seconds - self._draft_s) / (_MEMORY if self._draft_s else 1.0)

    @property
    def overhead(self) -> float:
        """What a draft takes to make, in units of T(1)."""
        return self.in_passes(self._draft_s)

    def in_passes(self, seconds: float) -> float:
        """Return a time in units of T(1), 0 as long as that is not known."""
        return seconds / self.single_s if self.single_s > 0.0 else 0.0


class DraftRest:
    """Lets drafting rest where it cost more than it gained, each time longer.

    A pass that emits n tokens is worth n passes without a draft; it costs its own time and the
    drafters', both in units of T(1).
    """

    def __init__(self) -> None:
        self._n_passes = 0
        self._gain = 0.0
        self._n_left = 0
        self._next_rest = _FIRST_REST

    def rests(self) -> bool:
        """Whether to draft nothing in the coming pass."""
        if self._n_left == 0:
            return False
        self._n_left -= 1
        return True

    def count(self, n_emitted: int, cost: float) -> None:
        """Count a pass that was drafted for, if only to find nothing."""
        self._n_passes += 1
        self._gain += n_emitted - cost
        if self._n_passes < _WINDOW:
            return
        if self._gain < 0.0:
            self._n_left = self._next_rest
            self._next_rest = min(2 * self._next_rest, _LONGEST_REST)
        else:
            self._next_rest = _FIRST_REST
        self._n_passes = 0
        self._gain = 0.0
