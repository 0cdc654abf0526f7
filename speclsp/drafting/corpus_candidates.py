"""What follows the text at the cursor in a corpus: many places, by falling match length.

The longest match alone says little where it is one place.  So shorter ones are asked for as well,
until enough places are known; of many, some stand for all.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeGuard

from speclsp.drafting.candidates import Candidate
from speclsp.drafting.corpus import Continuations
from speclsp.drafting.protocol import TokenArray, TokenCorpus

SOURCE: Final = "project"

_SHORTER: Final = (4, 2)
"""Match lengths that are asked for after the longest.  More of them cost time and gain little."""
_ENOUGH_PLACES: Final = 16
"""So many places need no shorter match beside them."""


class CandidateCorpus(TokenCorpus, Protocol):
    """A corpus that gives alternatives, as :class:`~speclsp.drafting.corpus.SegmentedCorpus`."""

    def continuations(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> Continuations:
        """Find what followed the longest suffix of ``tail`` at each place that has it."""


def gives_candidates(corpus: TokenCorpus) -> TypeGuard[CandidateCorpus]:
    """Whether a corpus gives alternatives.  Asking a protocol would take as long as a search."""
    return hasattr(corpus, "continuations")


def corpus_candidates(
    corpus: TokenCorpus, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
) -> list[Candidate]:
    """Return what followed suffixes of ``tail`` of ``n_min`` to ``n_max`` tokens.

    At most ``n_tokens`` tokens of each place.  A corpus that gives no alternatives gives one.
    """
    if not gives_candidates(corpus):
        tokens, length = corpus.continuation(tail, n_min, n_max, n_tokens)
        return [Candidate(tokens.tolist(), SOURCE, length)] if tokens.size else []
    candidates: list[Candidate] = []
    n_known = 0
    wanted = n_max
    for length in (n_max, *_SHORTER):
        if length > wanted or length < n_min:
            continue
        found = corpus.continuations(tail, n_min, length, n_tokens)
        if not found.n_matched:
            break
        # The places of the longer match have the shorter one too.
        n_places_each = max(found.n_places - n_known, 1) / len(found.rows)
        candidates += [Candidate(row, SOURCE, found.n_matched, n_places_each) for row in found.rows]
        n_known = found.n_places
        if n_known >= _ENOUGH_PLACES:
            break
        wanted = found.n_matched - 1
    return candidates
