"""Cases of two tiny versions of a project."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases import CasesError, load_cases
from benchmarks.make_cases import ProjectCases, make_cases, write_cases
from tests.benchmarks.case_folders import NEW, OLD, write_lines
from tests.benchmarks.command_line import run


@pytest.fixture
def versions(tmp_path):
    for name, text in (("old", OLD), ("new", NEW)):
        root = tmp_path / name / "pkg"
        root.mkdir(parents=True)
        (root / "sums.py").write_text(text)
        (root / "near.py").write_text("def value(result):\n    return result\n")
        (root / "far.py").write_text("nothing = 0\n")
        (root / "notes.txt").write_text(f"{name} notes\n")
    (tmp_path / "new" / "pkg" / "added.py").write_text("def wholly_new():\n    pass\n")
    return tmp_path / "old", tmp_path / "new"


def made(versions: tuple[Path, Path], **changed: Any) -> ProjectCases:
    given: dict[str, Any] = {"name": "sums", "n_cases": 20, "seed": 0}
    limits = {"n_file_chars": 10_000, "n_project_chars": 1000}
    return make_cases(*versions, **{**given, **limits, **changed})


def test_every_edit_becomes_a_case_in_the_order_of_the_file(versions):
    lines = made(versions).lines
    block = "\n    for value in values:\n        result = add(result, value)"
    assert [(line.id, line.kind, line.typed) for line in lines] == [
        ("sums-01", "new line", "\nimport sys"),
        ("sums-02", "within a line", "first"),  # the second one is the same text
        ("sums-03", "new block", block),
    ]
    assert {line.language_id for line in lines} == {"python"}


def test_files_that_name_what_was_typed_come_along(versions):
    assert set(made(versions).files) == {"pkg/sums.py", "pkg/near.py"}
    assert set(made(versions, n_project_chars=10).files) == {"pkg/sums.py"}
    assert made(versions).files["pkg/sums.py"] == OLD


def test_what_was_written_is_read_again(versions, tmp_path):
    out = tmp_path / "out"
    target = write_cases(made(versions), out)
    write_lines(target, target.read_text().strip(), {
        "path": "pkg/sums.py", "project": "sums", "typed": "x", "prefix": "", "suffix": "",
        "id": "stale",
    })  # fmt: skip
    other = made(versions, name="other", n_cases=1)
    assert write_cases(other, out) == target
    assert write_cases(made(versions), out) == target
    cases = load_cases(target)
    assert [case.id for case in cases] == [other.lines[0].id, "sums-01", "sums-02", "sums-03"]
    assert cases[-1].prefix.endswith("    result = 0")
    assert cases[-1].suffix == "\n    return result\n"


def test_the_same_folders_and_seed_give_the_same_cases(versions):
    assert made(versions, n_cases=2) == made(versions, n_cases=2)
    assert len(made(versions, n_cases=2).lines) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1\n", "x = 1\n__version__ = '2.0'\n"),
        ("x = 1\n", "x = 1\n)\n"),
        ("def f():\n    return x\n", "def f():\n        return x\n"),
        ("x = 1\n", "x = 1\n" + "".join(f"line_{n} = {n}\n" for n in range(20))),
        ("x = 1\n", "x = 1\n"),
    ],
    ids=["version", "bracket", "indentation", "long", "same"],
)
def test_dull_edits_are_left_out(tmp_path, old, new):
    for name, text in (("old", old), ("new", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(text)
    with pytest.raises(CasesError, match="nothing was written"):
        made((tmp_path / "old", tmp_path / "new"))


def test_comments_and_documentation_are_a_small_part(tmp_path):
    for name, more in (("old", ""), ("new", "# words of prose {n}\nvalue_{n} = {n}\n")):
        (tmp_path / name).mkdir()
        for n in range(20):
            text = f"first_{n} = 0\n" + more.partition("\n")[0].format(n=n) + "\nlast = 0\n"
            (tmp_path / name / f"a{n}.py").write_text(text)
            code = f"first_{n} = 0\n{'value = ' + str(n) if more else ''}\nlast = 0\n"
            (tmp_path / name / f"b{n}.py").write_text(code)
    lines = made((tmp_path / "old", tmp_path / "new"), n_cases=20).lines
    n_prose = sum("prose" in line.typed for line in lines)
    assert 0 < n_prose <= 3
    assert len(lines) - n_prose >= 15


def test_a_file_that_holds_something_else_is_not_overwritten(versions, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "cases.jsonl").write_text('{"other": 1}\n')
    with pytest.raises(CasesError, match="no file of cases"):
        write_cases(made(versions), out)
    assert not (out / "sums").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(CasesError, match="cannot write"):
        write_cases(made(versions), tmp_path / "file")


# --- ``python -m benchmarks cases`` and ``make-cases`` --------------------------------------------


def test_cases_are_made_and_shown(versions, tmp_path):
    out = tmp_path / "cases"
    result = run("make-cases", *versions, "-o", out, "--name", "sums")
    assert "3 cases of sums" in result.output
    assert len(load_cases(out / "cases.jsonl")) == 3
    assert (out / "sums" / "pkg" / "sums.py").read_text() == OLD
    shown = run("cases", out / "cases.jsonl")
    assert "3 cases, " in shown.output
    for word in ("sums", "python", "new block", "within a line"):
        assert word in shown.output


def test_the_new_folders_name_is_the_projects(versions, tmp_path):
    run("make-cases", *versions, "-o", tmp_path / "cases")
    assert {case.project_name for case in load_cases(tmp_path / "cases" / "cases.jsonl")} == {"new"}


def test_a_wrong_file_is_refused_with_its_line(tmp_path):
    for command in ("cases", "typing", "quality"):
        result = run(command, write_lines(tmp_path / "cases.jsonl", "{}"), fails=True)
        assert isinstance(result.exception, CasesError)
        assert "line 1: Object missing required field" in result.exception.message
