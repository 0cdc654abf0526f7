"""llama.cpp's ``ngram-map-k`` and ``ngram-map-k4v``: n-grams as keys, what followed as values.

``ngram-map-k`` drafts the m tokens behind the key's last place.  ``ngram-map-k4v`` tells the values
of a key apart and drafts one only if it dominates: if it was seen at least twice as often as all
others together.  Both draft no further than the last draft of the same key (and value) was right,
see :mod:`speclsp.drafting.draft_caps`.

Unlike upstream, ``min_hits`` counts the key's places in the history, as its help says, a key's
places need not have m tokens behind them, what is drafted is the value that was chosen, and all
values are counted, not the first four: a fifth one could dominate.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from speclsp.drafting.draft_caps import DraftCaps
from speclsp.drafting.ngram_drafter import NgramDrafter
from speclsp.drafting.ngram_history import Continuation, NgramHistory
from speclsp.drafting.protocol import NO_DRAFT, Draft
from speclsp.settings import Settings

MAX_PLACES: Final = 64
"""Places of a key that are looked at, the nearest ones: a draft must take no time."""


Selected: TypeAlias = tuple[Continuation, bytes]
"""What to draft, and what its cap is remembered by beside the key."""


class CappedValue:
    """Chooses a value with ``select``, and drafts as much of it as was right last time.

    ``select`` is given the key's first places, ``n_places`` at most.
    """

    def __init__(
        self,
        select: Callable[[Sequence[Continuation]], Selected | None],
        *,
        n: int,
        m: int,
        min_hits: int,
        n_places: int,
    ) -> None:
        self._select = select
        self._n = n
        self._m = m
        self._min_hits = min_hits
        self._n_places = max(n_places, min_hits)
        self._caps = DraftCaps(m)
        self._key = b""

    def choose(self, history: NgramHistory) -> Draft:
        """Return the value that was selected, as long as its cap allows."""
        found = list(islice(history.continuations(self._m), self._n_places))
        selected = self._select(found) if len(found) >= self._min_hits else None
        if selected is None:
            return NO_DRAFT
        value, name = selected
        self._key = history.key().tobytes() + name
        tokens = value.first(self._caps.length(self._key))
        return Draft(tokens, value.source, self._n) if tokens else NO_DRAFT

    def learn(self, n_drafted: int, n_accepted: int) -> None:
        """Cap the next draft of the same value."""
        self._caps.learn(self._key, n_drafted, n_accepted)


def last_value(found: Sequence[Continuation]) -> Selected | None:
    """Select what followed the key at the first of the history's places."""
    return found[0], b""


def dominant_value(found: Sequence[Continuation]) -> Selected | None:
    """Select the value seen at least twice as often as all others together.

    A continuation behind which the text ends counts for a longer one that begins with it.
    """
    longest_first = sorted(found, key=lambda continuation: -len(continuation.tokens))
    n_most = len(longest_first[0].tokens) if longest_first else 0
    values: dict[tuple[int, ...], Continuation] = {}
    n_places: Counter[tuple[int, ...]] = Counter()
    for continuation in longest_first:
        tokens = continuation.tokens
        if len(tokens) < n_most and tokens not in values:
            longer = (value for value in values if value[: len(tokens)] == tokens)
            tokens = next(longer, tokens)
        values.setdefault(tokens, continuation)
        n_places[tokens] += 1
    best = max(values, key=n_places.__getitem__, default=None)
    if best is None or n_places[best] < 2 * (len(found) - n_places[best]):
        return None
    return values[best], array("i", best).tobytes()


def create_k(settings: Settings) -> NgramDrafter:
    """Make ``ngram-map-k`` from the settings ``spec_ngram_map_k_*``."""
    choice = CappedValue(
        last_value,
        n=settings.spec_ngram_map_k_size_n,
        m=settings.spec_ngram_map_k_size_m,
        min_hits=settings.spec_ngram_map_k_min_hits,
        n_places=1,
    )
    return NgramDrafter("ngram-map-k", n=settings.spec_ngram_map_k_size_n, choice=choice)


def create_k4v(settings: Settings) -> NgramDrafter:
    """Make ``ngram-map-k4v`` from the settings ``spec_ngram_map_k4v_*``."""
    choice = CappedValue(
        dominant_value,
        n=settings.spec_ngram_map_k4v_size_n,
        m=settings.spec_ngram_map_k4v_size_m,
        min_hits=settings.spec_ngram_map_k4v_min_hits,
        n_places=MAX_PLACES,
    )
    return NgramDrafter("ngram-map-k4v", n=settings.spec_ngram_map_k4v_size_n, choice=choice)
