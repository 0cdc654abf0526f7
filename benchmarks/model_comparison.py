"""Compare a made model's completions with the small model's, and measure its T(k).

The prompts are places in the projects of ``fixtures/cases``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.machine import loaded_tokenizer
from benchmarks.replay_project import ReplayProject
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.loading import load_target
from speclsp.decoding.target import Target
from speclsp.drafting.cost import SHAPES
from speclsp.prompt.prompt import PromptBudget
from speclsp.settings import Settings
from tests.support.margins import greedy_margin
from tests.support.prompts import build_prompt

_PROJECTS: Final = Path(__file__).parents[1] / "fixtures/cases"
N_PREDICT: Final = 32
"""Tokens of each completion."""
_MOST_TIMED: Final = 24
"""Tokens of the largest pass that is timed."""
_N_TIMED: Final = 4
"""Passes over each size; the shortest counts."""
_N_CTX: Final = 512
_BUDGET: Final = PromptBudget(n_prompt=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelComparison:
    """How alike two models' completions are, and what the second one's passes took."""

    n_prompts: int
    n_alike: int
    """Prompts whose completions are the same to the last token."""
    n_tokens: int
    n_tokens_alike: int
    """Tokens before the first that differs, over all prompts."""
    margins: tuple[float, ...]
    """The gap of the small model's two best logits where the completions part."""
    verify_times: tuple[tuple[int, float], ...]
    """(k, T(k) in milliseconds) of the second model."""

    def __str__(self) -> str:
        apart = f", at gaps of {max(self.margins):.3f} logits at most" if self.margins else ""
        return (
            f"{self.n_alike} of {self.n_prompts} greedy completions are the same to the last of "
            f"{N_PREDICT} tokens; {self.n_tokens_alike} of {self.n_tokens} tokens stand before "
            f"the first that differs{apart}"
        )


def real_prompts(settings: Settings, n_prompts: int) -> list[list[int]]:
    """Return fill-in-the-middle prompts in tokens of the settings' model."""
    tokenizer = loaded_tokenizer(settings)
    project = ReplayProject(_PROJECTS, settings, tokenizer.vocabulary.tokenize)
    return [
        list(
            build_prompt(
                tokenizer.family,
                tokenizer.vocabulary,
                repo_name=project.name,
                path=cursor.path,
                prefix=cursor.prefix,
                suffix=cursor.suffix,
                budget=_BUDGET,
                layout=settings.fim_layout,
            ).tokens
        )
        for cursor in project.gaps(n_prompts, seed=0)
    ]


def compare_models(
    small: Path,
    large: Path,
    settings: Settings,
    prompts: Sequence[Sequence[int]],
    progress: Callable[[float], None],
) -> ModelComparison:
    """Complete each prompt with both models, greedily, :data:`N_PREDICT` tokens each.

    ``progress`` takes the share that is done.
    Raises :class:`~speclsp.errors.ModelError` where one of them cannot be used.
    """
    with closing(_load(small, settings)) as target:
        wanted = [_complete(target, prompt) for prompt in prompts]
    n_alike, n_tokens_alike = 0, 0
    margins: list[float] = []
    with closing(_load(large, settings)) as target:
        times = _verify_times(target)
        for idx, (prompt, steps) in enumerate(zip(prompts, wanted, strict=True)):
            found = [token for token, _gap in _complete(target, prompt)]
            parted = [at for at, (token, _gap) in enumerate(steps) if token != found[at]]
            n_tokens_alike += parted[0] if parted else N_PREDICT
            n_alike += not parted
            margins += [steps[at][1] for at in parted[:1]]
            progress((idx + 1) / len(prompts))
    return ModelComparison(
        n_prompts=len(prompts),
        n_alike=n_alike,
        n_tokens=N_PREDICT * len(prompts),
        n_tokens_alike=n_tokens_alike,
        margins=tuple(margins),
        verify_times=times,
    )


def _verify_times(target: Target) -> tuple[tuple[int, float], ...]:
    """Return (k, T(k) in milliseconds) behind an empty cache."""
    times: list[tuple[int, float]] = []
    for size in (shape for shape in SHAPES if shape <= _MOST_TIMED):
        shortest = math.inf
        for _ in range(_N_TIMED):
            target.truncate(0)
            started = perf_counter()
            target.decode(list(range(size)), size)
            shortest = min(shortest, perf_counter() - started)
        times.append((size, shortest * 1e3))
    target.truncate(0)
    return tuple(times)


def _load(path: Path, settings: Settings) -> LlamaTarget:
    return load_target(
        path,
        replace(settings, ctx_size=_N_CTX),
        progress=lambda _share: True,
        log=lambda _level, _line: None,
    )


def _complete(target: Target, prompt: Sequence[int]) -> list[tuple[int, float]]:
    """Return each token of a greedy completion, and the gap of its step's two best logits."""
    target.truncate(0)
    row = target.decode(prompt, 1)[0]
    steps: list[tuple[int, float]] = []
    while True:
        steps.append((int(row.argmax()), 2.0 * greedy_margin(row)))
        if len(steps) == N_PREDICT:
            return steps
        row = target.decode([steps[-1][0]], 1)[0]
