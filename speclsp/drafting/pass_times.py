"""What passes take and what drafting gained, so that a drafter that only costs time rests."""

from __future__ import annotations

from typing import Final

_MEMORY: Final = 32.0
"""Passes after which the weight of an older one's time has fallen to 1/e."""

_WINDOW: Final = 48
"""Passes over which gain and cost are compared."""
_MOST_LOSS: Final = 4.0
"""Passes without a draft that may be lost before the window is over."""
_SHARE: Final = 0.01
"""Share of the time that look-ups may take where they gain nothing."""
_UPFRONT_SHARE: Final = 0.01
"""Share of a completion's time that look-ups may take before they have gained anything in it."""
_CLEARLY: Final = 10.0
"""Look-ups that gained so many times what they took need no such limit."""
_GAIN_PRIOR: Final = 8
"""Look-ups that are taken to have gained nothing before the first one."""
_GAIN_MEMORY: Final = 32.0
"""Look-ups after which the weight of an older one's gain has fallen to 1/e."""
_N_FREE: Final = 8
"""The first look-ups are made in any case: they tell what look-ups take and gain."""
_PROBE_EVERY: Final = 16
"""One completion in so many without a look-up has one all the same: what they take may change."""
_FIRST_REST: Final = 32
_LONGEST_UNLUCKY_REST: Final = 512
_LONGEST_REST: Final = 4096
_LONGEST_PAUSE: Final = 4.0
"""A time so many times the usual one is a pause of the machine, and counts no more than that."""


class PassTimes:
    """Estimates T(1) from passes of all sizes, and what drafting takes beside it."""

    def __init__(self) -> None:
        self.single_s = 0.0
        """T(1) in seconds; 0 where no pass was timed."""
        self._draft_s = 0.0
        self._n_drafted = 0
        self._begin_s = 0.0
        self._n_begun = 0
        self._ratio = 1.0
        self._started: float | None = None
        self._timed_any = False

    def begin(self, single_s: float) -> None:
        """Forget the pass under way: the request is another one.

        ``single_s`` is T(1) as others measured it, 0 where they did not; it serves until passes
        were timed here.
        """
        self._started = None
        if not self._timed_any:
            self.single_s = single_s

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
        if not self._timed_any:
            self._timed_any = True
            self.single_s = single_s
        else:
            self.single_s = _averaged(self.single_s, single_s, int(_MEMORY))

    def drafted(self, seconds: float) -> None:
        """Note what it took to find candidates and to choose from them."""
        self._n_drafted += 1
        self._draft_s = _averaged(self._draft_s, seconds, self._n_drafted)

    def began(self, seconds: float) -> None:
        """Note what it took the drafters to begin a request."""
        self._n_begun += 1
        self._begin_s = _averaged(self._begin_s, seconds, self._n_begun)

    @property
    def overhead(self) -> float:
        """What a draft takes to make, in units of T(1)."""
        return self.in_passes(self._draft_s)

    @property
    def beginning(self) -> float:
        """What it takes the drafters to begin a request, in units of T(1)."""
        return self.in_passes(self._begin_s)

    def in_passes(self, seconds: float) -> float:
        """Return a time in units of T(1), 0 as long as that is not known."""
        return seconds / self.single_s if self.single_s > 0.0 else 0.0


def _averaged(mean_s: float, seconds: float, n_times: int) -> float:
    """Return the mean of the last times, ``seconds`` being the ``n_times``-th.

    The first is the slowest, when code and data are touched that never were, and is forgotten.
    """
    if n_times <= 2 or mean_s <= 0.0:
        return seconds
    return mean_s + (min(seconds, _LONGEST_PAUSE * mean_s) - mean_s) / min(n_times, _MEMORY)


class DraftRest:
    """Lets drafting rest where it cost more than it gained.

    A pass that emits n tokens is worth n passes without a draft.  What it takes has two parts, in
    units of T(1): its own time, in which a draft that was wrong shows, and the drafters'.  The
    first is a matter of luck, so after a loss drafting rests twice as long as the time before.
    The second is certain, so drafting rests until it is a small share of the time.
    """

    def __init__(self) -> None:
        self._n_passes = 0
        self._gain = 0.0
        self._drafting = 0.0
        self._n_left = 0
        self._next_rest = _FIRST_REST

    def rests(self) -> bool:
        """Whether to draft nothing in the coming pass."""
        return self._n_left > 0

    def rest(self) -> None:
        """Note a pass without drafting."""
        self._n_left -= 1

    def count(self, n_emitted: int, passing: float, drafting: float) -> None:
        """Count a pass that was drafted for, if only to find nothing, by what it took."""
        self._n_passes += 1
        self._gain += n_emitted - passing - drafting
        self._drafting += drafting
        if self._n_passes < _WINDOW and self._gain > -_MOST_LOSS:
            return
        if self._gain < 0.0:
            certain = min(self._drafting, -self._gain)
            self._n_left = min(max(self._next_rest, int(certain / _SHARE)), _LONGEST_REST)
            self._next_rest = min(2 * self._next_rest, _LONGEST_UNLUCKY_REST)
        else:
            self._next_rest = _FIRST_REST
        self._n_passes = 0
        self._gain = self._drafting = 0.0


class DraftAllowance:
    """Keeps each completion from paying for look-ups that it cannot gain from.

    A long completion gains what a few look-ups cost many times over; one of two tokens has nothing
    to gain, and a look-up for each takes a few hundredths of its time.  Nobody knows which it will
    be.  So look-ups may take a small share of what the completion has taken so far, and what they
    gained in it.  Where look-ups gain much on average, nothing is held back.

    All times are in units of T(1).
    """

    def __init__(self) -> None:
        self._balance = 0.0
        self._mean_gain = 0.0
        self._n_counted = 0
        self._n_without = 0
        self._probes = False

    def begin(self) -> None:
        """Start a completion."""
        self._balance = 0.0
        self._n_without += 1
        self._probes = self._n_without > _PROBE_EVERY

    def next_pass(self) -> None:
        """Note that a pass is about to be made."""
        self._balance += _UPFRONT_SHARE

    def covers(self, cost: float) -> bool:
        """Whether a look-up that is expected to take ``cost`` may be made for this pass."""
        return (
            cost <= self._balance
            or self._probes
            or self._n_counted < _N_FREE
            or self._mean_gain > _CLEARLY * cost
        )

    def spend(self, cost: float) -> None:
        """Note what drafting took beside a look-up."""
        self._balance -= cost

    def count(self, n_emitted: int, passing: float, drafting: float) -> None:
        """Count a pass with a look-up: what it emitted, and what it and drafting took."""
        gain = n_emitted - passing
        self._balance += max(gain, 0.0) - drafting
        self._n_counted += 1
        n_known = min(self._n_counted + _GAIN_PRIOR, _GAIN_MEMORY)
        self._mean_gain += (gain - self._mean_gain) / n_known
        self._n_without = 0
        self._probes = False
