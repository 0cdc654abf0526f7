"""``python -m benchmarks passes``: T(k), the time of a target pass over k tokens, by shape.

Drafts pay by the ratio T(k)/T(1): the curve is what the drafting policy learns while it decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, TypeAlias

import numpy as np

from benchmarks.machine import loaded_models
from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.backends.llama.context import LlamaTarget
from speclsp.decoding.target import Target, tree_target
from speclsp.drafting.cost import SHAPES
from speclsp.settings import Settings

_N_CACHED: Final = 1024
_N_BRANCHES: Final = 4
_N_WARM_UP: Final = 1
_LEAST_TIMED: Final = 3
_BUDGET_S: Final = 80.0
"""Seconds that the prompt and all passes may take, so that with loading Qwen2.5-Coder 1.5B the run
takes a minute and a half: with fewer passes of each shape where ``n_timed`` take longer."""
_BETWEEN: Final = "chain between single tokens"
_BEHIND: Final = ("1st single token behind", "2nd single token behind", "3rd single token behind")


_Passes: TypeAlias = "dict[str, Callable[[], object]]"
"""Passes to make in turn, by the names of their shapes."""


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Milliseconds of passes over ``n_tokens`` tokens, all of whose logits are read."""

    shape: str
    n_tokens: int
    n_timed: int
    p50: float
    p95: float
    n_reused: int
    """Passes of these that computed a graph that llama.cpp had built before."""


def pass_times(
    target: Target,
    n_timed: int,
    advance: Callable[[int, int], None] = lambda _done, _all: None,
    clock: Callable[[], float] = perf_counter,
    n_reused: Callable[[], int] = lambda: 0,
) -> list[PassTimes]:
    """Time chains and trees of every size behind ``_N_CACHED`` tokens, or half the context.

    ``n_timed`` times each, or as often as the budget allows by how long each takes once;
    ``advance`` takes the number of groups of passes that are done, and of all; ``n_reused`` returns
    the target's count of graphs that were computed again.
    A tree is one token and up to ``_N_BRANCHES`` branches of equal length.
    Each follows a pass of its own shape.  Chains also stand between passes over a single token,
    three of which are timed behind each: backends reuse a graph for the next pass of its shape, and
    build it anew for another.
    """
    n_cached = min(_N_CACHED, target.n_ctx // 2)
    begun = clock()
    target.truncate(0)
    target.decode([1 + idx % 997 for idx in range(n_cached)], 1)
    trees = tree_target(target)
    groups: list[tuple[int, _Passes]] = []
    for size in SHAPES:
        tokens = [1 + idx % 997 for idx in range(size)]

        chain = partial(target.decode, tokens, size)
        in_turn: list[_Passes] = [{"chain": chain}]
        if size > 1:
            alone = partial(target.decode, tokens[:1], 1)
            in_turn.append({_BETWEEN: chain, **dict.fromkeys(_BEHIND, alone)})
        if trees is not None and size > _N_BRANCHES:
            parents = [max(idx - _N_BRANCHES, -1) for idx in range(size - 1)]
            in_turn.append({"tree": partial(trees.decode_tree, tokens[:1], tokens[1:], parents)})
        groups += ((size, passes) for passes in in_turn)
    n_all = 2 * len(groups)
    started = clock()
    for n_done, (_, passes) in enumerate(groups):
        advance(n_done, n_all)
        _timed(passes, target, n_cached, 1, clock, n_reused)
    now = clock()
    if now > started:
        n_affordable = int((_BUDGET_S - (now - begun)) / (now - started)) - _N_WARM_UP
        n_timed = min(n_timed, max(_LEAST_TIMED, n_affordable))
    found: list[PassTimes] = []
    for n_done, (size, passes) in enumerate(groups, len(groups)):
        advance(n_done, n_all)
        timed = _timed(passes, target, n_cached, _N_WARM_UP + n_timed, clock, n_reused)
        for shape, made in timed.items():
            times, reused = zip(*made[_N_WARM_UP:], strict=True)
            p50, p95 = np.percentile(times, [50, 95]).tolist()
            one = PassTimes(shape, size, n_timed, p50, p95, sum(reused))
            found.append(one)
    target.truncate(0)
    return found


def _timed(
    passes: _Passes,
    target: Target,
    n_cached: int,
    n_turns: int,
    clock: Callable[[], float],
    n_reused: Callable[[], int],
) -> dict[str, list[tuple[float, int]]]:
    """Return milliseconds and reused graphs of passes made in turn, ``n_turns`` times each."""
    made: dict[str, list[tuple[float, int]]] = {shape: [] for shape in passes}
    for _ in range(n_turns):
        for shape, one in passes.items():
            target.truncate(n_cached)
            before, started = n_reused(), clock()
            one()
            made[shape].append(((clock() - started) * 1e3, n_reused() - before))
    return made


def run(settings: Settings, n_timed: int, batch_sizes: Sequence[int]) -> Report:
    """Time the passes of the settings' model, with ``batch_sizes`` in place of its own if given."""
    with loaded_models(settings) as (_tokenizer, weights), RunProgress() as progress:
        bar = progress.add_task("Shapes", total=None)
        local = weights.target if isinstance(weights.target, LlamaTarget) else None
        if local is not None and batch_sizes:
            local.batch_sizes = sorted(batch_sizes)
        found = pass_times(
            weights.target,
            n_timed,
            lambda n_done, n_all: progress.update(bar, completed=n_done, total=n_all),
            n_reused=lambda: local.n_graphs_reused if local is not None else 0,
        )
    by_shape = {(one.shape, one.n_tokens): one for one in found}
    single = by_shape["chain", 1].p50
    table = Table(
        "T(k), milliseconds of a pass over k tokens",
        (
            "k",
            *("chain p50", "p95", "T(k)/T(1)", "graph reused"),
            *("between k = 1 p50", "p95", "T(k)/T(1)", "graph reused"),
            *("tree p50", "p95", "T(k)/T(1)", "graph reused"),
            "1st, 2nd, 3rd k = 1 behind, in T(1)",
            "graph reused",
        ),
        caption=f"Each {found[0].n_timed} times, after a pass of its own shape, or three over one "
        "token, whose times are in the last columns; logits of all k tokens are read; "
        "llama.cpp counts the graphs that it computes again.",
    )
    for size in SHAPES:
        cells: list[str] = []
        for shape in ("chain", _BETWEEN, "tree"):
            one = by_shape.get((shape, size))
            cells += (
                [f"{one.p50:.3f}", f"{one.p95:.3f}", f"{one.p50 / single:.2f}", _share(one)]
                if one
                else ["–"] * 4
            )
        behind = [by_shape[shape, size] for shape in _BEHIND if (shape, size) in by_shape]
        ratios = ", ".join(f"{one.p50 / single:.2f}" for one in behind)
        table.add(str(size), *cells, ratios or "–", ", ".join(map(_share, behind)) or "–")
    return Report([table], found)


def _share(one: PassTimes) -> str:
    return f"{100 * one.n_reused / one.n_timed:.0f} %"
