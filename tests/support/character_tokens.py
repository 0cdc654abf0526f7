"""Texts whose tokens are their characters, for drafters' tests that can be read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from speclsp.drafting.cost import straight_curve
from speclsp.drafting.drafter import DraftContext, Drafter, TokenArray

FREE = straight_curve(0.0)
"""Verifying costs nothing, so that drafters propose all they find."""


def ids(text: str) -> TokenArray:
    return np.array([ord(c) for c in text], dtype=np.int32)


def text_of(tokens: Sequence[int]) -> str:
    return "".join(chr(t) for t in tokens)


def where(
    prefix: str = "", suffix: str = "", buffers: Sequence[str] = (), **more: Any
) -> DraftContext:
    return DraftContext(
        prompt=(0,),
        prefix=ids(prefix),
        suffix=ids(suffix),
        buffers=tuple(map(ids, buffers)),
        verify_curve=FREE,
        **more,
    )


def drafted(drafter: Drafter, context: DraftContext, generated: str = "", n_max: int = 99) -> str:
    """What is drafted in a new request after ``generated`` was emitted."""
    drafter.begin(context)
    return text_of(drafter.draft([ord(c) for c in generated], n_max).tokens)
