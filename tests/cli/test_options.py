from typing import Any

import click
import pytest
from click.testing import CliRunner

from speclsp import settings
from speclsp.cli import options
from speclsp.cli.main import cli
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.settings_resolution import NOT_NEEDED, resolve

SWITCHES = [name for name in settings.FIELDS if options.is_switch(name)]
VALUED = [name for name in settings.FIELDS if not options.is_switch(name)]


def sample(name: str) -> tuple[str, Any]:
    """A value that is not the default, as text and as what it becomes."""
    if isinstance(settings.default(name), dict):
        return '{"python": {"max_lines": 3}}', {"python": {"max_lines": 3}}
    if isinstance(settings.default(name), list):
        return "*.gen.py", ["*.gen.py"]
    words = [leaf for leaf in settings.leaves(name) if isinstance(leaf, str)]
    if words:
        others = [word for word in words if word != settings.default(name)]
        return (others[0], others[0]) if others else ("0.5", 0.5)
    return {"TEXT": ("x,y", "x,y"), "N": ("3", 3), "X": ("0.5", 0.5)}[options.metavar(name)]


@pytest.fixture
def parsed() -> Any:
    """Parse a command line of settings; returns the given options or the error's text."""

    @click.command(cls=SettingsCommand)
    def command(**given: Any) -> None:
        results.append(given_options(given))

    results: list[dict[str, Any]] = []

    def parse(*argv: str) -> Any:
        outcome = CliRunner().invoke(command, argv)
        if outcome.exit_code != 0:
            assert outcome.exit_code == 2, outcome.output
            return outcome.output
        return results[-1] if results else outcome.output

    return parse


def test_nothing_given_is_nothing(parsed):
    assert parsed() == {}


@pytest.mark.parametrize("name", VALUED)
def test_every_setting_is_an_option_by_all_its_names(parsed, name):
    text, value = sample(name)
    row = settings.info(name)
    for spelling in (name, *row.aliases):
        assert parsed(options.long_option(spelling), text) == {name: value}
        assert parsed(f"{options.long_option(spelling)}={text}") == {name: value}
    if row.short:
        assert parsed(row.short, text) == {name: value}
    assert resolve([{name: value}]).problems == ()


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_goes_on_and_off(parsed, name):
    row = settings.info(name)
    for spelling in (name, *row.aliases):
        dashed = spelling.replace("_", "-")
        assert parsed(f"--{dashed}") == {name: True}
        assert parsed(f"--no-{dashed}") == {name: False}
    if row.short:
        assert parsed(row.short) == {name: True}


def test_llama_cpp_spellings(parsed):
    argv = "-m a -md b -ngl 99 -ngld all -ctk q8_0 -ctv f32 -nkvo -fa on -t 4 -n64 -ncmoe 3"
    assert parsed(*argv.split()) == {
        "model": "a",
        "spec_draft_model": "b",
        "n_gpu_layers": 99,
        "spec_draft_ngl": "all",
        "cache_type_k": "q8_0",
        "cache_type_v": "f32",
        "kv_offload": False,
        "flash_attn": "on",
        "threads": 4,
        "n_predict": 64,
        "n_cpu_moe": 3,
    }


def test_upstreams_older_names(parsed):
    argv = "--draft-max 5 --draft-min 1 --draft-p-min 0.7 --spec-ngram-size-n 4 --draft-model d"
    assert parsed(*argv.split()) == {
        "draft_max": 5,
        "draft_min": 1,
        "spec_draft_p_min": 0.7,
        "spec_ngram_size_n": 4,
        "spec_draft_model": "d",
    }


def test_a_number_may_begin_with_its_point(parsed):
    assert parsed("--draft-p-min", ".75", "--top-p", ".5") == {
        "spec_draft_p_min": 0.75,
        "top_p": 0.5,
    }


def test_a_list_may_be_given_several_times(parsed):
    assert parsed("--exclude", "a", "--exclude", "b") == {"exclude": ["a", "b"]}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("-n", "0"), ["--n-predict", ">= 1"]),
        (("--threads", "many"), ["--threads", "int"]),
        (("--temperature", "-1"), ["--temperature", ">= 0"]),
        (("--top-p", "2"), ["--top-p", "<= 1"]),
        (("--flash-attn", "maybe"), ["--flash-attn", "on, off, auto"]),
        (("-ngl", "lots"), ["--n-gpu-layers", "auto, all"]),
        (("--languages", "{"), ["--languages", "JSON"]),
        (("--languages", '{"python": 3}'), ["--languages", "object"]),
        (("--languages", '{"python": {"model": "x"}}'), ["--languages", "python.model"]),
        (("--languages", '{"python": {"max_lines": 0}}'), ["--languages", "max_lines"]),
        (("--exclude", "a", "--exclude", "b\udcff"), ["--exclude", "UTF-8 text", "b\\udcff"]),
        (("--no-such-thing",), ["--no-such-thing"]),
        (("--ctx-size",), ["--ctx-size", "argument"]),
    ],
)
def test_a_wrong_value_is_a_usage_error_that_names_the_option(parsed, argv, words):
    output = " ".join(parsed(*argv).split())
    for word in words:
        assert word in output


def test_help_of_settings_names_every_setting_once_under_its_group(parsed):
    output = parsed("--help-settings")
    for name in settings.FIELDS:
        assert output.count(f"{options.long_option(name)} ") >= 1
    for group in {settings.info(name).group for name in settings.FIELDS}:
        assert output.count(f"Settings: {group}:") == 1
    assert "-hf, --hf-repo" in output


@pytest.mark.parametrize("command", ["serve", "complete", "explain", "bench", "doctor", "demo"])
def test_help_shows_a_commands_own_options_and_where_the_settings_are(command):
    run = CliRunner().invoke(cli, [command, "--help"])
    shown = {name for name in settings.FIELDS if f"{options.long_option(name)} " in run.stdout}
    assert shown <= {"model", "multiline", "deadline_ms"}  # texts name these
    assert "--help-settings" in run.stdout
    assert run.stdout.count("Settings: ") == 0
    assert len(run.stdout.splitlines()) < 40


def test_an_option_of_llama_cpp_that_there_is_none_of_names_what_to_set_instead():
    result = CliRunner().invoke(SettingsCommand("serve"), ["--spec-ngram-mod-n-max", "16"])
    assert result.exit_code == 2
    assert "set draft_max" in result.stderr


SERVER_OPTIONS = [
    (spelling, row.n_values, row.why) for row in NOT_NEEDED for spelling in row.spellings.split()
]


@pytest.mark.parametrize(("spelling", "n_values", "why"), SERVER_OPTIONS)
def test_an_option_of_a_server_is_told_as_it_was_typed_and_the_command_goes_on(
    spelling, n_values, why
):
    @click.command(cls=SettingsCommand)
    def command(**given: Any) -> None:
        click.echo(str(given_options(given)))

    values = ["9"] * n_values
    result = CliRunner().invoke(command, ["-n", "5", spelling, *values, "-t", "2"])
    assert result.exit_code == 0, result.output
    assert result.stderr == f"info: {spelling} is not needed: {why}.\n"
    assert result.stdout == "{'n_predict': 5, 'threads': 2}\n"
    if n_values:
        joined = f"{spelling}=9" if spelling.startswith("--") else f"{spelling}9"
        result = CliRunner().invoke(command, [joined])
        assert (result.exit_code == 0) == (joined not in {"-np9", "-to9", "-lzm9"}), result.output


@pytest.mark.parametrize("spelling", ["-np", "--host", "--port"])
def test_an_option_of_a_server_without_its_value_is_an_error(spelling):
    @click.command(cls=SettingsCommand)
    def command(**_given: Any) -> None: ...

    result = CliRunner().invoke(command, ["-t", "2", spelling])
    assert result.exit_code == 2
    assert f"Option '{spelling}' requires an argument." in result.stderr


def test_a_command_s_own_option_of_that_name_is_its_own():
    @click.command(cls=SettingsCommand)
    @click.option("--port", type=int)
    def command(port: int, **_given: Any) -> None:
        click.echo(str(port))

    result = CliRunner().invoke(command, ["--port", "80", "--host", "all"])
    assert (result.stdout, result.exit_code) == ("80\n", 0)
    assert "--port" not in result.stderr


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("--draft-mx", "8"), "--draft-max"),
        (("--spec-ngram-size", "8"), "--spec-ngram-size-n"),
        (("--fim-qwen-7b-sepc",), "--fim-qwen-7b-spec"),
        (("-p", "Prompt"), "speclsp complete -p TEXT"),
        (("--prompt", "Prompt"), "speclsp complete -p TEXT"),
        (("--show-timings",), "`speclsp complete` and `speclsp bench` print timings"),
    ],
)
def test_an_unknown_option_is_an_error_with_a_hint(parsed, argv, hint):
    assert hint in " ".join(parsed(*argv).split())
