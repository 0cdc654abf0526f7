"""Context from other files: which pieces stand before the prompt, and in which order.

They come first in the prompt, so that a KV cache loses everything when one of them changes.  So
their order is kept, new ones are appended behind the others, and none is taken out to make room
until the budget is exceeded: then the lowest ranked go, once, down to a lower mark.

A window is renewed only where the prompt is laid out anew anyway, in idle time mostly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

_DROP_TO = 0.75
"""Share of its budget that is kept when chunks have to go; the rest is room for new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChunk:
    """A piece of another file, or of this file far from the cursor."""

    path: str
    """As it is written into the prompt: relative to the workspace folder, with slashes."""
    text: str
    key: str
    """Names the place that the text is of.  One key stands in a prompt once; a chunk of a key that
    is there with another text is a newer version of it."""
    stability: int = 0
    """Where chunks are laid out together, those of higher stability go first."""


EncodeChunk = Callable[[ContextChunk], tuple[int, ...]]
"""The tokens of a chunk as it stands in the prompt, its path among them."""


@dataclass(frozen=True, slots=True)
class LaidOutChunk:
    """A chunk in the prompt, and its tokens there."""

    chunk: ContextChunk
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChunkWindow:
    """The chunks of one prompt, in its order."""

    chunks: tuple[LaidOutChunk, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of all chunks."""
        return tuple(token for laid_out in self.chunks for token in laid_out.tokens)

    @property
    def n_tokens(self) -> int:
        """How many tokens all chunks take."""
        return sum(len(laid_out.tokens) for laid_out in self.chunks)


NO_CHUNKS = ChunkWindow()


def without_chunks(window: ChunkWindow, gone: Collection[str]) -> ChunkWindow:
    """Take out the chunks whose keys must not be shown any more."""
    if not any(laid_out.chunk.key in gone for laid_out in window.chunks):
        return window
    return ChunkWindow(tuple(c for c in window.chunks if c.chunk.key not in gone))


def renewed_chunks(
    previous: ChunkWindow,
    ranked: Sequence[ContextChunk],
    n_tokens_max: int,
    encode: EncodeChunk,
) -> ChunkWindow:
    """Lay out ``ranked``, the best first, behind the chunks that stand in the prompt already.

    What stands there keeps its place and its order, ranked now or not, but for older versions of
    what is ranked.  New chunks follow, the best of them last, nearest to the file itself.  Where
    not all fit ``n_tokens_max``, chunks that are ranked no more go first and then the lowest
    ranked, until no more than three quarters of it are taken.
    """
    texts = {chunk.key: chunk.text for chunk in reversed(ranked)}
    kept = [c for c in previous.chunks if texts.get(c.chunk.key, c.chunk.text) == c.chunk.text]
    known = {laid_out.chunk.key for laid_out in kept}
    new: list[LaidOutChunk] = []
    n_room = n_tokens_max
    for chunk in ranked:
        if n_room <= 0:
            break  # what is ranked lower could not stand beside what is ranked higher
        if chunk.key in known:
            continue
        known.add(chunk.key)
        laid_out = LaidOutChunk(chunk, encode(chunk))
        if len(laid_out.tokens) > n_tokens_max:
            continue
        n_room -= len(laid_out.tokens)
        new.append(laid_out)
    new.reverse()
    new.sort(key=lambda laid_out: -laid_out.chunk.stability)
    window = ChunkWindow((*kept, *new))
    if window.n_tokens <= n_tokens_max:
        return window
    ranks = {chunk.key: rank for rank, chunk in reversed(list(enumerate(ranked)))}
    return _dropped(window, ranks, int(n_tokens_max * _DROP_TO))


def _dropped(window: ChunkWindow, ranks: dict[str, int], n_tokens_max: int) -> ChunkWindow:
    """Keep the best chunks that fit together, in the order that they stand in."""
    best_first = sorted(window.chunks, key=lambda c: ranks.get(c.chunk.key, len(ranks)))
    kept: set[str] = set()
    n_left = n_tokens_max
    for laid_out in best_first:
        if len(laid_out.tokens) <= n_left:
            n_left -= len(laid_out.tokens)
            kept.add(laid_out.chunk.key)
    return ChunkWindow(tuple(c for c in window.chunks if c.chunk.key in kept))
