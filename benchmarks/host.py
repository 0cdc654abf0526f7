"""``python -m benchmarks host``: what the host adds to each ``llama_decode``.

That is drafting, verifying, sampling, scoring what was emitted, stop rules, rolling back, filling
the batch and reading the logits; a draft model's own decodes are decodes, too.
"""

from __future__ import annotations

import cProfile
import dataclasses
import functools
import io
import pstats
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.machine import loaded_models
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.backends.weights import Tokenizer
from speclsp.decoding.sampling import Sampler, SamplingParams, make_sampler
from speclsp.decoding.speculate import generate
from speclsp.decoding.target import Logits, TreeTarget, tree_target
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext, Drafter, ModelDrafter
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.prompt_lookup import create as create_prompt_lookup
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.suffix import create as create_suffix
from speclsp.errors import EngineError
from speclsp.settings import DraftMode, Settings


@contextmanager
def marked(target: TreeTarget, draft: ModelDrafter | None) -> Iterator[list[tuple[int, int]]]:
    """Record two clocks after each of the target's decodes: wall time, and time inside llama.cpp.

    Both are in nanoseconds; a draft model's decodes are time inside llama.cpp, too.
    """
    marks: list[tuple[int, int]] = []

    def recording(decode: Callable[..., Logits]) -> Callable[..., Logits]:
        def decoded(*arguments: Any) -> Logits:
            logits = decode(*arguments)
            ns_native = target.ns_native + (draft.ns_native if draft is not None else 0)
            marks.append((perf_counter_ns(), ns_native))
            return logits

        return decoded

    with (
        patch.object(target, "decode", recording(target.decode)),
        patch.object(target, "decode_tree", recording(target.decode_tree)),
    ):
        yield marks


PROFILED_MS = 0.3
"""Steps to which the host adds more, as the median, are profiled."""

_N_PREDICT = 256
_N_RUNS = 4
_N_PROFILE_LINES = 12
_N_COPIES = 8
_N_PROMPT = 1024
_TEXT = Path(__file__).parents[1] / "fixtures/cases/starlette/starlette/templating.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOverhead:
    """Milliseconds per step of one scenario; a step is one target pass after the prefill."""

    scenario: str
    n_steps: int
    n_tokens: int
    host_p50: float
    host_p95: float
    decode_p50: float
    """Inside llama_decode, for comparison."""
    profile: tuple[str, ...] = ()
    """Lines of a profile, where the host took long."""


def measure_host_overhead(
    target: TreeTarget,
    context: DraftContext,
    *,
    scenario: str,
    drafter: Drafter | Proposer | None,
    draft_model: ModelDrafter | None,
    new_sampler: Callable[[], Sampler],
    n_predict: int,
    n_runs: int,
) -> HostOverhead:
    """Generate ``n_runs`` times and return what the host added between decodes.

    Between two decodes lies one step: from the end of one to the end of the next, less the time
    inside llama.cpp.  ``draft_model`` is part of ``drafter``, and its time counts as such.
    A generation's first decodes are its prefill and do not count.
    """

    def run() -> tuple[list[float], list[float], int]:
        with marked(target, draft_model) as recorded:
            generation = generate(
                target,
                context,
                drafter=drafter,
                sampler=new_sampler(),
                n_predict=n_predict,
                stop=lambda _token: False,
                interrupted=lambda: None,
                clock=perf_counter,
                scores=TokenScores(),
            )
        marks = np.array(recorded, dtype=np.int64).reshape(-1, 2)
        n_steps = generation.stats.n_target_passes - 1
        steps = np.diff(marks, axis=0)[len(marks) - 1 - n_steps :]
        wall, native = steps[:, 0] / 1e6, steps[:, 1] / 1e6
        return (wall - native).tolist(), native.tolist(), len(generation.tokens)

    run()  # the first run fills caches
    host: list[float] = []
    native: list[float] = []
    n_tokens = 0
    for _ in range(n_runs):
        run_host, run_native, n_run_tokens = run()
        host += run_host
        native += run_native
        n_tokens += n_run_tokens
    median = float(np.median(host)) if host else 0.0
    return HostOverhead(
        scenario=scenario,
        n_steps=len(host),
        n_tokens=n_tokens,
        host_p50=median,
        host_p95=float(np.percentile(host, 95)) if host else 0.0,
        decode_p50=float(np.median(native)) if native else 0.0,
        profile=_profile(run) if median > PROFILED_MS else (),
    )


def host_benchmark(
    settings: Settings, n_predict: int = _N_PREDICT, n_runs: int = _N_RUNS
) -> tuple[HostOverhead, ...]:
    """Load the models and measure: without drafts, with look-up and trees, and with sampling.

    Where the settings name a draft model, with it, too.
    Raises :class:`~speclsp.errors.SpecLspError` where a model cannot be used.
    """
    with loaded_models(settings) as (tokenizer, weights):
        if weights.problems:
            raise weights.problems[0]
        target = tree_target(weights.target)
        if target is None:
            raise EngineError(
                "this model cannot take tokens back, so that nothing is drafted for it.",
                remedy="Take a model without recurrent layers.",
            )
        context, n_predict = _context(tokenizer, target, n_predict)
        return tuple(
            measure_host_overhead(
                target,
                context,
                scenario=scenario,
                drafter=drafter,
                draft_model=weights.draft,
                new_sampler=functools.partial(make_sampler, params),
                n_predict=n_predict,
                n_runs=n_runs,
            )
            for scenario, drafter, params in _scenarios(settings, weights.draft)
        )


def _scenarios(
    settings: Settings, draft_model: ModelDrafter | None
) -> list[tuple[str, Drafter | Proposer | None, SamplingParams]]:
    sampling = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, seed=1)
    greedy = dataclasses.replace(sampling, temperature=0.0)
    suffix = create_suffix(settings)
    scenarios: list[tuple[str, Drafter | Proposer | None, SamplingParams]] = [
        ("greedy, no drafts", None, greedy),
        ("greedy, prompt-lookup", create_prompt_lookup(settings), greedy),
        ("greedy, suffix chain", _merger([suffix], settings, "chain"), greedy),
        ("greedy, suffix tree", _merger([suffix], settings, "tree"), greedy),
        ("sampled, no drafts", None, sampling),
        ("sampled, prompt-lookup", create_prompt_lookup(settings), sampling),
        ("sampled, suffix tree", _merger([suffix], settings, "tree"), sampling),
    ]
    if draft_model is not None:
        both = _merger([suffix, draft_model], settings, "chain")
        scenarios += [
            ("greedy, draft model", draft_model, greedy),
            ("greedy, suffix and draft model", both, greedy),
        ]
    return scenarios


def _context(tokenizer: Tokenizer, target: TreeTarget, n_predict: int) -> tuple[DraftContext, int]:
    """Return a context whose prompt is source code that the open buffers repeat, and n_predict."""
    tokens = tokenizer.vocabulary.tokenize(_TEXT.read_text(encoding="utf-8"))
    n_prompt = min(len(tokens), target.n_ctx // 2, _N_PROMPT)
    context = DraftContext(
        prompt=tokens[:n_prompt].tolist(),
        prefix=tokens[:n_prompt],
        buffers=(np.tile(tokens, _N_COPIES),),
    )
    return context, min(n_predict, target.n_ctx - n_prompt)


def _merger(drafters: Sequence[Drafter], settings: Settings, mode: DraftMode) -> DraftMerger:
    """Return a proposer that merges the drafters into chains or trees."""
    return DraftMerger(
        drafters,
        AcceptanceTable(),
        mode=mode,
        p_split=settings.p_split,
        n_max=settings.max_draft,
    )


def host_table(overheads: Sequence[HostOverhead]) -> Table:
    """Return a row for each scenario."""
    table = Table(
        "Milliseconds per step, outside llama_decode and inside",
        ("scenario", "steps", "tokens", "host p50", "host p95", "decode p50"),
    )
    for one in overheads:
        times = (f"{ms:.3f}" for ms in (one.host_p50, one.host_p95, one.decode_p50))
        table.add(one.scenario, str(one.n_steps), str(one.n_tokens), *times)
    return table


def _profile(run: Callable[[], object]) -> tuple[str, ...]:
    """Return the lines of a profile of one run, the costliest functions first."""
    profiler = cProfile.Profile()
    profiler.enable()
    run()
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(_N_PROFILE_LINES)
    return tuple(line for line in text.getvalue().splitlines() if line.strip())


def run(settings: Settings) -> Report:
    """Measure what the host adds to each llama_decode."""
    overheads = host_benchmark(settings)
    profiles = [
        "\n".join([f"Profile of {overhead.scenario}:", "", *overhead.profile, ""])
        for overhead in overheads
        if overhead.profile
    ]
    return Report([host_table(overheads), *profiles], overheads)
