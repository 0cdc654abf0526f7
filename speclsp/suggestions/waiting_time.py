"""How long an automatic request waits for the next keystroke before the model is bothered."""

from __future__ import annotations

from collections import deque
from typing import Final

from speclsp.request import CompletionResult

N_ANSWERS: Final = 32
"""Latest answers of the model that its speed is taken from."""
N_KNOWN: Final = 4
"""With fewer answers the speed is not known, and nobody waits."""
FAST_MS: Final = 60.0
"""An idle engine that answers within this is asked at once."""
SHARE: Final = 0.25
"""Of the median answer's time; what a keystroke in vain costs is then bounded by what a wait
could have saved."""
MAX_MS: Final = 150.0


class WaitingTime:
    """Follows what the model's answers take.  It is not synchronised."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=N_ANSWERS)

    def answered(self, result: CompletionResult) -> None:
        """Take one of the model's answers; an interrupted one says nothing of its speed."""
        if result.stats.n_target_passes and result.finish_reason in ("stop", "length"):
            self._latest.append(result.stats.ms_total - result.stats.ms_queue)

    def ms(self, *, busy: bool) -> float:
        """Return the milliseconds to wait."""
        if len(self._latest) < N_KNOWN:
            return 0.0
        median = sorted(self._latest)[len(self._latest) // 2]
        if median <= FAST_MS and not busy:
            return 0.0
        return min(MAX_MS, SHARE * median)
