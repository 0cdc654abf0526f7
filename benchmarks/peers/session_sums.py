"""A session's sums, for those who ask servers that keep none."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.asking import Answer
from benchmarks.peers.infill import InfillAnswer
from speclsp.decoding.session import summed
from speclsp.request import RequestStats, SessionStats


class SessionSums:
    """Adds up what was asked, shown and taken."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._totals = RequestStats()
        self._ahead = RequestStats()

    def add_answer(self, answer: Answer) -> None:
        """Add what a request was answered with."""
        self._counts["n_requests"] += 1
        if answer.source == "memory":
            self._counts["n_memory"] += 1
        elif answer.source == "filter":
            self._counts["n_filtered"] += 1
        else:
            self._totals = summed(self._totals, answer.stats)
            self._counts["n_completions" if answer.text else "n_empty"] += 1

    def add_shown(self, answer: Answer) -> None:
        """Add an answer that is on the screen."""
        self._counts["n_shown"] += bool(answer.text)

    def add_taken(self, answer: Answer, n_chars: int) -> None:
        """Add an answer of which the human took the first ``n_chars`` characters."""
        whole = n_chars >= len(answer.text)
        self._counts["n_accepted_items" if whole else "n_partially_accepted"] += 1
        self._counts["n_chars_accepted"] += n_chars

    def add_ahead(self, answer: InfillAnswer) -> None:
        """Add a request that nobody waited for."""
        self._counts["n_prefetches"] += 1
        self._ahead = summed(self._ahead, answer.stats)

    def add_warm_up(self, answer: InfillAnswer) -> None:
        """Add a request whose prompt alone was evaluated."""
        self._counts["n_idle_evaluated"] += answer.stats.n_prompt_evaluated

    def statistics(self) -> SessionStats:
        """Return the sums."""
        counts: dict[str, Any] = dict(self._counts)
        return SessionStats(totals=self._totals, prefetch=self._ahead, state="ready", **counts)
