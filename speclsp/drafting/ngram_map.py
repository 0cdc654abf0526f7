"""llama.cpp's history drafters: look the last n tokens up, and draft at most m from there.

``ngram-simple`` (see :mod:`speclsp.drafting.ngram_simple`) and ``ngram-map-k`` draft what followed
the nearest place.  ``ngram-map-k4v`` keeps the at most four values (runs of m tokens) that followed
most often at the nearest places.  As in llama.cpp it drafts the most frequent value, and only if
that was seen at least twice as often as the other three together.

What llama.cpp calls the token history is the text here (before the cursor, behind it, and other
open buffers), not the model's prompt, whose last token before anything is generated is always
``<|fim_middle|>``.  Unlike upstream, ``min_hits`` counts the key's places, as upstream's
documentation says, places need not have m tokens behind them, the value that was chosen is drafted,
and the four values are the most frequent ones, not the first ones.  How much of a draft is worth
verifying is decided for all drafters alike (see :mod:`speclsp.drafting.merger`), so there is no cap
by what was accepted last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from speclsp.drafting.lookup_text import Continuation, LookupText
from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext
from speclsp.settings import Settings

MAX_PLACES: Final = 64
"""Places of a key that are looked at, the nearest ones: a draft must take no time."""

MAX_VALUES: Final = 4
"""Values of a key that count, as in llama.cpp."""

_NOTHING: Final = DraftContext(prompt=())


class NgramDrafter:
    """Drafts up to ``m`` tokens of what followed the last ``n`` tokens elsewhere.

    ``select`` chooses among what followed at the first ``n_places`` places, ``min_hits`` at least.
    """

    def __init__(
        self,
        name: str,
        select: Callable[[Sequence[Continuation]], Continuation | None],
        *,
        n: int,
        m: int,
        min_hits: int,
        n_places: int = 1,
    ) -> None:
        self.name = name
        self._select = select
        self._n = n
        self._m = m
        self._min_hits = min_hits
        self._n_places = max(n_places, min_hits)
        self._text = LookupText(_NOTHING, n)
        self._n_generated = 0

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffers."""
        self._text = LookupText(context, self._n)
        self._n_generated = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft what was chosen."""
        self._text.extend(generated[self._n_generated :])
        self._n_generated = len(generated)
        found = self._text.continuations(self._n, self._m, self._n_places)
        chosen = self._select(found) if found and len(found) >= self._min_hits else None
        if chosen is None:
            return NO_DRAFT
        tokens = chosen.first(min(n_max, self._m))
        return Draft(tokens, chosen.source, self._n) if tokens else NO_DRAFT

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Nothing to do: the next draft sees what became output."""


def nearest(found: Sequence[Continuation]) -> Continuation:
    """Select what followed at the first place."""
    return found[0]


def dominant(found: Sequence[Continuation]) -> Continuation | None:
    """Select the value seen at least twice as often as the three next ones together.

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
    (best, n_best), *others = n_places.most_common(MAX_VALUES) or [((), 0)]
    dominates = n_best >= 2 * sum(n_other for _, n_other in others)
    return values[best] if n_best and dominates else None


def create_k(settings: Settings) -> NgramDrafter:
    """Make ``ngram-map-k`` from the settings ``spec_ngram_map_k_*``."""
    return NgramDrafter(
        "ngram-map-k",
        nearest,
        n=settings.spec_ngram_map_k_size_n,
        m=settings.spec_ngram_map_k_size_m,
        min_hits=settings.spec_ngram_map_k_min_hits,
    )


def create_k4v(settings: Settings) -> NgramDrafter:
    """Make ``ngram-map-k4v`` from the settings ``spec_ngram_map_k4v_*``."""
    return NgramDrafter(
        "ngram-map-k4v",
        dominant,
        n=settings.spec_ngram_map_k4v_size_n,
        m=settings.spec_ngram_map_k4v_size_m,
        min_hits=settings.spec_ngram_map_k4v_min_hits,
        n_places=MAX_PLACES,
    )
