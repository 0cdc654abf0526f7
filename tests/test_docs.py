"""README.md and docs/ are held to the code: commands, options, settings, messages, links."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import click
import pytest

from speclsp import settings
from speclsp.cli.complete import complete
from speclsp.cli.headless import METHODS, CompleteParams
from speclsp.cli.main import SUBCOMMANDS, LazyGroup, cli
from speclsp.cli.options import SettingOption, SettingsCommand, long_option
from speclsp.lsp import execute_command
from speclsp.lsp.next_edit import NEXT_EDIT
from speclsp.lsp.own_methods import OWN_METHODS
from speclsp.seam.statistics import EngineState
from tools.settings_table import with_settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS_PAGES = ("settings.md", "settings-advanced.md")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "benchmarks/cases.md",
        *sorted(DOCS.glob("*.md")),
        *sorted((DOCS / "decisions").rglob("*.md")),
    )
}
OWN_PAGES = [name for name in PAGES if Path(name).name not in SETTINGS_PAGES]


def page(name: str) -> str:
    return PAGES[f"docs/{name}"]


def commands() -> dict[str, click.Command]:
    """Every command by its words: ``data list``."""
    group = cli
    assert isinstance(group, LazyGroup)
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in SUBCOMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": c for inner, c in command.commands.items()}
        else:
            found[name] = command
    return found


COMMANDS = commands()


@pytest.mark.parametrize("name", SETTINGS_PAGES)
def test_the_settings_pages_are_those_that_make_docs_writes(name):
    assert with_settings(name, page(name)) == page(name)


def test_every_setting_has_one_row():
    both = "".join(page(one) for one in SETTINGS_PAGES)
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", both, re.MULTILINE))
    assert sorted(rows) == sorted(settings.SHOWN)
    for name, row in rows.items():
        assert long_option(name) in row
        assert settings.info(name).help.replace("|", "\\|") in row


def test_every_option_of_a_drafter_has_one_row():
    rows = re.findall(
        r"^\| `([\w-]+)`, `(\w+)` \| `(--[\w-]+)", page(SETTINGS_PAGES[1]), re.MULTILINE
    )
    assert rows == [
        (drafter, option, long_option(name))
        for drafter, options in settings.DRAFTER_OPTIONS.items()
        for option, name in options.items()
    ]


def test_settings_that_a_page_names_exist():
    """What stands in backticks in brackets behind a sentence is a setting: ``(`prefetch`)``."""
    for name in OWN_PAGES:
        text = "" if "decisions" in name else PAGES[name]
        for named in re.findall(r"\(`([a-z]+(?:_[a-z]+)+)`[),]", text):
            assert named in settings.FIELDS, (name, named)


def test_every_command_has_its_row_with_its_own_options():
    lines = page("cli.md").splitlines()
    of_all = next(line for line in lines if line.startswith("Commands that load a model take Hu"))
    for words, command in COMMANDS.items():
        rows = [line for line in lines if line.startswith(f"| `speclsp {words}` |")]
        assert len(rows) == 1, words
        loads = isinstance(command, SettingsCommand) or words.startswith("ngram")
        row = rows[0] + of_all if loads else rows[0]
        for parameter in command.params:
            is_own = isinstance(parameter, click.Option) and not isinstance(
                parameter, SettingOption
            )
            if is_own and not parameter.hidden:
                assert any(opt in row for opt in parameter.opts), (words, parameter.opts)


def test_what_the_server_knows_beyond_lsp_is_documented():
    text = page("lsp.md")
    own = (*execute_command.COMMANDS, *(method for method in OWN_METHODS if method != NEXT_EDIT))
    assert f"`{NEXT_EDIT}`" in text
    for name in (*own, "$/speclsp/status"):
        assert f"| `{name}` |" in text
    (status,) = [line for line in text.splitlines() if line.startswith("| `$/speclsp/status`")]
    assert all(f"`{state}`" in status for state in get_args(EngineState))


def test_every_command_on_a_page_exists():
    for name in OWN_PAGES:
        for words in re.findall(r"`speclsp ((?:[a-z-]+ ?)+)[`\s]", PAGES[name]):
            known = [one for one in COMMANDS if (words.strip() + " ").startswith(one + " ")]
            assert known, (name, words)


def test_every_option_of_speclsp_on_a_page_exists():
    known = {
        opt
        for command in COMMANDS.values()
        for parameter in command.params
        for opt in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    pages = ("cli.md", "headless.md", "drafters.md", "tuning.md")
    for name in ("README.md", *(f"docs/{p}" for p in pages)):
        of_others = {"--extra-index-url", "--force-reinstall", "--no-cache-dir", "--no-deps"}
        lines = [line for line in PAGES[name].splitlines() if "python -m benchmarks" not in line]
        written = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", "\n".join(lines)))
        assert written - known - of_others == set(), name


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("--spec-type A,B", ["drafters"]),
        ("--draft-max", ["spec_draft_n_max"]),
        ("--draft-min", ["spec_draft_n_min"]),
        ("--draft-p-min", ["spec_draft_p_min"]),
        ("--draft-p-split", ["p_split"]),
        ("-n", ["n_predict", "ctx_size"]),
    ],
)
def test_the_defaults_beside_llama_servers_are_ours(option, names):
    rows = page("tuning.md").partition("## From llama-server")[2].splitlines()
    (row,) = [line for line in rows if line.startswith(f"| `{option}`")]
    shown = re.findall(r"[\w.,-]*[\w]", row.rsplit("|", 2)[1].replace("`", ""))
    for name in names:
        value = settings.default(name)
        assert (f"{value:,g}" if isinstance(value, (int, float)) else value) in shown


def test_every_headless_method_and_param_is_documented():
    text = page("headless.md")
    for method in METHODS:
        assert f"| `{method}` |" in text
        assert re.search(rf"methods are.* {method}\b", complete.help, re.DOTALL)
    (row,) = [line for line in text.splitlines() if line.startswith("| `complete` |")]
    params = set(CompleteParams.__struct_encode_fields__)
    assert params <= set(re.findall(r"`(\w+)`", row))


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    links = [(name, to) for name in PAGES for to in re.findall(r"\]\(([^)]+)\)", PAGES[name])]
    for name, target in links:
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        assert linked.exists(), (name, target)
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked.read_text(encoding="utf-8")), (name, target)


def test_the_drafter_in_the_documents_is_the_example():
    code = (ROOT / "examples/echo_drafter/speclsp_echo.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in page("drafters.md")


def test_every_decision_is_listed():
    records = sorted(path.name for path in (DOCS / "decisions").glob("*.md"))
    listed = re.findall(r"\]\(([a-z-]+\.md)\)", page("decisions/README.md"))
    assert sorted([*listed, "README.md"]) == records


def test_the_first_pages_are_short():
    assert len(PAGES["README.md"].splitlines()) <= 150
    assert len(PAGES["ARCHITECTURE.md"].splitlines()) <= 150
    assert len(page("tuning.md").split()) <= 900


def test_files_that_the_architecture_names_exist():
    for named in re.findall(
        r"`((?:speclsp|tests|docs|benchmarks|training|tools)/[\w./-]+)`", PAGES["ARCHITECTURE.md"]
    ):
        assert (ROOT / named).exists(), named


def test_the_picture_is_self_contained():
    picture = (ROOT / "docs/demo.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "url(http" not in picture
    assert "suffix" in picture


def test_the_tests_that_security_names_exist():
    named = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", page("security.md"))
    assert len(named) > 20
    for test, file in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (test, file)


def test_one_sentence_per_line():
    for name in OWN_PAGES:
        if name == "docs/gpu.md":
            continue
        in_code = False
        for number, line in enumerate(PAGES[name].splitlines(), 1):
            in_code ^= line.startswith("```")
            if not in_code and not line.startswith("|"):
                assert not re.search(r"[a-z`)][.?] [A-Z]", line), f"{name}:{number}: {line}"


@pytest.mark.real
def test_the_sample_answer_is_the_command_s():
    """The text and the prompt's size that stand below the command are what it prints."""
    text = page("headless.md")
    (request,) = re.findall(r"^echo '(.*)' \| speclsp complete$", text, re.MULTILINE)
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    command = [sys.executable, "-m", "speclsp", "complete", "--no-persist", "--mode", "tree"]
    run = subprocess.run(command, input=request, capture_output=True, text=True, check=True)
    answer, sample = json.loads(run.stdout)["result"], json.loads(shown)["result"]
    for key in ("text", "finishReason"):
        assert answer[key] == sample[key]
    for key in ("nPrompt", "nPromptEvaluated", "nPredicted"):
        assert answer["stats"][key] == sample["stats"][key]
    assert answer.keys() == sample.keys()
    assert answer["stats"].keys() == sample["stats"].keys()


def test_the_figures_that_the_editors_show_are_explained():
    table = page("statistics.md").partition("## In the editor")[2].partition("## ")[0]
    rows = re.findall(r"^\| ([a-z, ]+) \|", table, re.MULTILINE)
    explained = {name.strip() for row in rows for name in row.split(",")}
    panel = (ROOT / "editors/vscode/media/panel.js").read_text(encoding="utf-8")
    lua = (ROOT / "editors/neovim/lua/speclsp/commands.lua").read_text(encoding="utf-8")
    shown = [name.lower() for name in re.findall(r'\[\s*"([A-Z][^"]+)",', panel)]
    shown += re.findall(r"'([a-z][a-z, ]+?)  +(?:%|')", lua)
    names = {name.removesuffix(", median").removesuffix(" accepted") for name in shown}
    assert {"accepted", "latency", "tokens per pass", "index", "drafts"} <= names
    assert names - {"model", "state", "requests", "characters"} <= explained


def test_a_modules_tests_are_found_by_its_name_or_in_the_architecture():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("## A module's tests")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`((?!tests/)[\w/]+\.py)`", section))
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    modules = {
        path.relative_to(ROOT / "speclsp").as_posix()
        for path in (ROOT / "speclsp").rglob("*.py")
        if not path.stem.startswith("__") and path.stem not in tested
    }
    assert listed == modules
    for tests in re.findall(r" in `([\w/]+\.py)`", section):
        assert (ROOT / tests).is_file(), tests
