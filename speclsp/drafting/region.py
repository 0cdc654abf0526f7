"""Region: drafts the text that the output rewrites.

The answer of a next-edit model is mostly a copy of a region that the prompt shows.  The drafter
follows where in the region the output stands and proposes what comes there.

The output is modelled as a copy with gaps, by a hidden Markov model whose state is a place in the
region and whether the output copies there or is in a gap, that is, writes text of its own.  A gap
ends at a place not far ahead, so that text can be inserted, replaced or left out; behind an ended
line the beginnings of the next lines are the likely places.  The states' probabilities follow from
each token (the forward algorithm, Rabiner 1989, section III.A), and only likely ones are kept.  A
copy goes on with p̂ by the tokens since it began.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from speclsp.drafting.drafter import (
    NO_CONTEXT,
    NO_DRAFT,
    Candidate,
    Draft,
    DraftContext,
    TokenArray,
)
from speclsp.settings import Settings

NAME: Final = "region"

_LEAVE: Final = 0.03
"""P(a copy ends before the next token)."""
_RESUME: Final = 0.5
"""P(a gap ends before the next token)."""
_OWN_TOKEN: Final = 0.02
"""P(a token in a gap), whichever it is: what is not copied is taken to be one of fifty."""
_AHEAD: Final = tuple(0.3 * 0.7**n for n in range(16))
"""P(a gap ends n tokens ahead)."""
_LINES_AHEAD: Final = tuple(0.5 ** (n + 1) for n in range(8))
"""P(a gap ends at the beginning of the line n further), where the output has ended a line."""
_AT_LINE: Final = 0.8
"""Share of the gaps behind an ended line that end at the beginning of a line."""
_LEAST: Final = 1e-4
"""States that are less probable are dropped."""
_N_PLACES: Final = 3
"""Most places to draft from; two lost 4 % of the tokens per pass, five gained nothing."""
_LEAST_DRAFTED: Final = 0.03
"""P of a place whose tokens are not proposed."""
_SOURCES: Final = (NAME, "repeated")
"""The sources of the context's regions, whose p̂ is learned apart."""
_COPIED_BEFORE: Final = 32
"""Tokens that count as copied where the output begins: 98 % of the tokens of 95 answers that had
not left the region yet were the region's."""


class _Alignment:
    """Where in one text the output may stand.  ``ends_line`` says whether a token ends a line."""

    def __init__(self, tokens: TokenArray, ends_line: Callable[[int], bool]) -> None:
        self.tokens: list[int] = tokens.tolist()
        self._ends_line = ends_line
        self._lines = [
            0,
            *(place + 1 for place, token in enumerate(self.tokens) if ends_line(token)),
        ]
        self._copies = {0: 1.0}
        """By the place of the next token: the probability that a copy goes on there."""
        self._gaps: dict[int, float] = {}
        """By the place where the copy ended: the probability that the output is in a gap."""
        self.copied = {0: _COPIED_BEFORE}
        """By the place of the next token: how many tokens before it are copied."""
        self.next_places = self._places_after(ends_line=True)
        """The probabilities of the places of the next token."""

    def follow(self, token: int) -> None:
        """Take the output's next token."""
        tokens, known = self.tokens, self.copied
        is_at = [place for place in self.next_places if tokens[place] == token]
        copies = {place + 1: self.next_places[place] for place in is_at}
        self.copied = {place + 1: known.get(place, 0) + 1 for place in is_at}
        gaps = {place: p * _LEAVE * _OWN_TOKEN for place, p in self._copies.items()}
        for place, p in self._gaps.items():
            gaps[place] = gaps.get(place, 0.0) + p * (1.0 - _RESUME) * _OWN_TOKEN
        total = sum(copies.values()) + sum(gaps.values())
        self._copies = {place: p / total for place, p in copies.items() if p > _LEAST * total}
        self._gaps = {place: p / total for place, p in gaps.items() if p > _LEAST * total}
        self.next_places = self._places_after(ends_line=self._ends_line(token))

    def _places_after(self, *, ends_line: bool) -> dict[int, float]:
        places: defaultdict[int, float] = defaultdict(float)
        for place, p in self._copies.items():
            places[place] += p * (1.0 - _LEAVE)
        at_line = _AT_LINE if ends_line else 0.0
        ended = [(place, p * _RESUME) for place, p in self._gaps.items()]
        # What a copy leaves out is a gap without tokens.
        ended += [(place + 1, p * _LEAVE) for place, p in self._copies.items()]
        for gap, p in ended:
            for place, ahead in enumerate(_AHEAD, gap):
                places[place] += p * (1.0 - at_line) * ahead
            if ends_line:
                line = bisect_right(self._lines, gap) - 1
                for place, ahead in zip(self._lines[line:], _LINES_AHEAD, strict=False):
                    places[place] += p * at_line * ahead
        return {place: p for place, p in places.items() if place < len(self.tokens)}


class RegionDrafter:
    """Implements :class:`~speclsp.drafting.drafter.TreeDrafter`.

    ``n_draft`` is the most tokens of a draft.  It drafts where the context has ``regions``.
    """

    name = NAME

    def __init__(self, *, n_draft: int) -> None:
        self._n_draft = n_draft
        self.begin(NO_CONTEXT)

    def begin(self, context: DraftContext) -> None:
        """Take the request's regions."""
        self._alignments = [_Alignment(text, context.ends_line) for text in context.regions]
        self._n_followed = 0

    def candidates(self, generated: Sequence[int], n_max: int) -> Sequence[Candidate]:
        """Return what follows the likeliest places of each region."""
        new = generated[self._n_followed :]
        self._n_followed = len(generated)
        n_tokens = min(n_max, self._n_draft)
        found: list[Candidate] = []
        for source, alignment in zip(_SOURCES, self._alignments, strict=False):
            for token in new:
                alignment.follow(token)
            likely = sorted(alignment.next_places.items(), key=itemgetter(1), reverse=True)
            for place, p in islice(likely, _N_PLACES):
                if p < _LEAST_DRAFTED:
                    break
                tokens = tuple(alignment.tokens[place : place + n_tokens])
                copied = alignment.copied.get(place, 0)
                # The first token behind a gap is as probable as its place is.
                own = () if copied else (p,)
                found.append(Candidate(tokens, source, max(copied, 1), 1.0, own))
        return found

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft from the likeliest place."""
        best = next(iter(self.candidates(generated, n_max)), None)
        if best is None or n_max < 1:
            return NO_DRAFT
        return Draft(tuple(best.tokens), best.source, best.match_length)

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Do nothing: the next draft learns from the output."""


def create(settings: Settings) -> RegionDrafter:
    """Make the drafter from the settings."""
    return RegionDrafter(n_draft=settings.max_draft)
