"""``python -m benchmarks cases`` and ``make-cases``: what they print and write."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.cases import CasesError, load_cases
from benchmarks.commands import cli
from tests.benchmarks.case_folders import NEW, OLD, write_lines


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def versions(tmp_path):
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sums.py").write_text(text)
    return tmp_path / "old", tmp_path / "new"


def test_cases_are_made_and_shown(versions, tmp_path):
    out = tmp_path / "cases"
    made = run("make-cases", *versions, "-o", out, "--name", "sums")
    assert made.exit_code == 0, made.output
    assert "3 cases of sums" in made.output
    assert len(load_cases(out / "cases.jsonl")) == 3
    assert (out / "sums" / "sums.py").read_text() == OLD
    shown = run("cases", out / "cases.jsonl")
    assert shown.exit_code == 0, shown.output
    assert "3 cases, " in shown.output
    for word in ("sums", "python", "new block", "within a line"):
        assert word in shown.output


def test_the_new_folders_name_is_the_projects(versions, tmp_path):
    assert run("make-cases", *versions, "-o", tmp_path / "cases").exit_code == 0
    assert {case.project_name for case in load_cases(tmp_path / "cases" / "cases.jsonl")} == {"new"}


def test_a_wrong_file_is_refused_with_its_line(tmp_path):
    for command in ("cases", "typing", "quality"):
        result = run(command, write_lines(tmp_path / "cases.jsonl", "{}"))
        assert isinstance(result.exception, CasesError)
        assert "line 1: Object missing required field" in result.exception.message
