"""``python -m benchmarks gpu-report``: parts that run once, fail alone and are all told."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_report
from benchmarks.commands import cli
from benchmarks.gpu_report import Part, make_report


def python_part(name: str, code: str, *, shown: int | None = None) -> Part:
    command = ["-c", code]
    return Part(name=name, title=f"Part {name}", command=command, has_figures=False, shown=shown)


def report_of(
    folder: Path, parts: Sequence[Part], monkeypatch: pytest.MonkeyPatch, *, only: str = ""
) -> tuple[str, dict[str, Any]]:
    """Make a report of these parts, and return its Markdown and its JSON."""

    def planned(*_arguments: object, **_options: object) -> Iterator[Part]:
        return iter(parts)

    monkeypatch.setattr(gpu_report, "_parts", planned)
    make_report(folder, quick=True, llama_server=None, sizes=["0.5b"], files=(), only=only)
    text = (folder / "gpu-report.md").read_text(encoding="utf-8")
    return text, json.loads((folder / "gpu-report.json").read_text(encoding="utf-8"))


def test_a_part_that_ran_is_not_run_again(tmp_path, monkeypatch):
    trace = tmp_path / "trace"
    parts = [
        python_part(name, f"open({str(trace)!r}, 'a').write('{name} '); print('figure {name}')")
        for name in ("first", "second", "third")
    ]
    report_of(tmp_path / "report", parts, monkeypatch, only="first|third")
    text, figures = report_of(tmp_path / "report", parts, monkeypatch)
    assert trace.read_text(encoding="utf-8").split() == ["first", "third", "second"]
    assert list(figures) == ["first", "third", "second"]
    assert text.count("figure second") == text.count("figure first") == 1


def test_a_part_that_fails_is_told_and_the_others_run(tmp_path, monkeypatch):
    parts = [
        python_part("bad", "import sys; sys.exit('no room on the device')"),
        python_part("good", "print('first'); print('last')", shown=1),
    ]
    text, figures = report_of(tmp_path, parts, monkeypatch)
    assert figures["bad"]["problem"] == "exit status 1\nno room on the device"
    assert figures["good"]["output"] == "last"
    assert figures["good"]["problem"] == ""
    assert "It failed:\n\n```text\nexit status 1\nno room on the device" in text


def test_a_part_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_report, "_LIMIT_S", 1.0)
    code = "import time; print('begun', flush=True); time.sleep(600)"
    text, figures = report_of(tmp_path, [python_part("slow", code)], monkeypatch)
    assert figures["slow"]["problem"].startswith("took longer than 1 s")
    assert figures["slow"]["output"] == "begun\n"
    assert "took longer than 1 s" in text


def test_published_models_take_the_place_of_made_ones(tmp_path, monkeypatch):
    ran: list[Part] = []
    monkeypatch.setattr(gpu_report, "_run", lambda part, _folder: ran.append(part))
    model, server = tmp_path / "coder-1.5b-q4_k_m.gguf", tmp_path / "llama-server"
    make_report(
        tmp_path / "report", quick=True, llama_server=server, sizes=(), files=[model], only=""
    )
    of_model = [part for part in ran if part.name.startswith("coder-1.5b-q4_k_m-")]
    assert [part.name for part in ran if part not in of_model] == ["doctor", "lossless"]
    for part in of_model:
        if part.has_figures:
            # Every one of them is a command with these options.
            name = part.command[2]
            cli.commands[name].make_context(name, [*part.command[3:]], resilient_parsing=True)
            assert part.command[-2:] == ["--model", str(model)]
        else:
            assert part.environment == {"SPECLSP_REAL_MODELS": str(tmp_path)}
