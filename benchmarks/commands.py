"""The commands of ``python -m benchmarks``: their options, and where what they run stands.

What a command runs is imported when it is run, so that help texts need nothing of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.model_shapes import QUANTISATIONS, QWEN2_5_CODER
from benchmarks.secrets_command import secrets_command
from speclsp.cli.options import OutputFile, SettingsCommand, given_options, given_settings


@click.group()
def cli() -> None:
    """Measure speclsp; each command says what it measures."""


def _run(where: str, *arguments: Any, **options: Any) -> Any:
    """Call ``module:function`` of this package."""
    module, _, function = where.partition(":")
    return getattr(importlib.import_module(f"benchmarks.{module}"), function)(*arguments, **options)


def _benchmark(
    name: str,
    where: str,
    help_text: str,
    *parameters: click.Parameter,
    defaults: Mapping[str, Any] | None = None,
    publishes: bool = True,
) -> None:
    """Add a command that takes all settings, prints a report, and writes its figures to ``--json``.

    ``where`` returns a :class:`~benchmarks.report.Report` of settings and of the parameters'
    values; it prints and writes by itself where ``publishes`` is false.  ``defaults`` are the
    command's own ones of settings.
    """

    def run(json_path: Path | None = None, **options: Any) -> None:
        own = {str(one.name): options[str(one.name)] for one in parameters}
        settings = given_settings({**(defaults or {}), **given_options(options)})
        if publishes:
            _run("report:publish", _run(where, settings, **own), settings, own, json_path)
        else:
            _run(where, settings, json_path=json_path, **own)

    params = [*parameters, _JSON]
    cli.add_command(SettingsCommand(name, callback=run, help=help_text, params=params))


def _command(name: str, where: str, help_text: str, *parameters: click.Parameter) -> None:
    """Add a command without settings, which prints by itself."""

    def run(**options: Any) -> None:
        _run(where, **options)

    cli.add_command(click.Command(name, callback=run, help=help_text, params=[*parameters]))


def _option(name: str, variable: str, default: Any, help_text: str, **others: Any) -> click.Option:
    return click.Option(
        [name, variable], default=default, show_default=True, help=help_text, **others
    )


def _number(name: str, variable: str, default: int, help_text: str, least: int = 1) -> click.Option:
    return _option(name, variable, default, help_text, type=click.IntRange(min=least))


def _file(name: str, variable: str, help_text: str, **others: Any) -> click.Option:
    path = click.Path(exists=True, dir_okay=False, path_type=Path, **others)
    return click.Option([name, variable], type=path, help=help_text)


_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_JSON: Final = click.Option(
    ["--json", "json_path"], type=OutputFile(), help="Write the figures to a file."
)
_CASES: Final = click.Argument(
    ["cases_path"],
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="CASES",
)
_SEED: Final = _option("--replay-seed", "replay_seed", 0, "Seed of the draw.", type=int)
_PAUSES: Final = _option(
    "--pauses/--no-pauses", "pauses", True,
    "Wait for idle work between two keys, as at a human's speed.",
)  # fmt: skip
_LLAMA_SERVER: Final = "tools/peers/build_llama_server.sh builds one."


def _n_cases(default: int, help_text: str = "Number of cases, drawn evenly.") -> click.Option:
    return _number("--n-cases", "n_cases", default, help_text)


_command("cases", "make_cases:show_cases", "Check a file of CASES, and show what it holds.", _CASES)
_command(
    "make-cases",
    "make_cases:make_cases_file",
    "Make cases of what was written between two versions of a project, the folders OLD and NEW.",
    click.Argument(["old"], type=_FOLDER),
    click.Argument(["new"], type=_FOLDER),
    click.Option(
        ["-o", "--output", "output"], required=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder for cases.jsonl and the project's files.",
    ),
    click.Option(["--name"], help="The project's name; by default the name of the folder NEW."),
    _number("--n-cases", "n_cases", 20, "Maximum number of cases."),
    _SEED,
)  # fmt: skip
_command(
    "make-model",
    "make_model:make_model_file",
    "Write a model OUT that says what a small one says and takes as long as a large one.\n\n"
    "The small model is padded with zeros to the large one's shape.",
    click.Argument(["out"], type=OutputFile()),
    click.Option(
        ["--like"], type=click.Choice(list(QWEN2_5_CODER)),
        help="The model whose shape to take; by default the shape stays.",
    ),
    click.Option(
        ["--layers", "n_layers"], type=click.IntRange(min=1),
        help="Number of layers, if other than in that shape.",
    ),
    click.Option(
        ["--vocabulary", "n_vocab"], type=click.IntRange(min=1),
        help="Number of tokens, if other than in that shape: a draft model needs as many as its "
        "target.",
    ),
    _file(
        "--from", "source",
        "The small model: a GGUF of the Qwen2 architecture; the embedded one by default.",
    ),
    _option(
        "--quantise", "quantisation", QUANTISATIONS[0], "The matrices' type.",
        type=click.Choice(QUANTISATIONS),
    ),
    _number(
        "--compare", "n_prompts", 0,
        "Compare so many greedy completions with the small model's in the same quantisation.",
        least=0,
    ),
)  # fmt: skip
_benchmark(
    "drafters",
    "drafters:run",
    "Replay lines of PROJECT with every drafter, and with all of them merged.",
    click.Argument(["project"], type=_FOLDER),
    _number("--cursors", "n_cursors", 40, "Places per task."),
    _SEED,
    _number("--rounds", "n_rounds", 5, "Rounds with the real model; 0 for none.", least=0),
    _number("--completions", "n_completions", 8, "Completions of a round."),
)
_benchmark(
    "edits",
    "edits:run",
    "Replay ANSWERS of next-edit models with every drafter of copies, in the model's vocabulary.",
    click.Argument(
        ["answers_path"], metavar="ANSWERS",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    ),
    click.Option(
        ["--drafted", "draft_sizes"], type=click.IntRange(min=1, max=96), multiple=True,
        default=(15, 32), show_default=True, help="Most tokens of a draft; may be given again.",
    ),
    _file(
        "--vocabulary", "vocabulary_path",
        "A GGUF whose tokens to count, in place of the model's: of Qwen2's, llama.cpp's sources "
        "have models/ggml-vocab-qwen2.gguf.",
    ),
    _number(
        "--rounds", "n_rounds", 0,
        "Have the settings' model say the answers, and take the time in so many rounds.", least=0,
    ),
)  # fmt: skip
_benchmark(
    "commit-edits",
    "commit_edits:run",
    "Ask for next edits behind first hunks of commits in CASES, and judge them by the rest.",
    click.Argument(
        ["cases_path"], metavar="CASES",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    ),
    click.Option(
        ["--half"], type=click.Choice(["tuning", "final", "all"]), default="final",
        show_default=True, help="Rules were found on the cases of `tuning`.",
    ),
    click.Option(
        ["--answers", "answers_path"], type=click.Path(dir_okay=False, path_type=Path),
        help="Keep what came of each case in this file, and go on with it.",
    ),
    _number("--limit", "n_cases", 0, "Ask for so many cases more; 0 for all.", least=0),
)  # fmt: skip
_benchmark(
    "engine",
    "engine:run",
    "Compare a shared engine with one's own: keystrokes, memory, bytes on the socket.",
    _number("--keys", "n_keys", 400, "Keys for each side."),
    defaults={"engine_exit_seconds": 0},
)
_command(
    "gpu-report",
    "gpu_report:make_report",
    "Measure speclsp on this machine's GPU, with models of several sizes, into a FOLDER.\n\n"
    "The models take 0.5 to 8 GB each of it. Goes on where an earlier run ended.",
    click.Argument(["folder"], type=click.Path(file_okay=False, writable=True, path_type=Path)),
    click.Option(["--quick"], is_flag=True, help="Fewer rounds."),
    _file(
        "--llama-server", "llama_server", f"The llama-server to compare with; {_LLAMA_SERVER}",
        executable=True,
    ),
    click.Option(
        ["--size", "sizes"], type=click.Choice(["0.5b", "1.5b", "7b"]), multiple=True,
        help="Of made models; may be given again.  [default: all that fit, none with --model]",
    ),
    click.Option(
        ["--model", "files"], type=click.Path(exists=True, dir_okay=False, path_type=Path),
        multiple=True, help="A published model to measure; may be given again.",
    ),
    click.Option(
        ["--only"], default="", metavar="REGEX",
        help="Run the parts whose names it matches: lossless, 1.5b-passes, …  [default: all]",
    ),
)  # fmt: skip
_benchmark(
    "healing",
    "healing:run",
    "Complete at every place inside the identifiers of FILEs, with token healing and without.",
    click.Argument(
        ["files"], nargs=-1, required=True, metavar="FILE...",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    ),
)  # fmt: skip
_benchmark(
    "host",
    "host:run",
    "Measure what the host adds to each llama_decode: drafts, verifying, sampling, stop rules.",
)
_benchmark(
    "index",
    "index:run",
    "Measure the project index: build, memory, look-up, replacing files.",
    _number("--tokens", "n_tokens", 10_000_000, "Size of the index.", least=10_000),
)
_benchmark(
    "passes",
    "passes:run",
    "Measure T(k), the time of a pass over k tokens, for chains and trees.",
    _number("--timed", "n_timed", 30, "Passes of each size, or as many as a minute allows."),
    click.Option(
        ["--pad-to", "batch_sizes"], type=click.IntRange(min=1), multiple=True,
        help="Pad each pass to the next of the sizes that are given.  [default: as this device's]",
    ),
)  # fmt: skip
_benchmark(
    "peers",
    "peers.comparison:run",
    "Compare with llama-server behind llama.vim, on CASES.",
    _CASES,
    _file(
        "--llama-server", "llama_server", f"The llama-server to compare with; {_LLAMA_SERVER}",
        executable=True,
    ),
    _file(
        "--statistics", "statistics_file",
        "N-gram statistics in llama.cpp's layout (`ngram build --format llama.cpp`).",
    ),
    click.Option(
        ["--peers", "peer_names"], default="",
        help="Compare with these sides only, separated by commas.  [all]",
    ),
    _number("--rounds", "n_rounds", 3, "Rounds, all sides taking turns in each.", least=3),
    _number(
        "--n-cases", "n_cases", 2,
        "Cases to type in each round, of those that are long enough; each round has its own if "
        "there are enough. 0 types none.",
        least=0,
    ),
    _number("--keys", "n_keys", 20, "Characters to type of each case."),
    _number(
        "--places", "n_places", 2,
        "Places of each kind in a round where decoding alone is compared; 0 for none.",
        least=0,
    ),
    _number("--decode-tokens", "n_decoded", 48, "Tokens to decode at each place.", least=2),
    _SEED,
    click.Option(
        ["--record", "record_folder"],
        type=click.Path(file_okay=False, writable=True, path_type=Path),
        help="Write the tables and the figures to a folder, with a description of the machine. "
        "The folder is created.",
    ),
    publishes=False,
)  # fmt: skip
_benchmark(
    "points",
    "points:run",
    "Type the functions of POINTS again, and ask once at each of some points in them.\n\n"
    "With --record it goes on where an earlier run ended.",
    click.Argument(
        ["points_path"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="POINTS",
    ),
    _number("--points", "n_points", 120, "Points in all, spread evenly over the projects."),
    _number("--per-function", "n_each", 4, "Points in each function."),
    _SEED,
    click.Option(
        ["--sides", "side_names"], default="",
        help="Ask these sides only, separated by commas.  [all that can run]",
    ),
    _option(
        "--times/--no-times", "times", False,
        "Keep the settings by which texts depend on the machine's speed, and print times.",
    ),
    _file(
        "--llama-server", "llama_server", f"The llama-server to compare with; {_LLAMA_SERVER}",
        executable=True,
    ),
    click.Option(
        ["--record", "record_path"], type=click.Path(dir_okay=False, path_type=Path),
        help="Keep each answer with its tokens and their probabilities in a file of JSON lines.",
    ),
    _file("--from", "from_path", "Make the tables of such a file, and ask nothing."),
)  # fmt: skip
_benchmark(
    "context",
    "context:run",
    "Read what humans wrote in SOURCE behind several prompts.\n\n"
    "SOURCE is a file of points or a repository, whose commits have recent edits. A run goes on "
    "where the record ends.",
    click.Argument(["source"], type=click.Path(exists=True, path_type=Path), metavar="SOURCE"),
    _number("--places", "n_places", 60, "Places in all, spread evenly over the projects."),
    _SEED,
    click.Option(
        ["--variants", "variant_names"], default="",
        help="Compare these prompts only, separated by commas, with the first of them.  [all]",
    ),
    click.Option(
        ["--record", "record_path"], type=click.Path(dir_okay=False, path_type=Path),
        required=True, help="Keep each reading in a file of JSON lines.",
    ),
)  # fmt: skip
_benchmark(
    "quality",
    "quality:run",
    "Compare suggestions with what humans wrote in CASES, and with a plain client's.",
    _CASES,
    _n_cases(80),
    _number("--stride", "stride", 4, "Keys of a line between two requests."),
    _SEED,
    defaults={"debounce_ms": 0, "t_max_predict_ms": 0, "mode": "tree"},
)
_benchmark(
    "remote",
    "peers.remote:run",
    "Type to a llama-server through speclsp and through llama.vim's logic, on CASES.",
    _CASES,
    click.Option(
        ["--llama-server", "llama_server"], required=True,
        type=click.Path(exists=True, dir_okay=False, executable=True, path_type=Path),
        help=f"The llama-server to ask; {_LLAMA_SERVER}",
    ),
    _number("--rounds", "n_rounds", 3, "Rounds, all sides taking turns in each."),
    _n_cases(2, "Cases to type in each round."),
    _number("--keys", "n_keys", 20, "Characters to type of each case."),
    _SEED,
)  # fmt: skip
_benchmark(
    "speculation",
    "typed_settings:speculation",
    "Type CASES with speculation and without, and compare what the keystrokes take.",
    _CASES,
    _number("--rounds", "n_rounds", 5, "Rounds, each with both sides in turns."),
    _n_cases(12, "Number of cases of a round, drawn evenly."),
    _number("--keys", "n_keys", 20, "Most characters to type of each case."),
    _PAUSES,
    _SEED,
)
_benchmark(
    "typing",
    "typed_settings:typing",
    "Type the edits of CASES, one request per key, and count what that costs.",
    _CASES,
    _n_cases(40),
    _SEED,
    _option(
        "--compare/--no-compare", "compare", True, "Also replay with the other prompt layouts.",
    ),
    _PAUSES,
    _option(
        "--server/--no-server", "through_server", False,
        "Type into a server process over stdio, as an editor does.",
    ),
)  # fmt: skip
cli.add_command(secrets_command)
