"""``speclsp bench peers`` with the embedded model, beside a program that is like llama-server."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from case_folders import write_lines
from click.testing import CliRunner, Result
from fake_llama_server import as_program

from speclsp.bench.peers_figures import Figures
from speclsp.bench.peers_run import UnknownPeerError
from speclsp.cli import bench_peers
from speclsp.cli.bench import bench

PREFIX = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\n"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "sums.py").write_text(PREFIX * 6)
    return write_lines(
        tmp_path / "cases.jsonl",
        {
            "id": "mul", "path": "sums.py", "project": "sums", "language_id": "python",
            "typed": "def mul(a, b):\n    return", "start": len(PREFIX) - 1, "end": len(PREFIX) - 1,
        },
    )  # fmt: skip


def run(*arguments: str | Path) -> Result:
    fast = ("--threads", "1", "--n-predict", "8", "--keys", "2", "--places", "1")
    few = ("--decode-tokens", "6", "--mode", "tree")
    return CliRunner().invoke(bench, [str(one) for one in ("peers", *arguments, *fast, *few)])


@pytest.mark.real
def test_all_sides_are_compared_and_the_record_is_written(cases: Path, tmp_path: Path) -> None:
    server = as_program(tmp_path)
    names = "llama-server,llama-server draft"
    record = tmp_path / "record"
    record.mkdir()
    report, picture = tmp_path / "report.json", tmp_path / "chart.svg"
    result = run(
        cases, "--llama-server", server, "--peers", names, "--json", report, "--plot", picture,
        "--record", record, "--no-forgetting",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for words in (
        "speclsp (no speculation)",
        "Decoding alone where an edit begins",
        "Decoding alone in a changed copy of a block",
        "key to answer, p50: speclsp / llama-server = ",
        "llama-server draft did not run: no draft model is given.",
        "speclsp / the others",
        "host ms per step, cases: ",
        "CPU: ",
    ):
        assert words in result.output
    figures = json.loads(report.read_text())
    assert figures["options"] | {"context": 0, "threads": 0} == {
        "cases_file": "cases.jsonl", "cases": 2, "keys": 2, "rounds": 3, "places": 1,
        "decode_tokens": 6, "all_typed": False, "forgetting": False, "seed": 0,
        "model": figures["options"]["model"], "draft_model": None, "statistics": False,
        "n_predict": 8, "threads": 0, "gpu_layers": figures["options"]["gpu_layers"], "context": 0,
    }  # fmt: skip
    assert [len(sides) for sides in figures["typed"].values()] == [3]
    for sides in figures["typed"].values():
        assert [side["name"] for side in sides] == [
            "speclsp", "speclsp (no speculation)", "llama-server",
        ]  # fmt: skip
        for side in sides:
            assert side["why_not"] == ""
            assert len(side["by_round"]["ms_p50"]) == 3
            assert side["median"]["resident_mib"] > 1
        assert sides[2]["median"]["tokens_per_pass"] == 9 / 5
        for name in sides[0]["median"]:
            if name != "acceptance" or any(side["median"][name] is not None for side in sides):
                assert any(name in side["best_in"] for side in sides), name
        assert sides[2]["ours_to_this"]["ms_p50"]["median"] > 0
    cases_found = figures["decoding"]["cases"]
    assert [side["name"] for side in cases_found["sides"]] == [
        "speclsp", "speclsp (no speculation)", "llama-server", "llama-server draft",
    ]  # fmt: skip
    # There is one case, so that one round has a place; the fake server says another text.
    assert cases_found["texts"] == {
        "speclsp": {"n_same": 1, "n_all": 1},
        "speclsp (no speculation)": {"n_same": 1, "n_all": 1},
        "llama-server": {"n_same": 0, "n_all": 1},
    }
    assert len(figures["aims"]) == 7
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")
    written = sorted(path.suffix for path in record.iterdir())
    assert written == [".json", ".svg", ".txt"]
    (text,) = record.glob("*.txt")
    assert "Decoding alone where an edit begins" in text.read_text()


def test_what_was_measured_is_written_where_the_rest_is_not(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(report: bench_peers._Report, *_arguments: object, **_options: object) -> None:
        report.typed["typed"] = [Figures("speclsp", {"ms_p50": [1.0, 2.0, 3.0]})]

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_peers, "_type_all", typed)
    monkeypatch.setattr(bench_peers, "_decode", interrupted)
    report = tmp_path / "report.json"
    result = run(cases, "--json", report, "--record", tmp_path)
    assert result.exit_code == 1
    figures = json.loads(report.read_text())
    assert figures["typed"]["typed"][0]["median"]["ms_p50"] == 2.0
    assert figures["remarks"][-1].startswith("The comparison ended early")
    (text,) = tmp_path.glob("peers-*.txt")
    assert "The comparison ended early" in text.read_text()


def test_nothing_is_written_where_nothing_was_measured(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_peers, "_type_all", interrupted)
    report = tmp_path / "report.json"
    assert run(cases, "--json", report).exit_code == 1
    assert not report.exists()


def test_an_unknown_peer_is_told_with_those_that_are_known(cases: Path) -> None:
    result = run(cases, "--peers", "copilot")
    assert isinstance(result.exception, UnknownPeerError)
    assert "copilot" in result.exception.message
    assert "llama-server ngram-mod, " in result.exception.remedy
