"""Suffix match: what followed wherever the text continued like the text at the cursor.

It looks at the buffer before and after the cursor, what was generated included, at other open
buffers and at the corpora, for matches of any length.  It gives many places by falling match
length, so that frequencies count, and alternatives for a tree.  Alone it drafts the most probable
path, as far as that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.candidates import Candidate, gives_candidates
from speclsp.drafting.cost import straight_curve
from speclsp.drafting.draft_length import COST_PER_DRAFT_TOKEN
from speclsp.drafting.draft_size import best_size, least_path
from speclsp.drafting.lookup_text import LookupText
from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext, TokenCorpus
from speclsp.drafting.token_index import DEPTH
from speclsp.drafting.tree_building import CandidateTrie, grouped
from speclsp.settings import Settings

NAME: Final = "suffix"
SOURCES: Final = ("suffix:buffer", "suffix:open", "suffix:project")
"""Its sources as the calibration knows them."""

_N_BUFFER_PLACES: Final = 8
"""Places in buffers that one draft looks at.  64 gained 0.2 % on five projects."""
_SURE_MATCH: Final = 16
"""A buffer's match of so many tokens that goes on needs no others beside it."""
_NOTHING: Final = DraftContext(prompt=())


class SuffixDrafter:
    """Implements :class:`~speclsp.drafting.candidates.TreeDrafter`.

    ``n_draft`` is the most tokens of one draft.  ``calibration`` serves drafts without a merger.
    """

    name = NAME

    def __init__(self, *, n_draft: int, calibration: Calibration | None = None) -> None:
        self._n_draft = n_draft
        self._text = LookupText(_NOTHING, DEPTH)
        self._corpora: tuple[TokenCorpus, ...] = ()
        self._n_generated = 0
        self._calibration = calibration or Calibration()
        self._curve = straight_curve(COST_PER_DRAFT_TOKEN)
        self._trie: CandidateTrie | None = None
        self._n_before = 0
        self._last_size = 0

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffers and corpora."""
        self._text = LookupText(context, DEPTH)
        self._corpora = context.corpora
        self._n_generated = 0
        self._curve = context.verify_curve or straight_curve(COST_PER_DRAFT_TOKEN)
        self._trie = None
        self._last_size = 0

    def candidates(
        self, generated: Sequence[int], n_max: int, n_min_match: int
    ) -> Sequence[Candidate]:
        """Return what followed at the places that match best, the buffers' first."""
        self._text.extend(generated[self._n_generated :])
        self._n_generated = len(generated)
        n_min, n_tokens = max(n_min_match, 1), min(n_max, self._n_draft)
        if n_min > DEPTH or n_tokens < 1:
            return ()
        found = self._text.sure_candidates(_SURE_MATCH, n_tokens)
        if found:
            return found
        found = self._text.candidates(n_min, n_tokens, _N_BUFFER_PLACES)
        tail = self._text.tail()
        if tail.size >= n_min:
            for corpus in self._corpora:
                if gives_candidates(corpus):
                    found += corpus.candidates(tail, n_min, DEPTH, n_tokens)
                    continue
                tokens, length = corpus.continuation(tail, n_min, DEPTH, n_tokens)
                if tokens.size:
                    found.append(Candidate(tokens.tolist(), "project", length))
        return found

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft the most probable path as far as it pays."""
        if self._trie is not None:
            self._trie.learn(generated[self._n_before :])
        self._n_before = len(generated)
        candidates = self.candidates(generated, n_max, 1)
        self._trie = CandidateTrie(grouped(NAME, candidates), self._calibration)
        if not candidates:
            return NO_DRAFT
        n_tokens = min(n_max, self._n_draft)
        path = self._trie.grow(n_tokens, 1, 1.0, least_path(self._curve, n_tokens))
        size = best_size(path.path_probabilities, self._curve, self._last_size).n_nodes
        self._last_size = size
        if not size:
            return NO_DRAFT
        return Draft(
            tuple(path.tokens[:size]),
            path.sources[0].partition(":")[2],
            max(candidate.match_length for candidate in candidates),
            tuple(path.probabilities[:size]),
        )

    def accept(self, n_accepted: int) -> None:
        """Nothing to do: the next draft sees what became output, and learns from all of it."""


def create(settings: Settings) -> SuffixDrafter:
    """Make the drafter from the settings."""
    return SuffixDrafter(n_draft=settings.max_draft)
