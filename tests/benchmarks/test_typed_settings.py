"""``typing``, ``speculation`` and ``quality`` with the embedded model: what they print."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from benchmarks import quality, typed_settings
from benchmarks.quality_scores import replay_quality
from benchmarks.typing_session import STEPS
from speclsp.errors import EngineUnavailableError
from tests.benchmarks import command_line
from tests.benchmarks.case_folders import write_lines

PREFIX = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\n"


@pytest.fixture
def cases(tmp_path):
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "sums.py").write_text(PREFIX)
    (tmp_path / "sums" / "calls.py").write_text("from sums import add, mul\n\nmul(1, add(2, 3))\n")
    n = len(PREFIX)
    return write_lines(
        tmp_path / "cases.jsonl",
        {
            "id": "mul", "path": "sums.py", "project": "sums", "language_id": "python",
            "typed": "def mul(a, b):\n    return", "start": n, "end": n,
        },
        {"id": "x", "path": "x.py", "prefix": "x = 1\ny =", "typed": " x + 1", "suffix": "\n"},
    )  # fmt: skip


def run(*arguments: str | Path, fails: bool = False) -> Result:
    return command_line.run(*arguments, "--threads", "1", "--n-predict", "12", fails=fails)


@pytest.mark.real
def test_typing_is_counted(cases, tmp_path):
    report = tmp_path / "report.json"
    result = run("typing", cases, "--json", report)
    for words in ("behind a new line", "characters saved", "answered from memory"):
        assert words in result.output
    figures = json.loads(report.read_text())
    assert figures["options"] == {
        "cases_path": str(cases), "n_cases": 40, "replay_seed": 0, "compare": True, "pauses": True,
        "through_server": False,
    }  # fmt: skip
    assert list(figures["figures"]) == ["anchored", "plain"]
    for counts in figures["figures"].values():
        assert counts["n_chars"] == len("def mul(a, b):\n    return") + len(" x + 1")
        assert counts["n_requests"] == counts["n_keys"] + counts["n_takes"] + counts["n_jumps"]
        assert counts["evaluated"]["jump"]["n"] >= 1
        assert counts["evaluated"]["all"]["n"] <= counts["n_requests"]
        assert counts["ms"]["all"]["n"] == counts["n_requests"]
        assert counts["n_target_passes"] > 0


@pytest.mark.real
def test_a_server_process_answers_the_same_keys(cases, tmp_path):
    report = tmp_path / "report.json"
    alone = ("--no-compare", "--no-pauses", "--fim-layout", "plain")
    run("typing", cases, "--server", *alone, "--json", report)
    ((layout, counts),) = json.loads(report.read_text())["figures"].items()
    assert layout == "plain"
    assert counts["n_chars"] == len("def mul(a, b):\n    return") + len(" x + 1")
    assert counts["n_requests"] == counts["n_keys"] + counts["n_takes"] + counts["n_jumps"]
    assert counts["evaluated"]["jump"]["most"] > 10
    n_from = {name: one["n"] for name, one in counts["ms"].items()}
    assert n_from["all"] == counts["n_requests"] == sum(n_from.values()) - n_from["all"]


@pytest.mark.real
def test_a_server_without_a_model_is_told(cases, tmp_path):
    missing = tmp_path / "missing.gguf"
    result = run("typing", cases, "--server", "--no-compare", "--model", missing, fails=True)
    assert isinstance(result.exception, EngineUnavailableError)
    assert "missing.gguf" in result.exception.message


@pytest.mark.real
def test_quality_is_compared_with_a_plain_clients(cases, tmp_path):
    report = tmp_path / "report.json"
    result = run("quality", cases, "--stride", "5", "--json", report)
    bound = "7 places of 2 edits, 3 ways of completing: at most 1 minutes"
    assert result.stdout.startswith(bound)
    for words in ("speclsp", "anchored baseline", "plain baseline", "broken word"):
        assert words in result.output
    figures = json.loads(report.read_text())["figures"]
    places = {
        name: [
            (case["id"], [place["n_typed"] for place in case["places"]]) for case in one["cases"]
        ]
        for name, one in figures["runs"].items()
    }
    assert len(places) == 3
    assert all(one == [("mul", [0, 5, 10, 19, 24]), ("x", [0, 5])] for one in places.values())
    assert figures["baseline"] in places


@pytest.mark.real
def test_quality_keeps_what_was_judged_when_it_ends_early(cases, monkeypatch):
    replayed: list[str] = []

    def replay(asked, asker, *, stride):
        replayed.append(asked.id)
        if len(replayed) == 5:  # of the second case the second way
            raise KeyboardInterrupt
        return replay_quality(asked, asker, stride=stride)

    monkeypatch.setattr(quality, "replay_quality", replay)
    result = run("quality", cases, "--stride", "5", fails=True)
    assert "The run ended early" in result.output
    assert "Suggestions at 5 places of 1 edits" in result.output
    assert replayed == ["mul"] * 3 + ["x"] * 2


@pytest.mark.real
def test_both_sides_generate_the_same_text(tmp_path):
    prefix = "total = first + second\nprint(total)\n\n" * 4
    typed = "total = first"
    case = {"id": "x", "path": "x.py", "prefix": prefix, "typed": typed, "suffix": "\n"}
    cases = write_lines(tmp_path / "cases.jsonl", case)
    report = tmp_path / "report.json"
    fast = ("--threads", "1", "--n-predict", "12", "--mode", "tree", "--keys", "6")
    arguments = ("speculation", str(cases), "--rounds", "2", "--json", str(report), *fast)
    result = command_line.run(*arguments)
    assert "share of the passes drafted" in result.output
    figures = json.loads(report.read_text())["figures"]
    off, on = figures["without"], figures["with"]
    assert len(off["n_answered"]) == 2
    assert off["n_answered"] == on["n_answered"]
    assert min(on["n_answered"]) > 0
    assert (off["drafted"], off["tokens_per_pass"]) == ([0.0] * 2, [1.0] * 2)
    assert off["acceptance"] == [None] * 2
    assert min(on["drafted"]) > 0.0
    assert min(on["tokens_per_pass"]) > 1.0
    for side in (off, on):
        by_step = zip(*(side[f"decoding_{step}"] for step in STEPS), strict=True)
        assert side["decoding"] == pytest.approx([sum(one) for one in by_step])
        assert min(side["decoding"]) > 0.0


@pytest.mark.real
def test_whole_rounds_are_printed_when_speculation_ends_early(cases, monkeypatch):
    typed = []

    def typed_in_turns(*arguments, pauses):
        typed.append(arguments)
        if len(typed) == 2:
            raise KeyboardInterrupt
        return whole(*arguments, pauses=pauses)

    whole = typed_settings.typed_in_turns
    monkeypatch.setattr(typed_settings, "typed_in_turns", typed_in_turns)
    arguments = ("speculation", str(cases), "--rounds", "3", "--keys", "2", "--threads", "1")
    result = command_line.run(*arguments, fails=True)
    assert "The run ended early" in result.output
    assert "Typed sessions, 1 rounds" in result.output
