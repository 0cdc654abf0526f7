import re
from pathlib import Path
from typing import get_args

import click
import pytest

from speclsp import settings
from speclsp.cli.headless import METHODS, CompleteParams
from speclsp.cli.main import SUBCOMMANDS, LazyGroup, cli
from speclsp.cli.options import SettingOption, long_option
from speclsp.cli.settings_table import BEGIN, END, with_settings_table
from speclsp.lsp import did_show, execute_command
from speclsp.lsp.execute_command import STATISTICS
from speclsp.request import EngineState

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BEFORE_SETTINGS = README[: README.index(BEGIN)]


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


def test_the_settings_table_is_the_one_that_make_docs_writes() -> None:
    assert with_settings_table(README) == README
    assert END in README


@pytest.mark.parametrize("name", settings.FIELDS)
def test_every_setting_has_its_row(name: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
    assert long_option(name) in row
    assert settings.info(name).help.replace("|", "\\|") in row


def test_every_row_is_a_setting() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", README[README.index(BEGIN) :], re.MULTILINE)
    assert sorted(rows) == sorted(settings.FIELDS)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_its_row(words: str) -> None:
    assert f"| `speclsp {words}` |" in README


def test_what_the_server_knows_beyond_lsp_is_told() -> None:
    own = (*execute_command.COMMANDS, did_show.DID_SHOW, did_show.DID_PARTIALLY_ACCEPT, STATISTICS)
    for name in (*own, "$/speclsp/status"):
        assert f"| `{name}` |" in README
    (status,) = [line for line in README.splitlines() if line.startswith("| `$/speclsp/status`")]
    assert all(f"`{state}`" in status for state in get_args(EngineState))


def test_every_command_in_the_readme_exists() -> None:
    for words in re.findall(r"`speclsp ((?:[a-z-]+ ?)+)[`\s]", README):
        known = [command for command in COMMANDS if (words.strip() + " ").startswith(command + " ")]
        assert known, words


@pytest.mark.parametrize("words", COMMANDS)
def test_every_commands_own_options_are_documented(words: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `speclsp {words}` |")]
    for parameter in COMMANDS[words].params:
        if isinstance(parameter, click.Option) and not isinstance(parameter, SettingOption):
            assert any(opt in row for opt in parameter.opts), (words, parameter.opts)


def test_every_option_in_the_readme_exists() -> None:
    known = {
        opt
        for command in COMMANDS.values()
        for parameter in command.params
        for opt in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    of_others = {
        "--extra-index-url",
        "--force-reinstall",
        "--no-cache-dir",
        "--no-deps",
        "--install",
    }
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", README))
    assert written - known - of_others == set()


def test_every_headless_method_and_param_is_documented() -> None:
    for method in METHODS:
        assert f"| `{method}` |" in BEFORE_SETTINGS
    (row,) = [line for line in README.splitlines() if line.startswith("| `complete` |")]
    params = set(CompleteParams.__struct_encode_fields__)
    assert params <= set(re.findall(r"`(\w+)`", row))


def test_the_links_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in anchors
        elif not target.startswith("https://"):
            assert (ROOT / target).exists(), target


def test_the_drafter_in_the_readme_is_the_example() -> None:
    code = (ROOT / "examples/echo_drafter/speclsp_echo.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in README


def test_the_picture_is_self_contained() -> None:
    picture = (ROOT / "docs/demo.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "url(http" not in picture
    assert "suffix" in picture


def test_one_sentence_per_line() -> None:
    in_code = False
    for number, line in enumerate(BEFORE_SETTINGS.splitlines(), 1):
        in_code ^= line.startswith("```")
        if not in_code and not line.startswith("|"):
            assert not re.search(r"[a-z`)][.?] [A-Z]", line), f"README.md:{number}: {line}"
