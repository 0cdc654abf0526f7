"""Whole requests give the same text with and without drafts, but for near-ties.

A completer with ngram-mod before all others once began a text with `if col` that began with `if
row` without speculation.  Here requests with healing, stop rules, a KV cache that lives on, and a
pool of n-grams that all of them share are answered both ways, and where a request's texts differ,
the target's own choice at the first differing token was nearly even (:mod:`tests.support.margins`).
"""

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from real_prompts import CUTS, MODULES, STEP
from typed_requests import request_between, typed_completer
from waiting import until

from speclsp.completer import completion_job, jobs
from speclsp.decoding.sampling import SamplingParams
from speclsp.decoding.speculate import Generation
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import PlacedCompletion
from speclsp.settings import Settings
from tests.support.margins import EPSILON, RecordingSampler

pytestmark = pytest.mark.real

TARGET = Path(__file__).parents[2] / "fixtures" / "models" / "embedded-target-f16.gguf"
SPECULATION = {
    "ngram-mod first": {"mode": "first", "drafters": "ngram-mod,suffix"},
    "ngram-mod alone": {
        "mode": "first",
        "drafters": "ngram-mod",
        "spec_ngram_mod_n_match": 6,
        "draft_min": 2,
    },
    "merged": {"mode": "tree", "drafters": "ngram-mod,suffix", "spec_ngram_mod_n_match": 12},
}
N_TYPED = (0, 1, 2, 3)
"""Characters that were typed at each place, one after another."""


@dataclass
class Answer:
    """One request's prompt, tokens and text, and the margin of each choice."""

    name: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    margins: list[float]
    text: str
    n_drafted: int


class RequestsSampler(RecordingSampler):
    """Tells the margins of the running request."""

    latest: list[float]

    def __init__(self, params: SamplingParams) -> None:
        super().__init__(params)
        RequestsSampler.latest = self.margins


def requests() -> Iterator[tuple[str, PlacedCompletion]]:
    library = Path(sysconfig.get_path("stdlib"))
    for module in MODULES[: max(2, len(MODULES) // STEP)]:
        lines = (library / f"{module}.py").read_text(encoding="utf-8").splitlines(keepends=True)
        for share, _ in CUTS:
            line_idx = int(len(lines) * share)
            while not lines[line_idx].strip():
                line_idx += 1
            n_indent = len(lines[line_idx]) - len(lines[line_idx].lstrip())
            for n_typed in N_TYPED:
                prefix = "".join(lines[:line_idx]) + lines[line_idx][: n_indent + n_typed]
                suffix = "\n" + "".join(lines[line_idx + 1 :])
                yield (
                    f"{module}.py:{line_idx + 1}, {n_typed} typed",
                    request_between(
                        prefix, suffix, uri=f"file:///p/{module}.py", path=f"{module}.py"
                    ),
                )


def answers(monkeypatch: pytest.MonkeyPatch, sampled: str, **options: Any) -> list[Answer]:
    """Ask a completer of its own everything."""
    settings = Settings(
        model=str(TARGET), fit=False, threads=1, persist=False, idle_work="never",
        suggestion_memory=False, min_probability=0.0, t_max_predict_ms=0, deadline_ms=600_000,
        temperature=0.8 if sampled == "seeded" else 0.0, seed=7, **options,
    )  # fmt: skip
    generated: list[tuple[tuple[int, ...], Generation]] = []
    generate = jobs.generate

    def recorded(target: Any, context: Any, **more: Any) -> Generation:
        generation = generate(target, context, **more)
        generated.append((tuple(context.prompt), generation))
        return generation

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "generate", recorded)
        patched.setattr(completion_job, "make_sampler", RequestsSampler)
        completer = typed_completer(settings)
        completer.start()
        try:
            until(lambda: completer.state() == "ready")
            found = []
            for name, request in requests():
                text = completer.complete(request, CancellationToken()).result(600).generated.text
                prompt, generation = generated.pop()
                assert not generated
                found.append(
                    Answer(
                        name,
                        prompt,
                        generation.tokens,
                        RequestsSampler.latest,
                        text,
                        generation.stats.n_drafted,
                    )
                )
            return found
        finally:
            completer.close()


@pytest.mark.parametrize("sampled", ["greedy", "seeded"])
def test_requests_that_come_out_differently_were_nearly_even(monkeypatch, sampled):
    alone = answers(monkeypatch, sampled, speculation=False)
    for name, options in SPECULATION.items():
        drafted = answers(monkeypatch, sampled, **options)
        assert sum(answer.n_drafted for answer in drafted) > len(drafted), name
        n_differing = 0
        for one, other in zip(alone, drafted, strict=True):
            assert one.prompt == other.prompt
            assert len(one.margins) == len(one.tokens)
            if one.tokens == other.tokens:
                assert one.text == other.text
                continue
            n_differing += 1
            n_same = next(
                place
                for place, pair in enumerate(zip(one.tokens, other.tokens, strict=False))
                if pair[0] != pair[1]
            )
            assert one.margins[n_same] < EPSILON["f16"], (name, one.name, one.text, other.text)
        print(f"{name}, {sampled}: {n_differing} of {len(alone)} differ")  # noqa: T201
