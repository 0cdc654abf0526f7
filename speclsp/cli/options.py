"""Command line options: one for each setting, and files to write.

Each setting becomes one option: its name and its aliases with dashes, and llama.cpp's one-dash
form where there is one.  A boolean becomes ``--name/--no-name``, a list may be given several
times, a mapping is JSON.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from speclsp import settings
from speclsp.errors import SettingsError
from speclsp.models.presets import LLAMA_CPP_NAMES
from speclsp.settings_resolution import NOT_NEEDED, convert, instead_of, resolve

_SWITCH_INTERVAL_S: Final = 0.0005
"""Seconds that the engine's thread may run Python code while the event loop waits.

With the interpreter's default of 5 ms, an answer from memory, which takes 0.1 ms, often waited as
long.
"""


def prepare_to_serve() -> None:
    """Let threads take turns fast, and a crash write no core file with the open documents."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


_OF_COMPLETE: Final = {
    "-p": "`speclsp complete -p TEXT` completes a text once and prints the completion",
    "--prompt": "`speclsp complete -p TEXT` completes a text once and prints the completion",
    "--show-timings": "`speclsp complete` and `speclsp bench` print timings",
}
"""Options of llama-cli that one command has, with what the others say."""


class SettingOption(click.Option):
    """The option of a setting; its help shows the name and llama.cpp's short form only."""

    def __init__(self, setting_name: str) -> None:
        self.setting_name = setting_name
        declarations = _declarations(setting_name)
        if is_switch(setting_name):
            super().__init__(declarations, default=None)
        else:
            super().__init__(
                declarations,
                type=_check(setting_name),
                metavar=metavar(setting_name),
                multiple=isinstance(settings.default(setting_name), list),
            )

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002  # click's
        """Return the row of the help text."""
        row = settings.info(self.setting_name)
        names = long_option(self.setting_name)
        if is_switch(self.setting_name):
            names += f" / --no-{names.removeprefix('--')}"
        else:
            names += f" {metavar(self.setting_name)}"
        if row.short:
            names = f"{row.short}, {names}"
        return names, f"{row.help}  [{default_text(self.setting_name)}]"


class SettingsCommand(click.Command):
    """A command with an option for every setting, passed as keyword arguments.

    Options that are not given are None or empty; :func:`given_options` leaves them out.
    Its help shows its own options; ``--help-settings`` lists the settings by group.
    llama-server's options that are not needed are told and ignored, unless the command has them.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        own = {spelling for parameter in self.params for spelling in parameter.opts}
        self._groups: dict[str, list[click.Parameter]] = {}
        for name in settings.FIELDS:
            self._groups.setdefault(settings.info(name).group, []).append(SettingOption(name))
        self._groups["models"] += _hub_options()
        self._own = [*self.params, _help_settings_option()]
        self.params += [*self._own[-1:], *chain.from_iterable(self._groups.values())]
        for row in NOT_NEEDED:
            self.params += [
                click.Option(
                    [spelling],
                    is_flag=True if row.n_values == 0 else None,  # False makes the value optional
                    hidden=True,
                    expose_value=False,
                    callback=partial(_tell_not_needed, why=row.why),
                )
                for spelling in row.spellings.split()
                if spelling not in own
            ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; llama.cpp's flags for models are names of models.

        An option of llama.cpp that has none here is an error that names what to set instead.
        """
        flags = {f"--{name}": f"--model={name}" for name in LLAMA_CPP_NAMES}
        args = [flags.get(arg, arg) for arg in args]
        known = {spelling for parameter in self.params for spelling in parameter.opts}
        # Asked first, since click takes `-otd` for `-o` with the value `td`.
        for option in (arg.partition("=")[0] for arg in args if arg.startswith("-")):
            instead = instead_of(option.strip("-").removeprefix("no-"))
            if instead and option not in known:
                raise click.UsageError(f"{option}: {instead}", ctx)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = _OF_COMPLETE.get(error.option_name)
            raise click.NoSuchOption(
                error.option_name,
                error.message + (f" ({hint})" if hint else ""),
                [*get_close_matches(error.option_name, flags), *(error.possibilities or ())],
                ctx,
            ) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options."""
        own = [*self._own, *filter(None, [self.get_help_option(ctx)])]
        _write_options(ctx, formatter, "Options", own)

    def format_settings(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings under their groups' names."""
        for group, parameters in self._groups.items():
            _write_options(ctx, formatter, f"Settings: {group}", parameters)


def _write_options(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    parameters: Sequence[click.Parameter],
) -> None:
    records = (parameter.get_help_record(ctx) for parameter in parameters)
    with formatter.section(title):
        formatter.write_dl([record for record in records if record is not None])


def _help_settings_option() -> click.Option:
    def show(ctx: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
        if is_given and isinstance(ctx.command, SettingsCommand):
            formatter = ctx.make_formatter()
            ctx.command.format_usage(ctx, formatter)
            ctx.command.format_settings(ctx, formatter)
            click.echo(formatter.getvalue().rstrip("\n"))
            ctx.exit()

    return click.Option(
        ["--help-settings"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the options of all settings, such as --model, and exit.",
    )


def _tell_not_needed(
    _ctx: click.Context, parameter: click.Parameter, value: object, *, why: str
) -> None:
    """Tell that an option, if it is given, has no effect."""
    if value not in (None, False):
        click.echo(f"info: {parameter.opts[0]} is not needed: {why}.", err=True)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")


def print_json(data: object) -> None:
    """Print JSON in lines that a person can read."""
    click.echo(msgspec.json.format(msgspec.json.encode(data)).decode())


show_timings_option = click.option(
    "--show-timings/--no-show-timings",
    help="Print llama.cpp's lines on times and draft acceptance to standard error.",
)


_OF_MODELS: Final = ("model", "spec_draft_model", "edit_model")


_REPOSITORY: Final = "OWNER/NAME[:QUANTIZATION]"


def _hub_options() -> list[click.Option]:
    """Return llama.cpp's options for Hugging Face, which set the models and the token."""
    draft = click.Option(
        ["spec_draft_hf", "--spec-draft-hf", "--hf-repo-draft", "--hfrd", "-hfd"],
        metavar=_REPOSITORY,
        help="The draft model, as `--spec-draft-model` of this form.",
    )
    return [*_target_hub_options(), draft, hf_token_option()]


def target_options() -> list[click.Option]:
    """Return the options that name the target model, for commands without the other settings."""
    return [SettingOption("model"), *_target_hub_options()]


def _target_hub_options() -> list[click.Option]:
    return [
        click.Option(
            ["hf_repo", "--hf-repo", "--hfr", "-hf"],
            metavar=_REPOSITORY,
            help="The target model, as `--model` of this form.",
        ),
        click.Option(
            ["hf_file", "--hf-file", "-hff"],
            metavar="FILE.gguf",
            help="The file of `--hf-repo`, instead of a quantization.",
        ),
    ]


def hf_token_option() -> click.Option:
    """Return the option of Hugging Face's token, which the hub's client reads as HF_TOKEN."""

    def keep(_ctx: click.Context, _parameter: click.Parameter, token: str | None) -> None:
        if token:
            os.environ["HF_TOKEN"] = token

    return click.Option(
        ["--hf-token", "-hft"],
        metavar="TOKEN",
        expose_value=False,
        callback=keep,
        help="Token for private and gated repositories, instead of HF_TOKEN's; other users of "
        "the machine can read it on the command line.",
    )


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the command line gives, by canonical name.

    A model that is an existing file is given as its absolute path, also where the name has the form
    of a repository.  Raises click.UsageError.
    """
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name in settings.FIELDS and value is not None and value != ():
            given[name] = list(value) if isinstance(value, tuple) else value
    for name in _OF_MODELS:
        if given.get(name) and (path := settings.named_path(given[name])).is_file():
            given[name] = str(path.absolute())
    for name, repository, file in (
        ("model", options.get("hf_repo"), options.get("hf_file") or ""),
        ("spec_draft_model", options.get("spec_draft_hf"), ""),
    ):
        if repository and name in given:
            raise click.UsageError(f"{long_option(name)} and a repository name the same model.")
        if file and not file.lower().endswith(".gguf"):
            raise click.UsageError("--hf-file names a file that ends in .gguf.")
        if repository:
            given[name] = repository_name(repository, file)
        elif file:
            raise click.UsageError("--hf-file belongs to --hf-repo.")
    return given


def repository_name(repository: str, file: str = "") -> str:
    """Return the value of ``model`` for a repository and its file.  Raises click.UsageError."""
    # Imported here: few command lines name a repository.
    from speclsp.models.references import parse_reference  # noqa: PLC0415

    try:
        return str(parse_reference(repository, file))
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


def given_settings(options: Mapping[str, Any]) -> settings.Settings:
    """Return the settings that the command line gives, with files in place of models' names.

    Raises :class:`~speclsp.errors.SpecLspError` where a named model is not downloaded.
    """
    # Imported here: the language server answers its first message without the hub.
    from speclsp.models.choice import resolve_models  # noqa: PLC0415

    return resolve_models(resolve([given_options(options)]).settings)


def long_option(name: str) -> str:
    """Return the option of a setting or alias: ``ctx_size`` is ``--ctx-size``."""
    return "--" + name.replace("_", "-")


def is_switch(name: str) -> bool:
    """Return whether a setting is on or off, and so takes no value."""
    return settings.TYPES[name] is bool


def metavar(name: str) -> str:
    """Return the placeholder for the value in help texts and tables."""
    if isinstance(settings.default(name), dict):
        return "JSON"
    kinds = settings.leaves(name)
    number = "X" if float in kinds else "N" if int in kinds else ""
    words = (leaf for leaf in kinds if isinstance(leaf, str))
    return "|".join(filter(None, (number, *words))) or "TEXT"


def default_text(name: str) -> str:
    """Return a setting's default as help texts and documents write it."""
    value = settings.default(name)
    if isinstance(value, bool):
        return "on" if value else "off"
    if value in ("", [], {}):
        return "empty"
    return str(value)


def _check(name: str) -> Callable[[str], Any]:
    """Return a function that converts a setting's text; click adds the option to its error.

    The text of a list is one of its items.
    """
    default = settings.default(name)

    def check(text: str) -> Any:
        try:
            if isinstance(default, list):
                return convert(name, [text])[0]
            if not isinstance(default, dict):
                return convert(name, text, from_text=True)
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise click.BadParameter(f"not JSON: {error}.") from error
        except SettingsError as error:
            raise click.BadParameter(str(error)) from error
        if problems := resolve([{name: value}]).problems:
            raise click.BadParameter(" ".join(problem.message for problem in problems))
        return value

    return check


def _declarations(name: str) -> list[str]:
    row = settings.info(name)
    spellings = [long_option(spelling) for spelling in (name, *row.aliases)]
    short = [row.short] if row.short else []
    if is_switch(name):
        spellings = [f"{on}/--no-{on.removeprefix('--')}" for on in spellings]
        if short and settings.default(name):
            # As upstream: -nkvo is --no-kv-offload.  -ncmoe is another option than -cmoe.
            short = [f"{row.short}/-n{row.short.removeprefix('-')}"]
    return [name, *spellings, *short]


class OutputFile(click.Path):
    """The path of a file to write, in a folder that exists and is writable."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.  Raises BadParameter."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.exists() and not os.access(path.parent, os.W_OK):
            what = "is not writable" if path.parent.is_dir() else "does not exist"
            self.fail(f"Folder {str(path.parent)!r} {what}.", param, ctx)
        return path
