"""``speclsp bench peers``: beside what a user would pick instead."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from speclsp import settings
from speclsp.bench.cases import EditCase, drawn_cases, load_cases
from speclsp.bench.machine import machine_lines, offloads
from speclsp.bench.peers.contract import Peer, PeerOptions
from speclsp.bench.peers_aims import ON_CPU, ON_GPU, aim_lines
from speclsp.bench.peers_figures import Figures
from speclsp.bench.peers_own import own_settings
from speclsp.bench.peers_report import (
    DecodedTask,
    comparison_chart,
    comparison_object,
    decoded_figures,
    decoded_ratio_table,
    decoded_table,
    typed_figures,
    typed_ratio_table,
    typed_table,
    why_not_lines,
)
from speclsp.bench.peers_run import (
    LEAST_ROUNDS,
    Comparison,
    chosen_peers,
    decode_tasks,
    loaded_models,
    typed_peers,
)
from speclsp.bench.peers_typing import type_to_all
from speclsp.cli.bench_cases import CASES, REPLAY_SEED
from speclsp.cli.cost_true_remarks import remarks
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.cli.output_file import OutputFile, write_text
from speclsp.engine.models import model_files
from speclsp.engine.params import target_params

_WIDTH: Final = 170
_TERMINATED: Final = 143
_SPEED_OVER_S: Final = 1800.0
"""The sides differ in speed, so that the time that is left is told by all that was done."""
_WITH: Final = "each side as its users have it"
_WITHOUT: Final = "no side remembers suggestions or asks ahead"
_ENDED_EARLY: Final = "The comparison ended early: what is missing was not measured."
_TYPED_CAPTION: Final = (
    "Each side lays out prompts, stops and cuts by its own rules: speclsp by its settings, "
    "llama.vim by its defaults, llama-cpp-python with llama.vim's prompt."
)
_DECODED_CAPTION: Final = (
    "All sides continue the same prompt tokens, in the KV cache already, greedily and up to the "
    "same number of tokens; only the model's end token ends a text."
)


@click.command("peers", cls=SettingsCommand)
@CASES
@click.option(
    "--llama-server", "llama_server", type=click.Path(dir_okay=False, path_type=Path),
    help="The llama-server to compare with; tools/peers/build_llama_server.sh builds one.",
)  # fmt: skip
@click.option(
    "--statistics", "statistics_file", type=click.Path(dir_okay=False, path_type=Path),
    help="N-gram statistics in llama.cpp's layout (`ngram build --format llama.cpp`).",
)  # fmt: skip
@click.option(
    "--peers", "peer_names", default="",
    help="Compare with these alone, separated by commas.  [all]",
)  # fmt: skip
@click.option(
    "--rounds", "n_rounds", type=click.IntRange(min=LEAST_ROUNDS), default=LEAST_ROUNDS,
    show_default=True, help="Rounds, all sides taking turns in each.",
)  # fmt: skip
@click.option(
    "--n-cases", "n_cases", type=click.IntRange(min=0), default=2, show_default=True,
    help="So many of the cases that are long enough are typed, drawn evenly; 0 for none.",
)  # fmt: skip
@click.option(
    "--keys", "n_keys", type=click.IntRange(min=1), default=20, show_default=True,
    help="So many characters of each case are typed.",
)  # fmt: skip
@click.option(
    "--places", "n_places", type=click.IntRange(min=0), default=2, show_default=True,
    help="Places of each kind in a round where decoding alone is compared; 0 for none.",
)  # fmt: skip
@click.option(
    "--decode-tokens", "n_decoded", type=click.IntRange(min=2), default=48, show_default=True,
    help="Tokens that are decoded at each place.",
)  # fmt: skip
@click.option(
    "--all-typed/--no-all-typed", default=False, show_default=True,
    help="Type to llama-server with each kind of speculation, too.",
)  # fmt: skip
@click.option(
    "--forgetting/--no-forgetting", default=True, show_default=True,
    help="Type once more, with no side remembering suggestions.",
)  # fmt: skip
@REPLAY_SEED
@click.option("--json", "json_path", type=OutputFile(), help="Write the figures there.")
@click.option("--plot", "plot_path", type=OutputFile(), help="Write a chart (SVG) there.")
@click.option(
    "--record", "record_folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write all that is printed there, with the machine's description, figures and chart.",
)  # fmt: skip
def peers_command(
    cases_path: Path,
    llama_server: Path | None,
    statistics_file: Path | None,
    peer_names: str,
    n_rounds: int,
    n_cases: int,
    n_keys: int,
    n_places: int,
    n_decoded: int,
    all_typed: bool,
    forgetting: bool,
    replay_seed: int,
    json_path: Path | None,
    plot_path: Path | None,
    record_folder: Path | None,
    **options: Any,
) -> None:
    """Compare with llama-server behind llama.vim and with llama-cpp-python, on CASES."""
    resolved = settings.resolve([given_options(options)]).settings
    cases = load_cases(cases_path)
    names = [name.strip() for name in peer_names.split(",") if name.strip()]
    peers = chosen_peers(resolved, names)
    report = _Report(remarks=remarks(resolved))
    with TemporaryDirectory() as folder, _ended_by_signals():
        given = _peer_options(resolved, llama_server, statistics_file, Path(folder))
        said = {
            "cases_file": cases_path.name,
            "cases": n_cases,
            "keys": n_keys,
            "rounds": n_rounds,
            "places": n_places,
            "decode_tokens": n_decoded,
            "all_typed": all_typed,
            "forgetting": forgetting,
            "seed": replay_seed,
            "model": given.model.name,
            "draft_model": given.draft_model.name if given.draft_model is not None else None,
            "statistics": statistics_file is not None,
            "n_predict": given.n_predict,
            "threads": given.n_threads,
            "gpu_layers": resolved.n_gpu_layers,
            "context": given.n_context,
        }
        comparison = Comparison(
            settings=own_settings(resolved, given),
            options=given,
            cases=cases,
            n_rounds=n_rounds,
            seed=replay_seed,
            n_places=n_places,
            n_decoded=n_decoded,
        )
        for line in report.remarks:
            report.say(line)
        layers: dict[str, int] = {}
        try:
            _type_all(
                report,
                comparison,
                typed_peers(peers, kinds_too=all_typed),
                _typed_cases(cases, n_cases, n_keys, replay_seed),
                forgetting=forgetting,
            )
            layers = _decode(report, comparison, peers)
            report.aims = aim_lines(
                ON_GPU if offloads(layers) else ON_CPU, report.typed.get(_WITH, []), report.decoded
            )
            for line in report.aims:
                report.say(line)
        except BaseException:
            # Hours may have gone into what is there, however the rest ended.
            report.remarks.append(_ENDED_EARLY)
            report.say(_ENDED_EARLY)
            raise
        finally:
            if layers or report.typed or report.decoded:
                report.machine = machine_lines(layers, given.n_threads, llama_server)
                for name, value in report.machine:
                    report.say(f"{name}: {value}")
                _write(report, said, json_path, plot_path, record_folder)


def _wide_console() -> Console:
    """Return the terminal; what is no terminal has room for the tables' columns."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, _WIDTH))


@dataclass(slots=True)
class _Report:
    """What is printed and written, as it grows."""

    remarks: list[str]
    console: Console = field(default_factory=_wide_console)
    copy: Console = field(
        default_factory=lambda: Console(file=io.StringIO(), record=True, width=_WIDTH)
    )
    typed: dict[str, list[Figures]] = field(default_factory=dict)
    decoded: list[DecodedTask] = field(default_factory=list)
    aims: list[str] = field(default_factory=list)
    machine: list[tuple[str, str]] = field(default_factory=list)

    def say(self, what: RenderableType) -> None:
        """Print it now, and keep it for the record."""
        for console in (self.console, self.copy):
            console.print(what, highlight=False, soft_wrap=isinstance(what, str))


def _peer_options(
    resolved: settings.Settings,
    llama_server: Path | None,
    statistics_file: Path | None,
    folder: Path,
) -> PeerOptions:
    files = model_files(resolved)
    _, context = target_params(resolved, model_bytes=files.target.stat().st_size)
    layers = resolved.n_gpu_layers
    return PeerOptions(
        model=files.target,
        draft_model=files.draft,
        statistics_file=statistics_file,
        llama_server=llama_server,
        n_threads=context.n_threads,
        n_gpu_layers=layers if isinstance(layers, int) else -1,
        n_context=resolved.ctx_size,
        n_predict=resolved.n_predict,
        with_cache=True,
        folder=folder,
    )


def _typed_cases(cases: Sequence[EditCase], n_cases: int, n_keys: int, seed: int) -> list[EditCase]:
    """Draw cases and cut them; shorter ones only where there are no others.

    Each case begins with a jump, and short ones would make jumps of most requests.
    """
    long_enough = [case for case in cases if len(case.typed) >= n_keys]
    return [
        dataclasses.replace(case, typed=case.typed[:n_keys])
        for case in drawn_cases(long_enough or cases, n_cases, seed)
    ]


def _type_all(
    report: _Report,
    comparison: Comparison,
    peers: Sequence[Peer],
    cases: Sequence[EditCase],
    *,
    forgetting: bool,
) -> None:
    """Type the cases, and half of them once more with no side remembering."""
    if cases:
        _type(report, comparison, peers, cases, _WITH)
    if cases and forgetting:
        without = dataclasses.replace(comparison.options, with_cache=False)
        forgetful = dataclasses.replace(comparison, options=without)
        _type(report, forgetful, peers, cases[: (len(cases) + 1) // 2], _WITHOUT)


def _type(
    report: _Report,
    comparison: Comparison,
    peers: Sequence[Peer],
    cases: Sequence[EditCase],
    title: str,
) -> None:
    n_chars = sum(len(case.typed) for case in cases)
    with _progress(report.console) as progress:
        task = progress.add_task("Typing", total=n_chars * len(peers) * comparison.n_rounds)
        runs = type_to_all(
            peers,
            comparison.options,
            cases,
            n_rounds=comparison.n_rounds,
            seed=comparison.seed,
            progress=lambda label, n: progress.update(task, description=label, advance=n),
        )
    figures = report.typed[title] = typed_figures(runs)
    report.say(typed_table(f"Typed, {title}: {len(cases)} cases, {n_chars} characters", figures))
    report.say(typed_ratio_table("speclsp / the others", figures))
    for line in why_not_lines(figures):
        report.say(line)
    report.say(_TYPED_CAPTION)


def _decode(report: _Report, comparison: Comparison, peers: Sequence[Peer]) -> dict[str, int]:
    """Compare decoding; returns the target's layers per device."""
    with loaded_models(comparison.settings) as (words, weights):
        if not comparison.n_places:
            return weights.layers
        with _progress(report.console) as progress:
            task = progress.add_task("Decoding", total=None)

            def advance(label: str, n_turns: int) -> None:
                progress.update(task, description=label, total=n_turns, advance=1)

            runs = decode_tasks(comparison, peers, words, weights, advance)
        for kind, found in runs.items():
            decoded = decoded_figures(kind, found)
            report.decoded.append(decoded)
            report.say(decoded_table(decoded))
            report.say(decoded_ratio_table(decoded))
            for line in why_not_lines(decoded.sides):
                report.say(line)
        report.say(_DECODED_CAPTION)
        return weights.layers


def _write(
    report: _Report,
    options: dict[str, Any],
    json_path: Path | None,
    plot_path: Path | None,
    record_folder: Path | None,
) -> None:
    found = comparison_object(
        options, report.machine, report.remarks, report.typed, report.decoded, report.aims
    )
    figures = json.dumps(found, indent=1) + "\n"
    chart = comparison_chart(report.typed.get(_WITH, []), report.decoded, report.remarks)
    if json_path is not None:
        write_text(json_path, figures)
    if plot_path is not None:
        write_text(plot_path, chart)
    if record_folder is not None:
        day = dt.datetime.now(tz=dt.UTC).date().isoformat()
        stem = f"peers-{day}-{Path(options['model']).stem}"
        write_text(record_folder / f"{stem}.txt", report.copy.export_text())
        write_text(record_folder / f"{stem}.json", figures)
        write_text(record_folder / f"{stem}.svg", chart)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=_SPEED_OVER_S,
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a request to terminate end the processes that were started, as Ctrl-C does."""
    former = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
