"""``python -m benchmarks gpu-report``: parts that run once, fail alone and are all told."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_report
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
    make_report(folder, quick=True, llama_server=None, models=["0.5b"], only=only)
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
