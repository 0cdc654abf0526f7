"""Builds segments: lays files end to end, turns them round, and sorts their contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.query import KEY_BITS, KEY_TOKENS, MAX_TOKEN
from speclsp.drafting.segment import FileKey, Segment, SegmentParts, SortKeys
from speclsp.drafting.suffix_array import DEPTH, sorted_places

_PIECE: Final = 1 << 18
"""Items that are converted at once: meanwhile no other thread runs, and look-ups want to."""


def build_segment(
    files: Sequence[tuple[FileKey, TokenArray]],
    interrupted: Callable[[], bool] = lambda: False,
) -> Segment:
    """Index files; the later ones are the newer ones.

    Raises ValueError for a bad token, and
    :class:`~speclsp.drafting.suffix_array.SortInterruptedError` where ``interrupted`` says so.
    """
    text, spans = _reversed_text(files)
    order = sorted_places(text, interrupted)
    triples = _triples(text)
    return Segment(
        SegmentParts(
            spans=spans,
            text=b"".join(
                text[start : start + _PIECE].astype(">u4").tobytes()
                for start in range(0, len(text), _PIECE)
            ),
            order=order,
            keys=triples.take(order),
            # Beyond a separator tokens sort as they come: no query looks there.
            deeper_keys=triples.take(order.astype(np.int64) + KEY_TOKENS),
        )
    )


def _triples(text: NDArray[np.uint32]) -> SortKeys:
    """For each place its three nearest tokens as a key."""
    triples = text.astype(np.uint64) << np.uint64(2 * KEY_BITS)
    triples[:-1] |= text[1:].astype(np.uint64) << np.uint64(KEY_BITS)
    triples[:-2] |= text[2:]
    return triples


def _reversed_text(
    files: Sequence[tuple[FileKey, TokenArray]],
) -> tuple[NDArray[np.uint32], dict[FileKey, tuple[int, int]]]:
    """Lay the files end to end, the last first, each reversed, with separators between.

    One separator stands at the beginning, and as many as the longest query at the end, so that a
    context can be read past the end.
    """
    n_total = sum(len(tokens) + 1 for _, tokens in files) + 1 + DEPTH
    text = np.zeros(n_total, dtype=np.uint32)
    spans: dict[FileKey, tuple[int, int]] = {}
    start = 1
    for key, tokens in reversed(files):
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) <= MAX_TOKEN:
            raise ValueError(f"token ids from {tokens.min()} to {tokens.max()} cannot be indexed")
        end = start + len(tokens)
        text[start:end] = tokens[::-1]
        text[start:end] += np.uint32(1)
        spans[key] = (start, end)
        start = end + 1
    return text, spans
