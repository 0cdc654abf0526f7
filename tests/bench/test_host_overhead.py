"""The measurement of the host's share: what it counts, never how long it took."""

from __future__ import annotations

from pathlib import Path

import pytest

from speclsp.bench import host_overhead
from speclsp.bench.host_overhead import HEADER, host_benchmark, render_rows
from speclsp.settings import Settings


def test_every_scenario_is_measured(model_folder: Path) -> None:
    overheads = host_benchmark(
        model_folder / "embedded-target-q8_0.gguf", Settings(threads=1), n_predict=12, n_runs=2
    )
    assert [overhead.scenario for overhead in overheads] == [
        "greedy, no drafts",
        "greedy, prompt-lookup",
        "greedy, suffix chain",
        "greedy, suffix tree",
        "sampled, no drafts",
        "sampled, prompt-lookup",
        "sampled, suffix tree",
    ]
    for overhead in overheads:
        assert overhead.n_tokens == 24
        assert 0 < overhead.n_steps <= 22
        assert 0.0 < overhead.host_p50 <= overhead.host_p95
        assert overhead.decode_p50 > 0.0
    # Without drafts each token but the first is a step.
    assert overheads[0].n_steps == overheads[4].n_steps == 22
    rows = render_rows(overheads)
    assert len(rows) == 7
    assert {len(row) for row in rows} == {len(HEADER)}


def test_a_missed_aim_is_profiled(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_overhead, "AIM_MS", 0.0)
    overheads = host_benchmark(
        model_folder / "embedded-target-q8_0.gguf", Settings(threads=1), n_predict=12, n_runs=1
    )
    assert all(not overhead.reaches_aim for overhead in overheads)
    assert all(any("(decode)" in line for line in overhead.profile) for overhead in overheads)
    assert all(row[-1].startswith("missed") for row in render_rows(overheads))
