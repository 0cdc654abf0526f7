"""``python -m benchmarks speculation`` with the embedded model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from case_folders import write_lines
from click.testing import CliRunner

from benchmarks.commands import cli


@pytest.mark.real
def test_both_sides_generate_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    prefix = "total = first + second\nprint(total)\n\n" * 4
    typed = "total = first"
    case = {"id": "x", "path": "x.py", "prefix": prefix, "typed": typed, "suffix": "\n"}
    cases = write_lines(tmp_path / "cases.jsonl", case)
    report = tmp_path / "report.json"
    fast = ("--threads", "1", "--n-predict", "12", "--mode", "tree", "--keys", "6")
    arguments = ("speculation", str(cases), "--rounds", "2", "--json", str(report), *fast)
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "share of the passes drafted" in result.output
    figures = json.loads(report.read_text())
    assert figures["options"] == {"cases": 1, "keys": 6, "seed": 0, "rounds": 2}
    for off, on in zip(figures["without"], figures["with"], strict=True):
        assert off["n_answered"] == on["n_answered"] > 0
        assert (off["drafted"], off["tokens_per_pass"]) == (0.0, 1.0)
        assert on["drafted"] > 0.0
        assert on["tokens_per_pass"] > 1.0
