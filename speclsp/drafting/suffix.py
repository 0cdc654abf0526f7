"""Suffix match: drafts what followed the text at the cursor elsewhere.

It searches the buffer before and after the cursor, generated tokens included, and other open
buffers for matches of any length, and the corpora for longer ones where those are short.  It
returns many places, so that frequencies count, and alternatives for a tree.  Used alone, it drafts
the most probable path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import (
    NO_CONTEXT,
    NO_DRAFT,
    Candidate,
    Draft,
    DraftContext,
    TokenCorpus,
)
from speclsp.drafting.lookup_text import LookupText
from speclsp.drafting.token_index import DEPTH
from speclsp.drafting.token_tree import CandidateTrie
from speclsp.settings import Settings

NAME: Final = "suffix"

_N_BUFFER_PLACES: Final = 4
"""Most places in buffers per draft: 8 took as much time, and more of the host's; 3 took up to 1.6 %
less on two of three machines' curves, and 0.5 % more where passes are nearly flat."""
_SURE_MATCH: Final = 3
"""A buffer's match of so many tokens needs no others, from buffers while the text continues it or
from corpora: 16 saved as many passes, and took 1.2 to 2.5 times as long.  2 loses 1 % in copies on
two cores, 0.3 % at most elsewhere."""


class SuffixDrafter:
    """Implements :class:`~speclsp.drafting.drafter.TreeDrafter`.

    ``n_draft`` is the most tokens of a draft.  ``table`` is for drafts without a merger.
    """

    name = NAME

    def __init__(self, *, n_draft: int, table: AcceptanceTable | None = None) -> None:
        self._n_draft = n_draft
        self._text = LookupText(NO_CONTEXT, DEPTH)
        self._corpora: tuple[TokenCorpus, ...] = ()
        self._table = table or AcceptanceTable()
        self._trie: CandidateTrie | None = None
        self._n_before = 0

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffers and corpora."""
        self._text = LookupText(context, DEPTH)
        self._corpora = context.corpora
        self._trie = None

    def candidates(self, generated: Sequence[int], n_max: int) -> Sequence[Candidate]:
        """Return what followed the best matches: in buffers, and longer ones in corpora."""
        self._text.extend_to(generated)
        n_tokens = min(n_max, self._n_draft)
        if n_tokens < 1:
            return ()
        found = self._text.sure_candidates(_SURE_MATCH, n_tokens)
        if found:
            return found
        found = self._text.candidates(1, n_tokens, _N_BUFFER_PLACES)
        longest = found[0].match_length if found else 0
        tail = self._text.tail()
        if longest < _SURE_MATCH and tail.size:
            for corpus in self._corpora:
                found += corpus.candidates(tail, longest + 1, DEPTH, n_tokens)
        return found

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft the most probable path."""
        if self._trie is not None:
            self._trie.learn(generated[self._n_before :])
        self._n_before = len(generated)
        candidates = self.candidates(generated, n_max)
        trie = self._trie = CandidateTrie(candidates, self._table)
        path = trie.grow(1, 1.0, [0.0] * (min(n_max, self._n_draft) + 1))
        if not path.tokens:
            return NO_DRAFT
        longest = max(candidate.match_length for candidate in candidates)
        return Draft(tuple(path.tokens), path.sources[0], longest, tuple(path.probabilities))

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Do nothing: the next draft learns from the output."""


def create(settings: Settings) -> SuffixDrafter:
    """Make the drafter from the settings."""
    return SuffixDrafter(n_draft=settings.max_draft)
