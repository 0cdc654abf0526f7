"""``python -m benchmarks passes``: T(k), the time of a target pass over k tokens, by shape.

Drafts pay by the ratio T(k)/T(1): the curve is what the drafting policy learns while it decodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np

from benchmarks.machine import loaded_models
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.decoding.target import Target, tree_target
from speclsp.drafting.cost import SHAPES
from speclsp.settings import Settings

_N_CACHED: Final = 1024
_N_BRANCHES: Final = 4
_N_WARM_UP: Final = 3
_AFTER_ONE: Final = "chain after one token"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """Milliseconds of passes over ``n_tokens`` tokens, all of whose logits are read."""

    shape: str
    n_tokens: int
    p50: float
    p95: float


def pass_times(target: Target, n_timed: int) -> list[PassTimes]:
    """Time chains and trees of every size behind ``_N_CACHED`` tokens, or half the context.

    A tree is one token and up to ``_N_BRANCHES`` branches of equal length.
    Each follows a pass of its own shape, and chains follow one over a single token, too: backends
    reuse a graph for the next pass of its shape, and build it anew for another.
    """
    n_cached = min(_N_CACHED, target.n_ctx // 2)
    target.truncate(0)
    target.decode([1 + idx % 997 for idx in range(n_cached)], 1)
    trees = tree_target(target)
    found: list[PassTimes] = []
    for size in SHAPES:
        tokens = [1 + idx % 997 for idx in range(size)]

        def chain(tokens: list[int] = tokens) -> None:
            target.decode(tokens, len(tokens))

        found.append(_timed("chain", size, chain, target, n_cached, n_timed))
        if size > 1:
            alone = functools.partial(target.decode, tokens[:1], 1)
            found.append(_timed(_AFTER_ONE, size, chain, target, n_cached, n_timed, before=alone))
        if trees is None or size <= _N_BRANCHES:
            continue
        parents = [max(idx - _N_BRANCHES, -1) for idx in range(size - 1)]

        def tree(tokens: list[int] = tokens, parents: list[int] = parents) -> None:
            trees.decode_tree(tokens[:1], tokens[1:], parents)

        found.append(_timed("tree", size, tree, target, n_cached, n_timed))
    target.truncate(0)
    return found


def _timed(
    shape: str,
    size: int,
    one: Callable[[], None],
    target: Target,
    n_cached: int,
    n_timed: int,
    *,
    before: Callable[[], object] = lambda: None,
) -> PassTimes:
    """Time a pass, each time after ``before``, whose time does not count."""
    times: list[float] = []
    for idx in range(_N_WARM_UP + n_timed):
        target.truncate(n_cached)
        before()
        target.truncate(n_cached)
        started = perf_counter()
        one()
        if idx >= _N_WARM_UP:
            times.append((perf_counter() - started) * 1e3)
    p50, p95 = np.percentile(times, [50, 95])
    return PassTimes(shape=shape, n_tokens=size, p50=float(p50), p95=float(p95))


def run(settings: Settings, n_timed: int) -> Report:
    """Time the passes of the settings' model."""
    with loaded_models(settings) as (_tokenizer, weights):
        found = pass_times(weights.target, n_timed)
    by_shape = {(one.shape, one.n_tokens): one for one in found}
    single = by_shape["chain", 1].p50
    table = Table(
        "T(k), milliseconds of a pass over k tokens",
        (
            "k",
            *("chain p50", "p95", "T(k)/T(1)"),
            *("after k = 1 p50", "p95", "T(k)/T(1)"),
            *("tree p50", "p95", "T(k)/T(1)"),
        ),
        caption=f"Each {n_timed} times, after a pass of its own shape, or over one token; "
        "logits of all k tokens are read.",
    )
    for size in SHAPES:
        cells: list[str] = []
        for shape in ("chain", _AFTER_ONE, "tree"):
            one = by_shape.get((shape, size))
            cells += (
                [f"{one.p50:.3f}", f"{one.p95:.3f}", f"{one.p50 / single:.2f}"]
                if one
                else ["–"] * 3
            )
        table.add(str(size), *cells)
    return Report([table], found)
