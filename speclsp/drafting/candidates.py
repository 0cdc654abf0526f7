"""Candidates: what followed at earlier places whose context ends like the text at the cursor.

One place is weak evidence, many that agree are strong.  So a drafter that can gives them all, with
how long each match is and how many places it stands for, and
:mod:`speclsp.drafting.tree_building` makes of them what is worth verifying.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from speclsp.drafting.protocol import Draft, Drafter, TokenArray, TokenCorpus


class Candidate(NamedTuple):
    """What followed at a place, or at several that continue alike.

    A named tuple, since dozens are made for each target pass.
    """

    tokens: Sequence[int]
    source: str
    """``buffer``, ``open``, ``project`` …: what the drafter looked at."""
    match_length: int
    """Tokens of context that matched; 0 where that has no meaning."""
    n_places: float = 1.0
    """Places that it stands for; a fraction where these were thinned out."""
    probabilities: Sequence[float] = ()
    """For each token, the chance that it is right as the drafter sees it; empty if unknown."""


@runtime_checkable
class TreeDrafter(Drafter, Protocol):
    """A drafter that gives alternatives.  ``draft`` is what it would choose alone."""

    def candidates(
        self, generated: Sequence[int], n_max: int, n_min_match: int
    ) -> Sequence[Candidate]:
        """Return what may follow the prompt and ``generated``, each at most ``n_max`` tokens.

        Matches of less than ``n_min_match`` tokens are not worth the time to look for them.
        """


class CandidateCorpus(TokenCorpus, Protocol):
    """A corpus that gives alternatives."""

    def candidates(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> list[Candidate]:
        """Return what followed suffixes of ``tail``, the longest first, ``n_tokens`` at most."""


def gives_candidates(corpus: TokenCorpus) -> TypeGuard[CandidateCorpus]:
    """Whether a corpus gives alternatives.  Asking a protocol would take as long as a search."""
    return hasattr(corpus, "candidates")


def candidate_of(draft: Draft) -> Candidate:
    """Return a plain drafter's draft as a candidate."""
    return Candidate(draft.tokens, "", draft.match_length, 1.0, draft.probabilities)
