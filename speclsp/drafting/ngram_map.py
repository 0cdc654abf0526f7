"""llama.cpp's history drafters: search for the last n tokens, and draft at most m that followed.

``ngram-simple`` (see :mod:`speclsp.drafting.ngram_simple`) and ``ngram-map-k`` draft what followed
at the nearest place.  ``ngram-map-k4v`` counts the values (runs of m tokens) that followed at the
nearest places.  As in llama.cpp it drafts the most frequent value, and only if that was seen at
least twice as often as the three next ones together.

llama.cpp's token history is the text here (before and after the cursor, and other open buffers),
not the model's prompt, which ends with ``<|fim_middle|>``.  Unlike upstream, ``min_hits`` counts
the key's places, as upstream's documentation says, values may be shorter than m tokens, the chosen
value is drafted, and the four values are the most frequent ones, not the first ones.

As in llama.cpp the accepted tokens of a key's draft that was not right to its end limit the key's
next draft of ``ngram-map-k``.  Unlike upstream, whose limit stays at 0 for good, it is 1 at least
and doubles with each draft that is right to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from speclsp.drafting.drafter import NO_CONTEXT, NO_DRAFT, Draft, DraftContext
from speclsp.drafting.lookup_text import Continuation, LookupText
from speclsp.settings import Settings

MAX_PLACES: Final = 64
"""Nearest places of a key that count; more would take too long."""

MAX_VALUES: Final = 4
"""Values of a key that count, as in llama.cpp."""


MAX_KEYS: Final = 4096
"""Keys whose last drafts are remembered as wrong."""


class NgramDrafter:
    """Drafts up to ``m`` tokens that followed the last ``n`` tokens elsewhere (``spec_ngram_*``).

    ``select`` chooses from the nearest ``n_places`` places, of which there are at least
    ``min_hits``.  ``is_limited``: accepted tokens limit the next draft of their key.
    """

    def __init__(
        self,
        name: str,
        select: Callable[[Sequence[Continuation]], Continuation | None],
        settings: Settings,
        *,
        n_places: int = 1,
        is_limited: bool = False,
    ) -> None:
        self.name = name
        self._select = select
        self._n = settings.spec_ngram_size_n
        self._m = settings.spec_ngram_size_m
        self._min_hits = settings.spec_ngram_min_hits
        self._n_places = max(n_places, self._min_hits)
        self._text = LookupText(NO_CONTEXT, self._n)
        self._is_limited = is_limited
        self._limits: dict[tuple[int, ...], int] = {}
        """Most tokens of a key's next draft, the latest key last."""
        self._key: tuple[int, ...] = ()

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffers."""
        self._text = LookupText(context, self._n)

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft the selected continuation.

        One that ends at the cursor is repeated: it continues the loop that the text is in.
        """
        self._text.extend_to(generated)
        found = self._text.continuations(self._n, self._m, self._n_places)
        chosen = self._select(found) if found and len(found) >= self._min_hits else None
        if chosen is None:
            return NO_DRAFT
        if self._is_limited:
            self._key = tuple(self._text.tail().tolist())
        n_wanted = max(0, min(n_max, self._m, self._limits.get(self._key, self._m)))
        tokens = chosen.tokens
        if chosen.ends_at_cursor:
            tokens *= -(-n_wanted // len(tokens))
        return Draft(tokens[:n_wanted], chosen.source, self._n)

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Limit the key's next draft to what was right, or let it be longer."""
        limit = self._limits.pop(self._key, self._m)
        limit = max(1, n_accepted) if n_accepted < n_verified else max(limit, 2 * n_accepted)
        if self._is_limited and limit < self._m:
            self._limits[self._key] = limit
            if len(self._limits) > MAX_KEYS:
                del self._limits[next(iter(self._limits))]


def nearest(found: Sequence[Continuation]) -> Continuation:
    """Select the continuation of the first place."""
    return found[0]


def dominant(found: Sequence[Continuation]) -> Continuation | None:
    """Select the value seen at least twice as often as the three next ones together.

    A value that ends with its text counts for a longer one that begins with it.
    """
    longest_first = sorted(found, key=lambda one: -len(one.tokens))
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
    (best, n_best), *others = n_places.most_common(MAX_VALUES) or [((), 0)]
    dominates = n_best >= 2 * sum(n_other for _, n_other in others)
    return values[best] if n_best and dominates else None


def create_k(settings: Settings) -> NgramDrafter:
    """Make ``ngram-map-k`` from the settings ``spec_ngram_*``."""
    return NgramDrafter("ngram-map-k", nearest, settings, is_limited=True)


def create_k4v(settings: Settings) -> NgramDrafter:
    """Make ``ngram-map-k4v`` from the settings ``spec_ngram_*``."""
    return NgramDrafter("ngram-map-k4v", dominant, settings, n_places=MAX_PLACES)
