"""``points``: which points are drawn, what a side is shown, and that a run goes on and repeats."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import Result
from msgspec import structs

from benchmarks import points
from benchmarks.cases import load_cases
from benchmarks.peers.infill import InfillAnswer, JsonObject, infill_answer
from benchmarks.point_records import PointRecord, read_records
from benchmarks.points import (
    CUT_VIM,
    OURS,
    UNCUT,
    FunctionPoints,
    VimSide,
    drawn_points,
    without_body,
)
from speclsp.completer import engine_thread
from speclsp.completer.context_chunks import ContextChunks
from speclsp.errors import EngineUnavailableError
from tests.benchmarks import command_line
from tests.benchmarks.case_folders import case, write_lines
from tests.benchmarks.scripted_peers import peer_options

FIXTURES = Path(__file__).parents[2] / "fixtures" / "points" / "points.jsonl"
HEAD = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):"
BODY = "\n    product = a * b\n    print(product)\n    return product"
TAIL = "\n\n\nprint(mul(1, add(2, 3)))\n"


@pytest.fixture
def functions(tmp_path):
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "sums.py").write_text(HEAD + BODY + TAIL)
    (tmp_path / "sums" / "calls.py").write_text("from sums import add, mul\n\nmul(1, add(2, 3))\n")
    fields = {
        "path": "sums.py", "project": "sums", "language_id": "python", "typed": BODY,
        "start": len(HEAD), "end": len(HEAD + BODY),
    }  # fmt: skip
    return write_lines(tmp_path / "points.jsonl", {"id": "a", **fields}, {"id": "b", **fields})


def run(*arguments: str | Path, fails: bool = False) -> Result:
    fast = ("--threads", "1", "--n-predict", "12", "--per-function", "2")
    return command_line.run("points", *arguments, *fast, fails=fails)


# --- drawing --------------------------------------------------------------------------------------


def test_the_fixtures_are_functions_whose_bodies_stand_in_their_files():
    cases = load_cases(FIXTURES)
    assert {one.language_id for one in cases} == {
        "python", "typescript", "go", "rust", "cpp", "c",
    }  # fmt: skip
    assert all(one.replaced == one.typed and one.kind == "function" for one in cases)
    folder = FIXTURES.parent
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 2_000_000
    for one in cases:
        assert (folder / "licences" / one.project_name / "LICENSE").is_file()


def test_points_are_spread_over_projects_and_stand_behind_keys():
    cases = load_cases(FIXTURES)
    drawn = drawn_points(cases, n_points=120, n_each=4, seed=0)
    assert sum(len(one.places) for one in drawn) == 120
    assert set(Counter(one.case.project_name for one in drawn).values()) == {5}
    for one in drawn:
        found = [one.point(n_typed) for n_typed in one.places]
        assert [p.place for p in found].count("within a line") == 2
        for point in found:
            # The indentation comes with Enter.
            assert not point.human.startswith((" ", "\t")) or point.line_before.strip()
            assert point.human.partition("\n")[0].strip() or point.line_before.strip()
    assert drawn == drawn_points(cases, n_points=120, n_each=4, seed=0)
    assert drawn != drawn_points(cases, n_points=120, n_each=4, seed=1)


def test_fewer_points_are_a_part_of_more():
    cases = load_cases(FIXTURES)
    few = drawn_points(cases, n_points=24, n_each=4, seed=0)
    assert few == drawn_points(cases, n_points=120, n_each=4, seed=0)[: len(few)]


def test_no_more_points_than_there_are():
    drawn = drawn_points([case("ab c")], n_points=50, n_each=9, seed=0)
    assert [one.places for one in drawn] == [(1, 2, 3)]


# --- sides ----------------------------------------------------------------------------------------


def test_no_file_has_the_body_that_is_typed(functions):
    typed = load_cases(functions)[0]
    assert typed.project is not None
    with without_body(typed) as copied:
        assert copied.project is not None
        assert copied.project.name == "sums"
        assert copied.before == HEAD + TAIL
        assert (copied.project / "sums.py").read_text() == HEAD + TAIL
        assert (copied.project / "calls.py").is_file()
    assert not copied.project.exists()
    assert (typed.project / "sums.py").read_text() == HEAD + BODY + TAIL


def test_a_point_has_what_follows():
    one = case("\n    a = 1\n    b", suffix="\nc\n")
    made = FunctionPoints(case=one, places=(8,)).point(8)
    assert (made.line_before, made.human) == ("    a =", " 1\n    b\nc\n")


class Server:
    """A llama-server that gives three tokens."""

    def __init__(self) -> None:
        self.asked: list[JsonObject] = []

    def infill(self, request: JsonObject) -> InfillAnswer:
        self.asked.append(request)
        tokens = (("total", -0.1), (" = 1", -0.1), (" + 2", -0.5))
        return infill_answer(
            {
                "content": "total = 1 + 2",
                "timings/predicted_n": 3,
                "completion_probabilities": [
                    {"token": text, "bytes": list(text.encode()), "logprob": p}
                    for text, p in tokens
                    if "n_probs" in request
                ],
            }
        )


def vim_side(folder: Path, threshold: float, *, has_limits: bool = False) -> VimSide:
    options = peer_options(folder, model=folder, n_context=0, n_predict=8)
    return VimSide(CUT_VIM, options, threshold, has_limits)


def asked_of_vim(side: VimSide) -> tuple[PointRecord, JsonObject]:
    """Return the answer at a point and the last request; the one before warms the cache up."""
    server = Server()
    function = FunctionPoints(case=case("\n    a = total"), places=(9,))
    (made,) = side.asked(function, server.infill)
    return made, server.asked[-1]


def test_a_client_cuts_where_the_text_gets_improbable(tmp_path):
    made, request = asked_of_vim(vim_side(tmp_path, 0.7))
    assert (made.shown, made.text, made.n_predicted) == ("total = 1", "total = 1 + 2", 3)
    assert request["n_probs"] == 1
    assert "completion_probabilities" in request["response_fields"]
    made, _ = asked_of_vim(vim_side(tmp_path, 0.9))
    assert (made.shown, made.n_predicted) == ("total", 2)


def test_the_plugin_shows_all_of_it(tmp_path):
    made, request = asked_of_vim(vim_side(tmp_path, 0.0))
    assert (made.shown, made.n_predicted) == ("total = 1 + 2", 3)
    assert "n_probs" not in request


def test_texts_depend_on_no_time_limit_of_the_plugin(tmp_path):
    _, request = asked_of_vim(vim_side(tmp_path, 0.0))
    assert not {"t_max_predict_ms", "t_max_prompt_ms"} & request.keys()
    _, request = asked_of_vim(vim_side(tmp_path, 0.0, has_limits=True))
    assert request["t_max_predict_ms"] > 0


# --- the command ----------------------------------------------------------------------------------


def untimed(records: list[PointRecord]) -> list[PointRecord]:
    return [structs.replace(one, ms=0.0) for one in records]


@pytest.mark.real
def test_a_run_goes_on_repeats_and_can_be_read_again(functions, tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    first = run(functions, "--points", "4", "--record", whole)
    bound, tables = first.stdout.split("\n", 1)
    assert "4 points in 2 functions, 3 sides; 12 answers to get: at most" in bound
    header, records = read_records(whole)
    assert header.model.startswith("embedded-target")
    assert Counter(one.side for one in records) == {OURS: 4, "no speculation": 4, UNCUT: 4}
    for one in records:
        text = "".join(one.pieces)
        assert len(one.pieces) == len(one.logprobs) == one.n_predicted > 0
        assert text.startswith(one.held_back)
        assert one.point.line_before.endswith(one.held_back)
        assert max(one.logprobs) <= 0.0
        assert one.finish_reason in ("stop", "length")
        assert 0 < one.n_passes <= one.n_predicted
        assert one.n_prompt > one.n_prompt_evaluated > 0

    # The second function of the first side fails.
    asked = points.OwnSide._asked
    n_asked = 0

    def fails(*arguments):
        nonlocal n_asked
        n_asked += 1
        if n_asked == 2:
            raise EngineUnavailableError("the model is gone.")
        return asked(*arguments)

    monkeypatch.setattr(points.OwnSide, "_asked", fails)
    cut = run(functions, "--points", "4", "--record", parts, fails=True)
    assert isinstance(cut.exception, EngineUnavailableError)
    assert "The run ended early" in cut.output
    assert "| speclsp |      2 |" in cut.output
    assert len(read_records(parts)[1]) == 2
    on = run(functions, "--points", "4", "--record", parts)
    assert "10 answers to get" in on.output
    assert n_asked == 2 + 5
    assert untimed(read_records(parts)[1]) == untimed(records)

    monkeypatch.setattr(points.OwnSide, "_asked", None)
    assert run(functions, "--from", whole).stdout == tables
    done = run(functions, "--points", "4", "--record", whole)
    assert done.stdout == "4 points, all of them recorded.\n" + tables
    other = run(functions, "--points", "2", "--record", whole, fails=True)
    assert "other points or other settings" in str(other.exception)


@pytest.mark.real
def test_a_function_s_answers_do_not_depend_on_those_before(functions, tmp_path):
    both, alone = tmp_path / "both.jsonl", tmp_path / "alone.jsonl"
    run(functions, "--points", "4", "--sides", UNCUT, "--record", both)
    lines = functions.read_text().splitlines(keepends=True)
    functions.write_text("".join(reversed(lines)))
    run(functions, "--points", "4", "--sides", UNCUT, "--record", alone)
    first, second = (
        {one.point.key: one for one in untimed(read_records(path)[1])} for path in (both, alone)
    )
    assert first == second


@pytest.mark.real
def test_prompts_are_whole_however_slow_idle_work_is(functions, tmp_path, monkeypatch):
    file = tmp_path / "sums" / "sums.py"
    above = "".join(f"def add_{n}(a, b):\n    return a + b + {n}\n\n\n" for n in range(40))
    file.write_text(above + file.read_text())
    line = json.loads(functions.read_text().splitlines()[0])
    n_above = len(above)
    moved = {**line, "start": line["start"] + n_above, "end": line["end"] + n_above}
    write_lines(functions, moved)
    choose = ContextChunks._choose

    def slowly(self, request):
        time.sleep(2 * engine_thread.PAUSE_S)
        return choose(self, request)

    asked = []
    for name, used in (("fast", choose), ("slow", slowly)):
        monkeypatch.setattr(ContextChunks, "_choose", used)
        path = tmp_path / name
        arguments = ("--points", "2", "--sides", UNCUT, "--record", path)
        run(functions, *arguments)
        asked.append(untimed(read_records(path)[1]))
    assert asked[0] == asked[1]
    assert min(one.n_prompt for one in asked[0]) > 600


@pytest.mark.real
def test_times_are_printed_where_they_are_asked_for(functions):
    result = run(functions, "--points", "2", "--sides", OURS, "--times")
    assert "ms p50" in result.output


def test_a_side_that_there_is_not(functions):
    result = run(functions, "--sides", "speclsp, copilot", fails=True)
    assert "there is no side 'copilot'" in str(result.exception)
    assert UNCUT in str(result.exception)


def test_a_server_is_needed_for_llama_vim(functions):
    result = run(functions, "--points", "2", "--sides", "llama.vim", fails=True)
    assert "there is no llama-server" in str(result.exception)
