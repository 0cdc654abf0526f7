"""``drafters`` with the embedded model: what they print."""

import json

from speclsp.drafting.registry import known_names
from speclsp.embedded import sample_project
from tests.benchmarks.command_line import run


def test_drafters_are_compared(tmp_path):
    report = tmp_path / "report.json"
    result = run(
        "drafters", str(sample_project()), "--cursors", "2", "--rounds", "2", "--completions", "1",
        "--n-predict", "12", "--threads", "1", "--json", str(report),
    )  # fmt: skip
    names = [name for name in known_names() if name != "draft"]
    for name in (*names, "merged tree", "merged chain", "merged auto", "off"):
        assert name in result.output
    assert "| merged / best of llama.cpp's" in result.output
    assert "speed-up" in result.output
    written = json.loads(report.read_text())
    assert written["remarks"] == []
    figures = written["figures"]
    assert {row["task"] for row in figures["counts"]} == {"gaps", "edits"}
    counted = [row["counts"] for row in figures["counts"]]
    assert all(counts["n_tokens"] >= counts["n_passes"] > 0 for counts in counted)
    assert figures["summary"].keys() == {
        "merged tokens per pass", "merged / best drafter alone", "merged / best of llama.cpp's",
        "mean acceptance length in edits",
    }  # fmt: skip
    decoded = figures["decoding"]
    sides = {side["name"]: side["by_round"] for side in decoded["sides"]}
    assert {*sides} == {*names, "off", "merged chain", "merged auto"}
    assert sides["off"]["tokens_per_pass"] == [1.0, 1.0]
    assert all(len(by_round["tokens_per_s"]) == 2 for by_round in sides.values())
    assert [decoded["texts"][name]["n_all"] for name in sides] == [2] * len(sides)
    assert decoded["texts"]["off"]["n_same"] == 2


def test_a_folder_without_code_is_refused(tmp_path):
    (tmp_path / "notes.md").write_text("word\n" * 100)
    result = run("drafters", str(tmp_path), fails=True)
    assert "no code file" in str(result.exception)
