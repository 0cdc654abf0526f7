"""The measurement of the host's share: what it counts, never how long it took."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from scripted_drafters import EmptyDrafter, ModelBase
from scripted_target import ScriptedTarget, hashing

from benchmarks import host
from benchmarks.host import host_benchmark, host_table
from speclsp.decoding.sampling import SamplingParams, make_sampler
from speclsp.decoding.target import Logits
from speclsp.drafting.drafter import Draft, DraftContext
from speclsp.errors import ModelNotFoundError
from speclsp.settings import Settings

NAMES = (
    "greedy, no drafts",
    "greedy, prompt-lookup",
    "greedy, suffix chain",
    "greedy, suffix tree",
    "sampled, no drafts",
    "sampled, prompt-lookup",
    "sampled, suffix tree",
)


def settings(model_folder: Path, **others: str) -> Settings:
    return Settings(model=str(model_folder / "embedded-target-f16.gguf"), threads=1, **others)


def test_every_scenario_is_measured(model_folder):
    overheads = host_benchmark(settings(model_folder), n_predict=12, n_runs=2)
    assert tuple(overhead.scenario for overhead in overheads) == NAMES
    for overhead in overheads:
        assert overhead.n_tokens == 24
        assert 0 < overhead.n_steps <= 22
        assert 0.0 < overhead.host_p50 <= overhead.host_p95
        assert overhead.decode_p50 > 0.0
    # Without drafts each token but the first is a step.
    assert overheads[0].n_steps == overheads[4].n_steps == 22
    table = host_table(overheads)
    assert [row[0] for row in table.rows] == list(NAMES)
    assert {len(row) for row in table.rows} == {len(table.headers)}


class TickingTarget(ScriptedTarget):
    """Computes for a millisecond per decode."""

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        self.ns_native += 1_000_000
        return super().decode(tokens, n_logits)


class TickingDrafter(EmptyDrafter, ModelBase):
    """Has a model that computes for three milliseconds per draft."""

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        self.ns_native += 3_000_000
        return super().draft(generated, n_max)


def test_what_a_draft_model_decodes_is_not_the_hosts():
    drafter = TickingDrafter()
    params = SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)
    overhead = host.measure_host_overhead(
        TickingTarget(hashing(7), 7),
        DraftContext(prompt=[1, 2, 3]),
        scenario="a draft model",
        drafter=drafter,
        draft_model=drafter,
        new_sampler=lambda: make_sampler(params),
        n_predict=8,
        n_runs=2,
    )
    # The last step has no room for a draft.
    assert (overhead.n_steps, overhead.decode_p50) == (14, 4.0)


def test_a_draft_model_that_is_named_is_measured_too(model_folder):
    both = settings(model_folder, spec_draft_model=str(model_folder / "embedded-draft-q8_0.gguf"))
    overheads = host_benchmark(both, n_predict=12, n_runs=1)
    names = ("greedy, draft model", "greedy, suffix and draft model")
    assert tuple(overhead.scenario for overhead in overheads) == NAMES + names
    assert all(0 < overhead.n_steps <= 11 for overhead in overheads)
    with pytest.raises(ModelNotFoundError):
        host_benchmark(settings(model_folder, spec_draft_model="none.gguf"))


def test_slow_steps_are_profiled(model_folder, monkeypatch):
    monkeypatch.setattr(host, "PROFILED_MS", 0.0)
    overheads = host_benchmark(settings(model_folder), n_predict=12, n_runs=1)
    assert all(any("(_run)" in line for line in overhead.profile) for overhead in overheads)
