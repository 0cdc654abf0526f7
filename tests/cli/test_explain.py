"""``speclsp explain`` on the real model: what it says is what the engine does."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from indexed_project import write
from typed_requests import request_between, typed_completer

from speclsp.cli.main import cli
from speclsp.cli.without_editor import complete_when_ready
from speclsp.completer.explaining import EditExplanation, PromptExplanation
from speclsp.errors import SpecLspError
from speclsp.project.repository import repository_name
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.documents import WorkspaceFolder
from speclsp.settings import Settings

pytestmark = pytest.mark.real

MODELS = (
    'class Box:\n    """A box with sides."""\n\n'
    "    def area_of_box(self):\n        return self.width\n"
)
CART = (
    'from models import Box\n\nPASSWORD = "hunter22"\n\n\ndef total_area(boxes):\n'
    '    """Return the area of all boxes."""\n    total = 0\n    for box in boxes:\n'
    "        total += Box(box).area_of_box(1)\n    return total\n"
)


@dataclass(frozen=True, kw_only=True)
class PlaceExplanation(PromptExplanation):
    """What ``--json`` prints."""

    suggestion: str
    why_not: str


@dataclass(frozen=True, kw_only=True)
class PlaceEditExplanation(EditExplanation):
    """What ``--next-edit --json`` prints."""

    result: dict[str, Any] | None


@pytest.fixture
def project(tmp_path: Path, private_folders: None) -> Path:
    root = tmp_path / "project"
    write(root / "models.py", MODELS)
    write(root / "cart.py", CART)
    return root


def explain(*arguments: str, command: str = "explain") -> Result:
    return CliRunner().invoke(cli, [command, *arguments], catch_exceptions=False)


def test_the_parts_add_up_and_chunks_have_reasons(project):
    result = explain(f"{project / 'cart.py'}:10:22", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    plain = msgspec.convert(said, PlaceExplanation)
    assert json.loads(msgspec.json.encode(plain)) == said  # it could cross the seam
    chunks = said["chunks"]
    n_parts = sum(excerpt["n_tokens"] for excerpt in said["excerpts"])
    n_chunk_tokens = sum(chunk["n_tokens"] for chunk in chunks)
    assert said["n_tokens"] == said["n_frame"] + n_parts + n_chunk_tokens <= said["n_tokens_max"]
    assert n_chunk_tokens <= said["n_chunk_tokens_max"]
    assert (chunks[0]["path"], chunks[0]["reason"]) == ("models.py", "definition")
    assert (chunks[0]["first_line"], chunks[0]["in_prompt"]) == (1, True)
    assert 'class Box:\n    """A box with sides."""' in said["text"]
    assert "__MASKED_SECRET__" in said["text"]
    assert "hunter22" not in result.stdout
    assert (said["text"] + said["held_back"]).endswith("        total += Box(")
    assert said["reuse"]["n_reused"] + said["reuse"]["n_evaluated"] == said["n_tokens"]


def test_the_tables_for_people(project):
    result = explain(f"{project / 'cart.py'}:10:22", "--project", str(project))
    assert result.exit_code == 0, result.output
    for part in ("layout anchored", "middle", "models.py:1-", "defines Box"):
        assert part in result.stdout
    assert "<|file_sep|>cart.py\n<|fim_prefix|>" in result.stdout


@pytest.mark.parametrize("layout", ["anchored", "plain"])
def test_what_is_said_of_the_kv_cache_is_what_the_engine_evaluates(project, layout):
    arguments = (f"{project / 'cart.py'}:10:22", "--json", "--fim-layout", layout)
    said = json.loads(explain(*arguments).stdout)
    prefix = "\n".join(CART.split("\n")[:9]) + "\n" + CART.split("\n")[9][:21]
    completer = typed_completer(Settings(fim_layout=layout, speculation=False, n_predict=1))  # type: ignore[arg-type]
    completer.open_folder(WorkspaceFolder(root=str(project), name="project"))
    completer.start()
    file = str(project / "cart.py")
    try:
        stats = []
        for cursor in (len(prefix) - 1, len(prefix)):
            request = request_between(
                uri=f"file://{file}",
                path="cart.py",
                repo_name=repository_name(project),
                prefix=prefix[:cursor],
                suffix=CART[len(prefix) :],
                file=file,
                origin="program",
                overrides={"n_context": -1},
            )
            result = complete_when_ready(
                completer, completer.brought_to(request), CancellationToken()
            )
            stats.append(result.stats)
    finally:
        completer.close()
    assert stats[1].n_prompt == said["n_tokens"]
    assert stats[1].n_prompt_evaluated == said["reuse"]["n_evaluated"]


def test_places_where_nothing_is_asked(project):
    write(project / ".env", "PORT=1\n")
    write(project / ".gitignore", "private.py\n")
    write(project / "private.py", "x = 1\n")
    for place, why in (
        ("cart.py:3:5", "the line holds a secret"),
        (".env:1:3", "the file looks as if it held secrets"),
        ("private.py:1:3", ".gitignore or the setting exclude leaves the file out"),
    ):
        arguments = (f"{project}/{place}", "--project", str(project))
        result = explain(*arguments)
        assert result.exit_code == 0
        assert why in result.stdout
        result = explain(*arguments, command="complete")
        assert (result.stdout, result.stderr) == ("\n", f"No completion: {why}.\n")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("cart.py", "is not FILE:LINE:COL"),
        ("cart.py:x:1", "is not FILE:LINE:COL"),
        ("gone.py:1:1", "gone.py cannot be read: No such file"),
        ("cart.py:99:1", "has the lines 1 to 12, not 99"),
        ("cart.py:1:99", "has the columns 1 to 23, not 99"),
        ("cart.py:0:1", "has the lines 1 to 12, not 0"),
        ("latin.py:1:1", "is not UTF-8 text"),
    ],
)
def test_places_that_are_none(project, place, message):
    write(project / "latin.py", b"caf\xe9\n")
    result = explain(f"{project}/{place}")
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_project_above_the_current_folder(project, monkeypatch):
    write(project / "shop" / "cart.py", CART)
    monkeypatch.chdir(project / "shop")
    result = explain("cart.py:1:1", "--project", "..")
    assert "shop/cart.py\n" in result.stdout


def test_an_engine_elsewhere_makes_its_prompts_itself(project):
    url = "--engine-url=speclsp+unix:///run/engine.sock"
    with pytest.raises(SpecLspError, match=r"/run/engine\.sock makes the prompt") as error:
        explain(f"{project / 'cart.py'}:6:5", url)
    assert "explain` there" in error.value.remedy


def test_the_start_of_an_empty_file(project):
    write(project / "empty.py", "")
    said = json.loads(explain(f"{project / 'empty.py'}:1:1", "--json").stdout)
    assert said["reuse"] is None
    assert [excerpt["n_tokens"] for excerpt in said["excerpts"]] == [0, 0, 0]


def test_names_with_brackets_are_printed_as_they_are(project):
    write(project / "pages" / "[bold].py", "from models import Box\n\nx = Box([/red\n")
    for column, held_back in (("1", ""), ("10", "before the cursor, '([', are left out")):
        result = explain(f"{project}/pages/[bold].py:3:{column}", "--project", str(project))
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"{project}/pages/[bold].py:3:{column}: ")
        assert held_back in result.stdout


SHAPES = (
    "class Shape:\n    def __init__(self, width, height):\n        self.width = width\n"
    "        self.\n"
)


def test_the_suggestion_comes_first_and_complete_prints_it_alone(project):
    place = f"{write(project / 'shapes.py', SHAPES)}:4:14"
    said = json.loads(explain(place, "--json").stdout)
    assert said["suggestion"]
    assert said["why_not"] == ""
    shown = explain(place).stdout
    assert shown.startswith(f"{place}: the suggestion is\n\n    {said['suggestion']}\n")
    alone = explain(place, command="complete")
    assert alone.stdout == f"{said['suggestion']}\n"
    assert alone.stderr == ""


def test_why_nothing_is_suggested_while_typing(project):
    shapes = write(project / "shapes.py", SHAPES)
    inside_a_word = explain(f"{shapes}:2:19").stdout
    assert "inside a word nothing is asked while you type" in inside_a_word
    unsure = explain(f"{shapes}:4:14", "--min-probability", "1").stdout
    assert "is below min_probability, 1" in unsure
    assert "By hand:\n\n    " in unsure


def test_complete_takes_one_place_or_one_text(project):
    result = explain(f"{project / 'cart.py'}:1:1", "-p", "x = ", command="complete")
    assert result.exit_code == 2
    assert "Give one of FILE:LINE:COL and --prompt." in result.output


def test_the_next_edit_and_its_prompt(project):
    before = project.parent / "before.py"
    before.write_text(CART.replace("boxes", "crates"))
    place = f"{project / 'cart.py'}:7:5"
    options = ("--next-edit", "--before", str(before), "--edit-format", "sweep-21")
    result = explain(place, *options, "--json")
    assert result.exit_code == 0, result.output
    said = msgspec.json.decode(result.stdout, type=PlaceEditExplanation)
    assert (said.edit_format, said.first_line, said.last_line) == ("sweep-21", 1, 11)
    (change,) = said.changes
    assert "crates" in change.old
    assert "boxes" in change.new
    assert said.files == ("models.py",)
    assert said.text.startswith("<|file_sep|>models.py\nclass Box:\n")
    assert "<|file_sep|>cart.py.diff\noriginal:\n" in said.text
    assert "__MASKED_SECRET__" in said.text
    assert "hunter22" not in result.stdout
    assert (said.result["edit"] is None) == bool(said.result["withheld"])
    assert said.result["divergences"]
    assert all(0 < one["probability"] <= 1 for one in said.result["divergences"])
    in_words = explain(place, *options).output
    assert "lines 1 to 11, which it writes anew" in in_words
    assert "It departs from the text with probability 0." in in_words
    assert f"Change at cart.py:{change.line + 1}: " in in_words
    assert "It is shown definitions of models.py." in in_words


def test_a_model_without_next_edits_says_so(project):
    result = explain(f"{project / 'cart.py'}:7:5", "--next-edit")
    assert "no next edits: the model is not known to propose them." in result.output
    unused = explain("x:1:1", "--before", str(project / "cart.py"))
    assert unused.exit_code == 2
