"""What a draft token costs: measured on the loaded model before its first request.

A target pass over k draft tokens takes T(k + 1).  On a GPU the tokens of a small batch are nearly
free, on a CPU each adds its share.  Drafters need that slope to know when a draft pays:

    T(k + 1) ≈ T(1) · (1 + c · k)
"""

from __future__ import annotations

from collections.abc import Callable

from speclsp.decoding.protocol import Target

_N_CONTEXT = 64
"""Tokens in the cache meanwhile: a little, since attention is not what the slope measures."""
_N_DRAFT = 8
_N_REPEATS = 5
_BUDGET_S = 0.5
"""A slow model is measured once per shape and no more."""


def measure_verify_cost(target: Target, clock: Callable[[], float]) -> float:
    """Return c, the cost of one more draft token in units of T(1); at least 0.

    Takes the shortest of some runs, since whatever else the machine does only adds time.  The
    target's cache is empty afterwards.  ``clock`` is in seconds.
    Raises :class:`~speclsp.errors.DecodeError`.
    """
    n_draft = min(_N_DRAFT, target.n_batch - 1, target.n_ctx // 4)
    if n_draft < 1:
        return 0.0
    n_context = min(_N_CONTEXT, target.n_ctx // 2, target.n_batch)
    tokens = [idx % target.n_vocab for idx in range(n_context + n_draft + 1)]
    target.truncate(0)
    target.decode(tokens[:n_context], 0)
    single = _shortest(target, tokens[n_context : n_context + 1], n_context, clock)
    batch = _shortest(target, tokens[n_context:], n_context, clock)
    target.truncate(0)
    return max(0.0, (batch / single - 1.0) / n_draft) if single > 0.0 else 0.0


def _shortest(
    target: Target, tokens: list[int], n_context: int, clock: Callable[[], float]
) -> float:
    """Return the seconds of the fastest of some passes over ``tokens``, after one to warm up."""
    shortest = float("inf")
    begun = clock()
    for repeat in range(_N_REPEATS + 1):
        started = clock()
        target.decode(tokens, len(tokens))
        ended = clock()
        target.truncate(n_context)
        if repeat > 0 or ended - begun > _BUDGET_S:
            shortest = min(shortest, ended - started)
        if ended - begun > _BUDGET_S:
            break
    return shortest
