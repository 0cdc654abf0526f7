"""Sample-and-match verification of chains and trees of draft tokens, as pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from speclsp.decoding.sampling import Sampler
from speclsp.decoding.target import Logits
from speclsp.drafting.drafter import MOST_DRAFTED

NO_NODE: Final = -1
"""The node of a token that was not drafted."""


def verify_chain(
    logits: Logits, draft: Sequence[int], sampler: Sampler
) -> Iterator[tuple[int, int]]:
    """Yield the tokens that the target emits for one pass over ``draft``, and their places in it.

    The place is :data:`NO_NODE` for the last token, the target's own.

    With x₀ the last token before the draft d₁ … d_k, row i of ``logits`` (shape [k + 1, n_vocab])
    is the target's distribution p(· | …, x₀, d₁ … d_i).  A token y_i is sampled from row i; while
    y_i = d_{i+1} the next row is conditioned on what was really emitted, so y_{i+1} may be sampled
    from it.  The first y_i ≠ d_{i+1} is the target's own token in a right context too and ends the
    pass, as does the bonus token y_k after a draft that was right to its end.

    So every emitted token is sampled from the target's distribution given the tokens emitted
    before it, whatever the draft: the output's law is the target's, at any temperature, and one
    uniform number per emitted token makes a seeded run equal to one without drafts.  (Rejection
    sampling with min(1, p/q), Leviathan et al. 2023, comes to the same law for such point-mass
    drafts, but not to the same tokens.)

    Rows are sampled only as the caller asks for tokens: nothing is computed after a mismatch or
    a stop.
    """
    for row_idx, drafted in enumerate(draft):
        token = sampler.sample(logits[row_idx])
        if token != drafted:
            yield token, NO_NODE
            return
        yield token, row_idx
    yield sampler.sample(logits[len(draft)]), NO_NODE


def verify_tree(
    logits: Logits, tokens: Sequence[int], parents: Sequence[int], sampler: Sampler
) -> Iterator[tuple[int, int]]:
    """Yield the tokens that the target emits for one pass over a tree, and their nodes.

    Row 0 of ``logits`` (shape [n + 1, n_vocab]) is the target's distribution after x₀, row i + 1
    the one after node i and its ancestors.  The walk begins at x₀: a token y is sampled from the
    row at hand; if a child of the node at hand holds y, the walk goes down to it, else y is the
    target's own and ends the pass.  Children have different tokens, so at most one fits.

    Each row sampled from is conditioned on exactly what was emitted, and the tree is not looked at
    before y is drawn, so the argument of :func:`verify_chain` holds word for word: exact at any
    temperature, with one random number per emitted token.
    """
    edges = zip(parents, tokens, strict=True)
    children = {edge: node for node, edge in enumerate(edges)}
    node = NO_NODE
    while True:
        token = sampler.sample(logits[node + 1])
        node = children.get((node, token), NO_NODE)
        yield token, node
        if node == NO_NODE:
            return


def draft_limit(n_cached: int, n_pending: int, n_left: int, n_ctx: int, n_batch: int) -> int:
    """Return the most draft tokens that the next pass can hold.

    ``n_cached`` positions are filled, ``n_pending`` tokens must be evaluated in the pass in any
    case, and ``n_left`` more tokens may be emitted, of which one is the pass's bonus token.
    """
    n_room = min(n_batch - n_pending, n_ctx - n_cached - n_pending)
    return max(0, min(n_room, n_left - 1, MOST_DRAFTED))
