"""``drafters`` with the embedded model: what they print."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from benchmarks.commands import cli
from speclsp.drafting.registry import known_names
from speclsp.embedded import sample_project


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_drafters_are_compared(tmp_path: Path) -> None:
    report, picture = tmp_path / "report.json", tmp_path / "chart.svg"
    result = run(
        "drafters", str(sample_project()), "--cursors", "2", "--rounds", "2", "--completions", "1",
        "--n-predict", "12", "--threads", "1", "--json", str(report), "--svg", str(picture),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    names = [name for name in known_names() if name != "draft"]
    for name in (*names, "merged tree", "merged chain", "merged auto", "off"):
        assert name in result.output
    assert "| merged / best of llama.cpp's" in result.output
    assert "end in a loop" in result.output
    figures = json.loads(report.read_text())
    assert figures["options"] == {"cursors": 2, "seed": 0, "rounds": 2, "remarks": []}
    assert {row["task"] for row in figures["counts"]} == {"gaps", "edits"}
    assert all(row["n_tokens"] >= row["n_passes"] > 0 for row in figures["counts"])
    assert figures["summary"].keys() == {
        "merged", "to_best_single", "to_best_llama_cpp", "edit_length",
    }  # fmt: skip
    off = figures["times"]["drafters"][0]
    assert (off["drafter"], off["speedup"], off["tokens_per_pass"]) == ("off", 1.0, 1.0)
    for row in figures["times"]["drafters"]:
        assert len(row["speedup_by_round"]) == 2
        assert row["n_tokens"] == off["n_tokens"]  # lossless
        assert 0.0 < row["ms_p50"] <= row["ms_p95"]
    assert 0.0 <= figures["times"]["loop_share"] <= 1.0
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")


def test_a_folder_without_code_is_refused(tmp_path: Path) -> None:
    result = run("drafters", str(tmp_path))
    assert result.exit_code != 0
    assert "no code file" in str(result.exception)
