"""Measures what the host adds to llama_decode: everything between the decodes of a generation.

That is drafting, verifying, sampling, scoring what was emitted, stop rules, rolling back, filling
the batch and reading the logits.  The aim is at most 0.3 ms per step; what is above it is profiled.
"""

from __future__ import annotations

import cProfile
import functools
import io
import pstats
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns

import numpy as np

from speclsp.decoding.protocol import Logits, TreeTarget
from speclsp.decoding.sampling import Sampler, SamplingParams, make_sampler
from speclsp.decoding.speculate import generate
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.calibration import Calibration
from speclsp.drafting.merger import DraftMerger, MergeMode
from speclsp.drafting.prompt_lookup import create as create_prompt_lookup
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import DraftContext, Drafter
from speclsp.drafting.suffix import create as create_suffix
from speclsp.engine.llama.loading import load_target
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.engine.params import target_params
from speclsp.settings import Settings

AIM_MS = 0.3
"""Most milliseconds that the host may add to a step."""

HEADER = ("scenario", "steps", "tokens", "host p50 ms", "host p95 ms", "decode p50 ms", "aim")

_N_PREDICT = 256
_N_RUNS = 4
_N_PROFILE_LINES = 12
_N_COPIES = 8


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
    """Lines of a profile, where the aim was missed."""

    @property
    def reaches_aim(self) -> bool:
        """Whether the median step is within :data:`AIM_MS`."""
        return self.host_p50 <= AIM_MS


@dataclass(slots=True)
class _StepClock:
    """Stands between the loop and its target, and notes both clocks after each decode."""

    target: TreeTarget
    marks: list[tuple[int, int]] = field(default_factory=list)
    """(wall clock, time inside llama.cpp) in nanoseconds after each decode."""

    @property
    def n_ctx(self) -> int:
        return self.target.n_ctx

    @property
    def n_batch(self) -> int:
        return self.target.n_batch

    @property
    def n_ubatch(self) -> int:
        return self.target.n_ubatch

    @property
    def n_vocab(self) -> int:
        return self.target.n_vocab

    @property
    def ns_native(self) -> int:
        return self.target.ns_native

    @property
    def cached(self) -> Sequence[int]:
        return self.target.cached

    def truncate(self, n_tokens: int) -> None:
        self.target.truncate(n_tokens)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        logits = self.target.decode(tokens, n_logits)
        self.marks.append((perf_counter_ns(), self.target.ns_native))
        return logits

    @property
    def supports_trees(self) -> bool:
        return self.target.supports_trees

    @property
    def n_branches(self) -> int:
        return self.target.n_branches

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        logits = self.target.decode_tree(pending, tokens, parents)
        self.marks.append((perf_counter_ns(), self.target.ns_native))
        return logits

    def keep_path(self, path: Sequence[int]) -> None:
        self.target.keep_path(path)


def measure_host_overhead(
    target: TreeTarget,
    context: DraftContext,
    *,
    scenario: str,
    drafter: Drafter | Proposer | None,
    new_sampler: Callable[[], Sampler],
    n_predict: int,
    n_runs: int,
) -> HostOverhead:
    """Generate ``n_runs`` times and return what the host added between decodes.

    Between two decodes lies one step: from the end of one to the end of the next, less the time
    inside llama.cpp.  A generation's first decodes are its prefill and do not count.
    """

    def run() -> tuple[list[float], list[float], int]:
        clock = _StepClock(target)
        generation = generate(
            clock,
            context,
            drafter=drafter,
            sampler=new_sampler(),
            n_predict=n_predict,
            stop=lambda _token: False,
            interrupted=lambda: None,
            clock=perf_counter,
            scores=TokenScores(),
        )
        marks = np.array(clock.marks, dtype=np.int64).reshape(-1, 2)
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
        profile=_profile(run) if median > AIM_MS else (),
    )


def host_benchmark(
    path: Path, settings: Settings, n_predict: int = _N_PREDICT, n_runs: int = _N_RUNS
) -> tuple[HostOverhead, ...]:
    """Load a model and measure it: without drafts, with look-up and trees, and with sampling.

    Raises :class:`~speclsp.errors.ModelError` where the model cannot be used.
    """
    vocabulary = load_vocabulary(path)
    text = Path(__file__).read_text(encoding="utf-8")
    tokens = vocabulary.tokenize(text)
    model_params, context_params = target_params(settings, model_bytes=path.stat().st_size)
    target = load_target(
        path,
        model_params,
        context_params,
        fit=settings.fit,
        progress=lambda _share: True,
        log=lambda _level, _line: None,
    )
    sampling = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, seed=1)
    greedy = SamplingParams(temperature=0.0, top_k=40, top_p=0.95, min_p=0.05, seed=1)
    n_prompt = min(len(tokens), target.n_ctx // 2)
    n_predict = min(n_predict, target.n_ctx - n_prompt)
    context = DraftContext(
        prompt=tokens[:n_prompt].tolist(),
        prefix=tokens[:n_prompt],
        buffers=(np.tile(tokens, _N_COPIES),),
    )
    try:
        return tuple(
            measure_host_overhead(
                target,
                context,
                scenario=scenario,
                drafter=drafter,
                new_sampler=functools.partial(make_sampler, params),
                n_predict=n_predict,
                n_runs=n_runs,
            )
            for scenario, drafter, params in (
                ("greedy, no drafts", None, greedy),
                ("greedy, prompt-lookup", create_prompt_lookup(settings), greedy),
                ("greedy, suffix chain", _merger(settings, "chain"), greedy),
                ("greedy, suffix tree", _merger(settings, "tree"), greedy),
                ("sampled, no drafts", None, sampling),
                ("sampled, prompt-lookup", create_prompt_lookup(settings), sampling),
                ("sampled, suffix tree", _merger(settings, "tree"), sampling),
            )
        )
    finally:
        target.close()
        vocabulary.close()


def _merger(settings: Settings, mode: MergeMode) -> DraftMerger:
    """Return what drafts chains or trees from text that continues as the text at the cursor."""
    return DraftMerger(
        [create_suffix(settings)],
        Calibration(),
        mode=mode,
        p_split=settings.p_split,
        n_max=settings.max_draft,
    )


def render_rows(overheads: Sequence[HostOverhead]) -> list[tuple[str, ...]]:
    """Return the rows of a table under :data:`HEADER`."""
    return [
        (
            overhead.scenario,
            str(overhead.n_steps),
            str(overhead.n_tokens),
            f"{overhead.host_p50:.3f}",
            f"{overhead.host_p95:.3f}",
            f"{overhead.decode_p50:.3f}",
            "reached" if overhead.reaches_aim else f"missed ({AIM_MS} ms)",
        )
        for overhead in overheads
    ]


def _profile(run: Callable[[], object]) -> tuple[str, ...]:
    """Return the lines of a profile of one run, the costliest functions first."""
    profiler = cProfile.Profile()
    profiler.enable()
    run()
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(_N_PROFILE_LINES)
    return tuple(line for line in text.getvalue().splitlines() if line.strip())
