"""llama.cpp's ``ngram-simple``: the last earlier place of the last n tokens, the next m from there.

As there, a place counts only if n tokens match.  Unlike there, nothing is scanned, short
continuations are drafted too, and ``min_hits`` is heeded.
"""

from __future__ import annotations

from itertools import islice

from speclsp.drafting.ngram_drafter import NgramDrafter
from speclsp.drafting.ngram_history import NgramHistory
from speclsp.drafting.protocol import NO_DRAFT, Draft
from speclsp.settings import Settings


class NearestPlace:
    """Chooses the first of the history's places, if there are ``min_hits`` of them."""

    def __init__(self, *, n: int, m: int, min_hits: int) -> None:
        self._n = n
        self._m = m
        self._min_hits = min_hits

    def choose(self, history: NgramHistory) -> Draft:
        """Return the m tokens behind the nearest place."""
        found = list(islice(history.continuations(self._m), self._min_hits))
        if len(found) < self._min_hits:
            return NO_DRAFT
        return Draft(found[0].first(self._m), found[0].source, self._n)

    def learn(self, n_drafted: int, n_accepted: int) -> None:
        """Nothing: this drafter has no memory of its own."""


def create(settings: Settings) -> NgramDrafter:
    """Make the drafter from the settings ``spec_ngram_simple_*``."""
    n = settings.spec_ngram_simple_size_n
    choice = NearestPlace(
        n=n, m=settings.spec_ngram_simple_size_m, min_hits=settings.spec_ngram_simple_min_hits
    )
    return NgramDrafter("ngram-simple", n=n, choice=choice)
