"""Prompt lookup: find the text at the cursor elsewhere, and draft what followed it there.

It looks at the buffer itself (before and after the cursor, beyond the prompt's window too), at
other open buffers, and at the project's files.  The text at the cursor is the buffer before it
plus what was generated, not the model's prompt: that one ends with a special token, after which
nothing would match until the model has written something.

The longest match over all sources wins; of equally long ones the buffers' comes before the
project's.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclsp.drafting.lookup_text import LookupText
from speclsp.drafting.protocol import NO_DRAFT, Candidate, Draft, DraftContext, TokenCorpus
from speclsp.errors import DrafterError
from speclsp.settings import Settings

_NOTHING = DraftContext(prompt=())
_N_PLACES = 64
"""Latest places of the longest match that are compared, where the latest supplies few tokens."""


class PromptLookupDrafter:
    """Drafts from text that continues like the text at the cursor.

    A match counts ``n_min`` to ``n_max`` tokens of context; a draft has ``n_draft`` at most.
    """

    name = "prompt-lookup"

    def __init__(self, *, n_min: int, n_max: int, n_draft: int) -> None:
        self._n_min = n_min
        self._n_max = n_max
        self._n_draft = n_draft
        self._n_generated = 0
        self._corpora: tuple[TokenCorpus, ...] = ()
        self._text = LookupText(_NOTHING, n_max)

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffers."""
        self._text = LookupText(context, self._n_max)
        self._corpora = context.corpora
        self._n_generated = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft what followed the longest match."""
        self._text.extend(generated[self._n_generated :])
        self._n_generated = len(generated)
        n_wanted = min(n_max, self._n_draft)
        best = self._longest_match(n_wanted)
        return Draft(tuple(best.tokens), best.source, best.match_length) if best else NO_DRAFT

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Do nothing: the next draft sees what became output."""

    def _longest_match(self, n_wanted: int) -> Candidate | None:
        if n_wanted < 1:
            return None
        found = self._text.candidates(self._n_min, n_wanted, _N_PLACES)
        best: Candidate | None = None
        for other in found:
            if best is None:
                best = other
            elif other.match_length < best.match_length:
                break
            # In a loop that was just entered the latest place supplies few tokens.
            elif tuple(other.tokens[: len(best.tokens)]) == tuple(best.tokens):
                best = max(best, other, key=lambda one: len(one.tokens))
        tail = self._text.tail()
        for corpus in self._corpora:
            n_min = max(self._n_min, best.match_length + 1 if best else 0)
            if n_min > tail.size:
                break
            tokens, length = corpus.continuation(tail, n_min, self._n_max, n_wanted)
            if tokens.size:
                best = Candidate(tokens.tolist(), "project", length)
        return best


def create(settings: Settings) -> PromptLookupDrafter:
    """Make the drafter from the settings of the group speculation.

    Raises :class:`DrafterError` where the settings contradict each other.
    """
    if settings.min_ngram_size > settings.max_ngram_size:
        raise DrafterError(
            f"min_ngram_size ({settings.min_ngram_size}) is larger than "
            f"max_ngram_size ({settings.max_ngram_size}).",
            remedy="Lower `min_ngram_size` or raise `max_ngram_size`.",
        )
    return PromptLookupDrafter(
        n_min=settings.min_ngram_size,
        n_max=settings.max_ngram_size,
        n_draft=settings.num_pred_tokens,
    )
