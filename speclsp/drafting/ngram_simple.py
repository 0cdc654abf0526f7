"""llama.cpp's ``ngram-simple``: drafts the m tokens after the last n tokens' nearest other place.

As in llama.cpp, exactly n tokens have to match.  Unlike there, short continuations are drafted too,
and ``min_hits`` has an effect.
"""

from __future__ import annotations

from speclsp.drafting.ngram_map import NgramDrafter, nearest
from speclsp.settings import Settings


def create(settings: Settings) -> NgramDrafter:
    """Make the drafter from the settings ``spec_ngram_*``."""
    return NgramDrafter("ngram-simple", nearest, settings)
