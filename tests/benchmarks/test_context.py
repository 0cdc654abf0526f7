"""``context``: the places, the prompts' factors, the scores, and that a run goes on."""

import dataclasses
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from benchmarks import context
from benchmarks.cases import load_cases
from benchmarks.commit_places import commit_places
from benchmarks.context import (
    VARIANTS,
    PlacePrompts,
    Reading,
    Variant,
    function_place,
    n_typed_of,
    scores,
)
from speclsp.backends.weights import LlamaLoader
from speclsp.prompt.prompt import PromptLayout
from speclsp.settings import Settings
from tests.benchmarks import command_line
from tests.benchmarks.case_folders import write_lines

HEAD = "def total(numbers):"
REST = """    for number in numbers:
        result = add(result, number)
    return result"""
BODY = f"\n    result = 0  # where there are none\n{REST}"
TAIL = "\n\n\nprint(total([1, 2]))\n"
OTHER = "def add(first, second):\n    '''Add two numbers.'''\n    return first + second\n"


@pytest.fixture
def functions(tmp_path):
    project = tmp_path / "sums"
    project.mkdir()
    (project / "total.py").write_text("from adding import add\n\n\n" + HEAD + BODY + TAIL)
    (project / "adding.py").write_text(OTHER)
    start = len("from adding import add\n\n\n" + HEAD)
    line = {
        "id": "a", "path": "total.py", "project": "sums", "language_id": "python", "typed": BODY,
        "start": start, "end": start + len(BODY),
    }  # fmt: skip
    return write_lines(tmp_path / "points.jsonl", line)


def run(*arguments: str | Path, fails: bool = False) -> Result:
    return command_line.run("context", *arguments, "--threads", "1", fails=fails)


def reading(pieces: str, logprobs: list[float], greedy: list[float]) -> Reading:
    return Reading(
        case="a", project="p", language_id="python", variant="today", n_prompt=1, n_context=0,
        pieces=tuple(pieces), logprobs=tuple(logprobs), greedy=tuple(greedy),
    )  # fmt: skip


# --- places ---------------------------------------------------------------------------------------


def test_the_cursor_is_at_a_line_that_is_not_blank_behind_a_quarter():
    assert n_typed_of("ab\n\ncd\nef\n") == 4
    assert n_typed_of("abc") is None


def test_no_file_holds_what_the_model_reads(functions):
    place = function_place(load_cases(functions)[0])
    assert place is not None
    assert place.human == REST
    assert place.texts["adding.py"] == OTHER
    assert place.texts["total.py"] == "from adding import add\n\n\n" + HEAD + TAIL
    assert "result" not in place.request().suffix


def test_of_a_commit_only_the_hunks_before_are_made(tmp_path):
    def git(*arguments: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "-C", str(tmp_path), *names, *arguments], check=True)

    git("init", "-q")
    added = "".join(f"line_{idx} = {idx}\n" for idx in range(6))
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(f"# {name}\nfirst = 1\nlast = 2\n")
    git("add", ".")
    git("commit", "-qm", "one")
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(f"# {name}\nfirst = 1\n{added}last = 2\n")
    git("commit", "-qam", "two")
    (place,) = commit_places(tmp_path, 3, 0)
    assert place.case.typed == added
    assert place.case.path in ("b.py", "c.py")
    made = [path for path, text in place.texts.items() if added in text]
    assert made == [path for path in ("a.py", "b.py") if path < place.case.path]
    assert [one.path for one in place.edits] == made[::-1]


# --- prompts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer():
    return LlamaLoader(lambda _level, _line: None).tokenizer(Settings())


@pytest.fixture
def prompts(functions, tokenizer):
    place = function_place(load_cases(functions)[0])
    assert place is not None
    layout = PromptLayout(
        family=tokenizer.family, vocabulary=tokenizer.vocabulary, layout="anchored"
    )

    def text(variant: Variant) -> str:
        tokens, _ = PlacePrompts(place, layout).prompt(variant)
        pieces = (tokenizer.vocabulary.piece(token) for token in tokens)
        return b"".join(pieces).decode()

    return text


def test_a_definition_stands_for_the_name_that_is_imported(prompts):
    shown = prompts(VARIANTS["definitions"])
    assert "def add(first, second):\n" in shown
    assert "return first + second" not in shown
    assert "def add(" not in prompts(VARIANTS["no other files"])


def test_each_factor_changes_the_prompt(prompts):
    base = VARIANTS["no other files"]
    whole = prompts(base)
    assert "print(total([1, 2]))" in whole
    assert "print(total([1, 2]))" not in prompts(dataclasses.replace(base, n_after=1))
    assert "print(" not in prompts(dataclasses.replace(base, suffix_share=0.0))
    assert "from adding" not in prompts(dataclasses.replace(base, n_before=2))
    assert "sums" in whole
    assert "sums" not in prompts(dataclasses.replace(base, has_names=False))
    assert whole.endswith("are none\n")
    assert prompts(dataclasses.replace(base, n_above=0)).endswith(TAIL)


# --- scores ---------------------------------------------------------------------------------------


def test_a_text_saves_what_it_has_right_up_to_the_line_end():
    sure = reading("ab\ncd", [-0.1] * 5, [-0.1] * 5)
    found = scores(sure)
    # From each token on: "ab", "b", "", "cd", "d".
    assert found.saved[0] == pytest.approx((2 + 1 + 0 + 2 + 1) / 5)
    assert (found.wrong[0], found.agreed) == (0, 1)


def test_a_text_that_is_cut_before_it_differs_is_not_wrong():
    one = reading("abc", [-0.01, -0.01, -3.0], [-0.01, -0.01, -0.9])
    found = scores(one)
    assert found.agreed == pytest.approx(2 / 3)
    shown, cut = (int(np.searchsorted(context._THRESHOLDS, x)) for x in (np.log(0.3), np.log(0.6)))
    assert (found.wrong[shown], found.wrong[cut]) == (1, 0)
    assert found.saved[shown] == found.saved[cut] == pytest.approx((2 + 1 + 0) / 3)


# --- the command ----------------------------------------------------------------------------------


def test_a_run_goes_on_and_reads_nothing_twice(functions, tmp_path, monkeypatch):
    record = tmp_path / "record.jsonl"
    names = "no other files,definitions"
    first = run(functions, "--record", record, "--variants", names)
    assert "definitions" in first.output
    known = record.read_text()
    assert len(known.splitlines()) == 3
    record.write_text(known + '{"cut')
    read = context._read
    asked: list[int] = []
    monkeypatch.setattr(context, "_read", lambda *a: asked.append(1) or read(*a))
    run(functions, "--record", record, "--variants", f"{names},no names")
    assert len(asked) == 1
    assert record.read_text().startswith(known)
    assert len(record.read_text().splitlines()) == 4


def test_an_unknown_variant_is_named(functions, tmp_path):
    result = run(functions, "--record", tmp_path / "a", "--variants", "none", fails=True)
    assert "'none'" in result.output + str(result.exception)


def test_a_folder_that_is_no_repository_is_named(tmp_path):
    result = run(tmp_path, "--record", tmp_path / "a", fails=True)
    assert "git cannot read" in result.output + str(result.exception)
