"""Sample-and-match verification of a chain of draft tokens, and how long a draft may be.

Both are functions of what they are given and nothing else, so that another shape of draft can
bring its own pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from speclsp.decoding.protocol import Logits
from speclsp.decoding.sampling import Sampler


def verify_chain(logits: Logits, draft: Sequence[int], sampler: Sampler) -> Iterator[int]:
    """Yield the tokens that the target emits for one pass over ``draft``.

    With x₀ the last token before the draft d₁ … d_k, row i of ``logits`` (shape [k + 1, n_vocab])
    is the target's distribution p(· | …, x₀, d₁ … d_i).  A token y_i is sampled from row i; while
    y_i = d_{i+1} the next row is conditioned on what was really emitted, so y_{i+1} may be sampled
    from it.  The first y_i ≠ d_{i+1} is the target's own token in a right context too and ends the
    pass, as does the bonus token y_k behind a draft that was right to its end.

    So every emitted token is sampled from the target's distribution given the tokens emitted
    before it, whatever the draft: the output's law is the target's, at any temperature, and one
    uniform number per emitted token makes a seeded run equal to one without drafts.  (Rejection
    sampling with min(1, p/q), Leviathan et al. 2023, comes to the same law for such point-mass
    drafts, but not to the same tokens.)

    Rows are sampled only as the caller asks for tokens: nothing is computed behind a mismatch or
    a stop.
    """
    for row_idx, drafted in enumerate(draft):
        token = sampler.sample(logits[row_idx])
        yield token
        if token != drafted:
            return
    yield sampler.sample(logits[len(draft)])


def draft_limit(n_cached: int, n_pending: int, n_left: int, n_ctx: int, n_batch: int) -> int:
    """Return the most draft tokens that the next pass can hold.

    ``n_cached`` positions are filled, ``n_pending`` tokens must be evaluated in the pass in any
    case, and ``n_left`` more tokens may be emitted, of which one is the pass's bonus token.
    """
    return max(0, min(n_batch - n_pending, n_ctx - n_cached - n_pending, n_left - 1))
