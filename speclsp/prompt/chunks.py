"""Context chunks: the pieces of other files at the beginning of a prompt, and their order.

A change of one of them invalidates the KV cache after it.  So they keep their order, new ones are
appended, and none is removed until the budget is exceeded: then the lowest ranked are removed,
once, down to a lower mark.

Chunks are renewed only when the prompt is laid out anew, mostly in idle time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

_DROP_TO = 0.75
"""Share of the budget that is kept when it is exceeded; the rest is room for new chunks."""


Reason = Literal["edit", "definition"]
"""A recent edit, or the definition of a name near the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChunk:
    """A piece of another file, or of this file far from the cursor."""

    path: str
    """Relative to its workspace folder, with slashes."""
    text: str
    key: str
    """Identifies the place of the text.  A prompt contains each key once; a chunk with the same key
    and another text is a newer version."""
    first_line: int = 0
    """Of the text in its file, from 0."""
    reason: Reason = "definition"
    detail: str = ""
    """The reason in words, for `speclsp explain`."""
    score: float = 0.0
    """From 0 to 1, comparable between all chunks."""

    @property
    def last_line(self) -> int:
        """The last line of the text."""
        return self.first_line + self.text.count("\n")


EncodeChunk = Callable[[ContextChunk], tuple[int, ...]]
"""Returns the tokens of a chunk in the prompt, with its path."""


@dataclass(frozen=True, slots=True)
class LaidOutChunk:
    """A chunk and its tokens in the prompt."""

    chunk: ContextChunk
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownChunks:
    """The chunks of a prompt, in order."""

    chunks: tuple[LaidOutChunk, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of all chunks."""
        return tuple(token for laid_out in self.chunks for token in laid_out.tokens)

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all chunks."""
        return sum(len(laid_out.tokens) for laid_out in self.chunks)


NO_CHUNKS = ShownChunks()


def shown_chunks(shown: ShownChunks, may_show: Callable[[str], bool]) -> ShownChunks:
    """Keep the chunks of files that ``may_show`` returns true for, given their paths."""
    return ShownChunks(tuple(c for c in shown.chunks if may_show(c.chunk.path)))


def renewed_chunks(
    previous: ShownChunks,
    ranked: Sequence[ContextChunk],
    n_tokens_max: int,
    encode: EncodeChunk,
) -> ShownChunks:
    """Append the new chunks of ``ranked``, the best first, to those of a former prompt.

    Former chunks keep their order, ranked or not; older versions of ranked chunks are removed.
    Of the new chunks the best comes last, nearest to the file, but recent edits, which change most,
    come after all others.  If all together exceed ``n_tokens_max``, first the chunks that are not
    ranked and then the lowest ranked are removed, down to three quarters of ``n_tokens_max``.
    """
    texts = {chunk.key: chunk.text for chunk in reversed(ranked)}
    kept = [c for c in previous.chunks if texts.get(c.chunk.key, c.chunk.text) == c.chunk.text]
    known = {laid_out.chunk.key for laid_out in kept}
    new: list[LaidOutChunk] = []
    n_room = n_tokens_max
    for chunk in ranked:
        if n_room <= 0:
            break  # lower ranked chunks would not fit beside the higher ranked
        if chunk.key in known:
            continue
        known.add(chunk.key)
        laid_out = LaidOutChunk(chunk, encode(chunk))
        if len(laid_out.tokens) > n_tokens_max:
            continue
        n_room -= len(laid_out.tokens)
        new.append(laid_out)
    new.reverse()
    new.sort(key=lambda laid_out: laid_out.chunk.reason == "edit")
    shown = ShownChunks((*kept, *new))
    if shown.n_tokens <= n_tokens_max:
        return shown
    ranks = {chunk.key: rank for rank, chunk in reversed(list(enumerate(ranked)))}
    return _dropped(shown, ranks, int(n_tokens_max * _DROP_TO))


def _dropped(shown: ShownChunks, ranks: dict[str, int], n_tokens_max: int) -> ShownChunks:
    """Keep the best chunks that fit together, in their order."""
    best_first = sorted(shown.chunks, key=lambda c: ranks.get(c.chunk.key, len(ranks)))
    kept: set[str] = set()
    n_left = n_tokens_max
    for laid_out in best_first:
        if len(laid_out.tokens) <= n_left:
            n_left -= len(laid_out.tokens)
            kept.add(laid_out.chunk.key)
    return ShownChunks(tuple(c for c in shown.chunks if c.chunk.key in kept))
