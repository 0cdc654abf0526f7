"""What a decode step takes on the host: all that is not inside llama_decode."""

from __future__ import annotations

from speclsp.request import RequestStats


def host_ms_per_step(stats: RequestStats) -> float | None:
    """Return a step's milliseconds outside llama_decode; None where those within are unknown.

    A step is a target pass that gave tokens: its draft, choosing and scoring its tokens, stop
    rules, rolling back.  Time inside llama_decode is the target's and that of a draft model.
    The prompt's last pass is a step on every side: ``ms_predict`` begins behind the evaluation of
    the prompt, so that its draft and the choice of its tokens count, and evaluating it does not.
    """
    if not stats.n_decode_passes or stats.ms_decode <= 0.0:
        return None
    ms_native = stats.ms_decode + sum(one.ms_decode for one in stats.drafters.values())
    return (stats.ms_predict - ms_native) / stats.n_target_passes
