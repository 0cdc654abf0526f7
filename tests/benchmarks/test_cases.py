"""Files of cases: what they say, what is refused, and the ones that come with the project."""

import runpy
from pathlib import Path

import pytest

from benchmarks.cases import CasesError, drawn_cases, load_cases
from tests.benchmarks.case_folders import write_lines

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "cases"
GIVEN = {"path": "a.py", "typed": "x = 1", "prefix": "", "suffix": "\n"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.py").write_bytes(b"a = 1\r\nb = '\xc3\xa9'\r\n")
    return tmp_path


def test_texts_may_be_given_or_places_of_the_projects_file(folder):
    path = write_lines(
        folder / "cases.jsonl",
        {**GIVEN, "language_id": "python", "id": "given"},
        "",
        {"path": "a.py", "project": "shop", "start": 12, "end": 13, "typed": "è", "kind": "k"},
    )
    given, placed = load_cases(path)
    assert (given.id, given.project, given.project_name) == ("given", None, "")
    assert (given.prefix, given.typed, given.suffix) == ("", "x = 1", "\n")
    assert (placed.id, placed.project_name, placed.kind) == ("line 3", "shop", "k")
    assert (placed.prefix, placed.suffix) == ("a = 1\r\nb = '", "'\r\n")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: Input data was truncated"),
        ("[]", "line 1: Expected `object`, got `array`"),
        ({"path": "a.py", "prefix": "", "suffix": ""}, "missing required field `typed`"),
        ({**GIVEN, "typed": 7}, "Expected `str`, got `int` - at `$.typed`"),
        ({**GIVEN, "sufix": ""}, "unknown field `sufix`"),
        ({**GIVEN, "typed": ""}, "`typed` is empty"),
        ({**GIVEN, "path": "/etc/passwd"}, "`path` must lie inside the project"),
        ({**GIVEN, "path": "../a.py"}, "`path` must lie inside the project"),
        ({**GIVEN, "path": ""}, "`path` must lie inside the project"),
        ({**GIVEN, "project": "gone"}, "`project`: there is no folder"),
        ({**GIVEN, "start": 0}, "`start` and `end` stand beside"),
        ({"path": "a.py", "typed": "x", "prefix": ""}, "`suffix` is missing"),
        ({"path": "a.py", "typed": "x", "suffix": ""}, "`prefix` is missing"),
        ({"path": "a.py", "typed": "x", "start": 0}, "`end` is missing"),
        ({"path": "a.py", "typed": "x"}, "`start` is missing"),
        ({"path": "a.py", "typed": "x", "start": 0, "end": 0}, "need a `project`"),
        ({"path": "b.py", "typed": "x", "project": "shop", "start": 0, "end": 0}, "cannot read"),
        ({"path": "a.py", "typed": "x", "project": "shop", "start": 3, "end": 2}, "are 3 and 2"),
        ({"path": "a.py", "typed": "x", "project": "shop", "start": 0, "end": 99}, "16 characters"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_field(folder, line, problem):
    path = write_lines(folder / "cases.jsonl", line, {**GIVEN, "id": "fine"})
    with pytest.raises(CasesError) as caught:
        load_cases(path)
    assert problem in caught.value.message
    assert f"{path}, line 1: " in caught.value.message
    assert "benchmarks/cases.md" in caught.value.remedy


def test_all_problems_are_told_up_to_a_number(folder):
    path = write_lines(folder / "cases.jsonl", *[{**GIVEN, "typed": ""}] * 25)
    with pytest.raises(CasesError) as caught:
        load_cases(path)
    assert caught.value.message.count("`typed` is empty") == 20
    assert caught.value.message.endswith("and 5 more.")


def test_a_name_that_two_cases_have_is_a_problem(folder):
    path = write_lines(folder / "cases.jsonl", {**GIVEN, "id": "x"}, {**GIVEN, "id": "x"})
    with pytest.raises(CasesError, match="2 cases have the `id` 'x'"):
        load_cases(path)


def test_a_file_that_is_empty_or_no_text_or_missing(folder):
    with pytest.raises(CasesError, match="holds no cases"):
        load_cases(write_lines(folder / "empty.jsonl", "", ""))
    (folder / "binary.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(CasesError, match="line 1"):
        load_cases(folder / "binary.jsonl")
    with pytest.raises(CasesError, match="cannot read"):
        load_cases(folder / "missing.jsonl")


def test_cases_are_drawn_evenly_and_again_the_same():
    cases = load_cases(FIXTURES / "cases.jsonl")
    drawn = drawn_cases(cases, 40, seed=3)
    assert drawn == drawn_cases(cases, 40, seed=3)
    assert drawn != drawn_cases(cases, 40, seed=4)
    places = [cases.index(one) for one in drawn]
    assert places == sorted(set(places))
    assert len(places) == 40
    assert drawn_cases(cases, len(cases) + 1, seed=0) == cases


def test_the_fixtures_are_many_different_real_edits_with_their_licences():
    cases = load_cases(FIXTURES / "cases.jsonl")
    assert len(cases) >= 200
    projects = {case.project_name for case in cases}
    assert len(projects) >= 15
    for name in projects:
        assert any((FIXTURES / "licences" / name).glob("LICEN[CS]E*")), name
        assert name in (FIXTURES / "README.md").read_text(encoding="utf-8")
    for kind in ("within a line", "new line", "new block", "changed lines"):
        assert sum(case.kind == kind for case in cases) >= 40
    assert {case.language_id for case in cases} >= {"python", "typescript", "lua", "c"}
    n_bytes = sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file())
    assert n_bytes < 3_000_000


def test_a_file_in_the_fixtures_is_as_it_was_before_the_edit():
    for case in load_cases(FIXTURES / "cases.jsonl"):
        assert case.project is not None
        before = (case.project / case.path).read_bytes().decode("utf-8")
        assert before != case.prefix + case.typed + case.suffix
        assert before.startswith(case.prefix)
        assert before.endswith(case.suffix)


def test_the_fixtures_say_where_they_are_from_as_their_tool_does():
    tool = runpy.run_path(str(ROOT / "tools/make_fixture_cases.py"))
    cases = load_cases(FIXTURES / "cases.jsonl")
    assert tool["readme"](cases) == (FIXTURES / "README.md").read_text(encoding="utf-8")
    assert {case.project_name for case in cases} == {package.name for package in tool["PACKAGES"]}
