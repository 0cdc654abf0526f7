"""``peers`` with the embedded model, beside a program that is like llama-server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import Result
from fake_llama_server import as_program
from other_vocabulary import write_with_other_vocabulary

from benchmarks.decoding import Decoded, DecodeRun, Task
from benchmarks.peers import comparison
from benchmarks.peers.comparison import UnknownPeerError
from benchmarks.peers.typed_rounds import PeerRun, TypedRound
from benchmarks.typing_session import TypedSession
from speclsp.embedded import embedded_draft, embedded_target
from speclsp.errors import ModelLoadError, SpecLspError, StoreError
from speclsp.ngrams.own_layout import MAGIC
from speclsp.seam.statistics import RequestStats, SessionStats
from tests.benchmarks import command_line
from tests.benchmarks.case_folders import write_lines

PREFIX = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\n"


@pytest.fixture
def cases(tmp_path):
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "sums.py").write_text(PREFIX * 6)
    return write_lines(
        tmp_path / "cases.jsonl",
        {
            "id": "mul", "path": "sums.py", "project": "sums", "language_id": "python",
            "typed": "def mul(a, b):\n    return", "start": len(PREFIX) - 1, "end": len(PREFIX) - 1,
        },
    )  # fmt: skip


def run(*arguments: str | Path, fails: bool = False) -> Result:
    fast = ("--threads", "1", "--n-predict", "8", "--keys", "2", "--places", "1")
    few = ("--decode-tokens", "6", "--mode", "tree")
    return command_line.run("peers", *fast, *few, *arguments, fails=fails)


@pytest.mark.real
def test_all_sides_are_compared_and_the_record_is_written(cases, tmp_path):
    server = as_program(tmp_path)
    names = "llama-server,llama-server draft"
    record = tmp_path / "record"
    report = tmp_path / "report.json"
    result = run(
        cases, "--llama-server", server, "--peers", names, "--json", report, "--record", record,
    )  # fmt: skip
    for words in (
        "speclsp (no speculation)",
        "Decoding alone where an edit begins",
        "Decoding alone in a changed copy of a block",
        "llama-server draft did not run: no draft model is given.",
        "speclsp / the others",
        "CPU: ",
    ):
        assert words in result.output
    figures = json.loads(report.read_text(encoding="utf-8"))
    assert figures["options"].items() >= {
        "cases_path": "cases.jsonl", "llama_server": server.name, "n_cases": 2, "n_keys": 2,
        "n_rounds": 3, "n_places": 1, "n_decoded": 6, "replay_seed": 0,
        "model": embedded_target().name, "draft_model": None, "statistics_file": None,
        "n_predict": 8, "n_threads": 1,
    }.items()  # fmt: skip
    assert str(tmp_path) not in report.read_text(encoding="utf-8")
    # Who names a kind of speculation wants it typed to.
    sides = figures["typed"]
    assert [side["name"] for side in sides] == [
        "speclsp", "speclsp (no speculation)", "llama-server", "llama-server draft",
    ]  # fmt: skip
    assert sides[3]["why_not"] == "no draft model is given."
    for side in sides[:3]:
        assert side["why_not"] == ""
        assert len(side["by_round"]["ms_p50"]) == 3
        assert min(side["by_round"]["resident_mib"]) > 1
    assert sides[2]["by_round"]["tokens_per_pass"] == [9 / 5] * 3
    cases_found, _ = figures["decoding"]
    assert cases_found["task"] == "cases"
    assert [side["name"] for side in cases_found["sides"]] == [
        "speclsp", "speclsp (no speculation)", "llama-server", "llama-server draft",
    ]  # fmt: skip
    # There is one case, so that one round has a place; the fake server says another text.
    places = "Decoding where an edit begins is at 1 places instead of 3: there are no others."
    assert places in figures["remarks"]
    assert cases_found["texts"] == {
        "speclsp": {"n_same": 1, "n_all": 1},
        "speclsp (no speculation)": {"n_same": 1, "n_all": 1},
        "llama-server": {"n_same": 0, "n_all": 1},
    }
    written = sorted(path.suffix for path in record.iterdir())
    assert written == [".json", ".txt"]
    (text,) = record.glob("*.txt")
    assert "Decoding alone where an edit begins" in text.read_text(encoding="utf-8")


def typed_once(runs: Sequence[PeerRun], *_arguments: object) -> None:
    """Interrupt in the second round of a typed session."""
    for run in runs:
        run.rounds.append(
            TypedRound(
                session=TypedSession(n_chars=2),
                own_work=SessionStats(),
                resident_mib=1.0,
                host_ms=2.0,
            )
        )
    raise KeyboardInterrupt


def decoded_once(runs: dict[Task, list[DecodeRun]], *_arguments: object) -> None:
    """Interrupt in the second round of decoding, and before the second kind's first ended."""
    stats = RequestStats(n_predicted=11, n_target_passes=11, n_decode_passes=10, ms_predict=100.0)
    runs["cases"] = [DecodeRun("speclsp", rounds=[[Decoded(stats=stats, is_same=True)]])]
    runs["edits"] = [DecodeRun("speclsp")]
    raise KeyboardInterrupt


def interrupted(folder: Path, *arguments: str) -> Any:
    """Run and return the figures that were written; what was remarked is printed, too."""
    report = folder / "report.json"
    written = ("--json", report, "--record", folder)
    result = run(folder / "cases.jsonl", *arguments, *written, fails=True)
    assert result.exit_code == 1
    figures = json.loads(report.read_text(encoding="utf-8"))
    (text,) = folder.glob("peers-*-partial.txt")
    for line in figures["remarks"]:
        assert line in text.read_text(encoding="utf-8")
        assert line in result.output
    return figures


@pytest.mark.real
@pytest.mark.usefixtures("cases")
def test_whole_rounds_of_typing_are_written_where_it_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "type_with_progress", typed_once)
    figures = interrupted(tmp_path, "--n-cases", "1", "--peers", "speclsp")
    assert figures["remarks"] == [
        "All rounds type the same cases: there are too few for each to have its own.",
        "Typing was cut short: 1 of 3 rounds are whole.",
        comparison.ENDED_EARLY,
    ]
    sides = figures["typed"]
    assert [side["by_round"]["host_ms"] for side in sides] == [[2.0]] * 2
    (text,) = tmp_path.glob("peers-*-partial.txt")
    assert "1 cases, 2 characters in 1 rounds" in text.read_text(encoding="utf-8")
    assert figures["decoding"] == []


@pytest.mark.real
@pytest.mark.usefixtures("cases")
def test_whole_rounds_of_decoding_are_written_where_it_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "decode_tasks", decoded_once)
    figures = interrupted(tmp_path, "--n-cases", "0")
    assert figures["remarks"] == [
        "Decoding where an edit begins is at 1 places instead of 3: there are no others.",
        "Decoding where an edit begins was cut short: 1 of 3 rounds are whole.",
        "Decoding in a changed copy of a block was cut short: 0 of 3 rounds are whole.",
        comparison.ENDED_EARLY,
    ]
    (found,) = figures["decoding"]
    assert found["task"] == "cases"
    assert found["sides"][0]["by_round"]["tokens_per_s"] == [100.0]


def test_nothing_is_written_where_nothing_was_measured(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "type_with_progress", Mock(side_effect=KeyboardInterrupt))
    report = tmp_path / "report.json"
    run(cases, "--n-cases", "1", "--json", report, fails=True)
    assert not report.exists()


def test_what_cannot_be_written_does_not_keep_the_rest_from_it(tmp_path):
    files = [(tmp_path / "none" / "a.json", "a"), (tmp_path / "b.txt", "b")]
    with pytest.raises(SpecLspError, match=r"a\.json cannot be written: No such file"):
        comparison.write_all(files)
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "b"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--llama-server", "none"), "File 'none' does not exist"),
        (("--llama-server", "cases.jsonl"), "File 'cases.jsonl' is not executable"),
        (("--statistics", "none.bin"), "File 'none.bin' does not exist"),
        (("--record", "cases.jsonl"), "Directory 'cases.jsonl' is a file"),
        (("--n-cases", "0", "--places", "0"), "leave nothing to compare"),
        (("--ctx-size", "512"), "do not fit a context of 512"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_measured(cases, monkeypatch, given, said):
    monkeypatch.chdir(cases.parent)
    result = run(cases, *given, fails=True)
    assert result.exit_code == 2
    assert said in result.output


def test_statistics_that_llama_server_cannot_read_are_told_at_once(cases, tmp_path):
    ours, others = tmp_path / "ours.bin", tmp_path / "others.bin"
    ours.write_bytes(MAGIC + bytes(64))
    others.write_bytes(bytes(5))
    for file, said in ((ours, "is not in llama.cpp's layout"), (others, "others.bin")):
        result = run(cases, "--statistics", file, fails=True)
        assert isinstance(result.exception, StoreError)
        assert said in result.exception.message


@pytest.mark.real
def test_a_draft_model_of_another_vocabulary_is_told_at_once(cases, tmp_path):
    draft = tmp_path / "draft.gguf"
    write_with_other_vocabulary(embedded_draft(), draft, first=256, last=4000, names={})
    result = run(cases, "--draft-model", draft, fails=True)
    assert isinstance(result.exception, ModelLoadError)
    assert "The draft model's vocabulary differs" in result.exception.message


def test_an_unknown_peer_is_told_with_those_that_are_known(cases):
    result = run(cases, "--peers", "copilot", fails=True)
    assert isinstance(result.exception, UnknownPeerError)
    assert "copilot" in result.exception.message
    assert "llama-server ngram-mod, " in result.exception.remedy
