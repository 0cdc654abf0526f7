"""``python -m benchmarks peers``: beside what a user would pick instead."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import click

from benchmarks.cases import load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.machine import remarks
from benchmarks.peers.comparison import (
    LEAST_ROUNDS,
    Comparison,
    ComparisonRecord,
    Destinations,
    check_files,
    chosen_peers,
    without_kinds,
)
from benchmarks.peers.contract import PeerOptions
from benchmarks.peers.figures import without_slower_kinds
from benchmarks.peers.own import own_settings
from benchmarks.peers.typed_rounds import PeerRun, TypingPlan, all_of, case_lines, typed_rounds
from speclsp import settings
from speclsp.cli.options import OutputFile, SettingsCommand, given_settings
from speclsp.embedded import model_files
from speclsp.engine.params import n_threads

_TERMINATED: Final = 143

TypedKinds = Literal["none", "best", "all"]
_GOING_ON: Final[dict[TypedKinds, Callable[[Sequence[PeerRun]], Collection[str]]]] = {
    "none": all_of,
    "best": without_slower_kinds,
    "all": all_of,
}
"""Whom the rounds behind the first are typed to."""

_LEAST_PROMPT = 512
"""Tokens of a prompt beside which the decoded ones have to fit."""


@click.command("peers", cls=SettingsCommand)
@CASES
@click.option(
    "--llama-server", "llama_server",
    type=click.Path(exists=True, dir_okay=False, executable=True, path_type=Path),
    help="The llama-server to compare with; tools/peers/build_llama_server.sh builds one.",
)  # fmt: skip
@click.option(
    "--statistics", "statistics_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="N-gram statistics in llama.cpp's layout (`ngram build --format llama.cpp`).",
)  # fmt: skip
@click.option(
    "--peers", "peer_names", default="",
    help="Compare with these sides only, separated by commas.  [all]",
)  # fmt: skip
@click.option(
    "--rounds", "n_rounds", type=click.IntRange(min=LEAST_ROUNDS), default=LEAST_ROUNDS,
    show_default=True, help="Rounds, all sides taking turns in each.",
)  # fmt: skip
@click.option(
    "--n-cases", "n_cases", type=click.IntRange(min=0), default=2, show_default=True,
    help="Cases to type in each round, of those that are long enough; each round has its own if "
    "there are enough. 0 types none.",
)  # fmt: skip
@click.option(
    "--keys", "n_keys", type=click.IntRange(min=1), default=20, show_default=True,
    help="Characters to type of each case.",
)  # fmt: skip
@click.option(
    "--session-seconds", type=click.IntRange(min=1), default=600, show_default=True,
    help="Cut a side's session in a round short after so many, and compare it over what it wrote.",
)  # fmt: skip
@click.option(
    "--key-seconds", type=click.FloatRange(min=0.01), default=2.0, show_default=True,
    help="Also cut it short when it takes more than so many seconds per key of the session.",
)  # fmt: skip
@click.option(
    "--places", "n_places", type=click.IntRange(min=0), default=2, show_default=True,
    help="Places of each kind in a round where decoding alone is compared; 0 for none.",
)  # fmt: skip
@click.option(
    "--decode-tokens", "n_decoded", type=click.IntRange(min=2), default=48, show_default=True,
    help="Tokens to decode at each place.",
)  # fmt: skip
@click.option(
    "--typed-kinds", type=click.Choice(list(_GOING_ON)), default="none", show_default=True,
    help="Type to llama-server with no kind of speculation but those that --peers names, with all "
    "in the first round and the best in the others, or with all.",
)  # fmt: skip
@click.option(
    "--forgetting/--no-forgetting", default=True, show_default=True,
    help="Type once more, with no side remembering suggestions and one stop rule for all.",
)  # fmt: skip
@REPLAY_SEED
@click.option("--json", "json_path", type=OutputFile(), help="Write the figures to a file.")
@click.option("--plot", "plot_path", type=OutputFile(), help="Write a chart (SVG) to a file.")
@click.option(
    "--record", "record_folder",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    help="Write the tables, the figures and a chart to a folder, with a description of the "
    "machine. The folder is created.",
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
    session_seconds: int,
    key_seconds: float,
    typed_kinds: TypedKinds,
    forgetting: bool,
    replay_seed: int,
    json_path: Path | None,
    plot_path: Path | None,
    record_folder: Path | None,
    **options: Any,
) -> None:
    """Compare with llama-server behind llama.vim and with llama-cpp-python, on CASES."""
    resolved = given_settings(options)
    if not n_cases and not n_places:
        raise click.UsageError("--n-cases 0 and --places 0 leave nothing to compare.")
    if n_places and resolved.ctx_size and n_decoded + _LEAST_PROMPT > resolved.ctx_size:
        raise click.BadParameter(
            f"{n_decoded} tokens behind prompts of {_LEAST_PROMPT} do not fit a context of "
            f"{resolved.ctx_size} (--ctx-size).",
            param_hint="--decode-tokens",
        )
    cases = load_cases(cases_path)
    names = [name.strip() for name in peer_names.split(",") if name.strip()]
    peers = chosen_peers(resolved, names)
    with TemporaryDirectory() as folder, ended_by_signals():
        given = peer_options(resolved, llama_server, statistics_file, Path(folder))
        comparison = Comparison(
            settings=own_settings(resolved, given),
            options=given,
            cases=cases,
            n_rounds=n_rounds,
            seed=replay_seed,
            n_places=n_places,
            n_decoded=n_decoded,
        )
        check_files(comparison)
        plan = TypingPlan(
            rounds=typed_rounds(
                cases, n_rounds=n_rounds, n_cases=n_cases, n_keys=n_keys, seed=replay_seed
            ),
            seed=replay_seed,
            longest_s=session_seconds,
            key_s=key_seconds,
            going_on=_GOING_ON[typed_kinds],
        )
        said = {
            "cases_file": cases_path.name,
            "cases": n_cases,
            "typed_cases": [[case.id for case in typed] for typed in plan.rounds],
            "keys": n_keys,
            "session_seconds": session_seconds,
            "key_seconds": key_seconds,
            "rounds": n_rounds,
            "places": n_places,
            "decode_tokens": n_decoded,
            "typed_kinds": typed_kinds,
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
        record = ComparisonRecord(comparison)
        record.remark([*remarks(resolved), *case_lines(plan.rounds, n_cases, n_keys)])
        to = Destinations(figures=json_path, chart=plot_path, folder=record_folder)
        with record.written_in_the_end(said, to):
            typed_to = without_kinds(peers, names) if typed_kinds == "none" else peers
            record.type_all(typed_to, plan, forgetting=forgetting)
            record.decode(peers)


def peer_options(
    resolved: settings.Settings,
    llama_server: Path | None,
    statistics_file: Path | None,
    folder: Path,
) -> PeerOptions:
    """Return what all sides are given; our own server runs in another folder than this."""
    files = model_files(resolved)
    layers = resolved.n_gpu_layers
    return PeerOptions(
        model=files.target.absolute(),
        draft_model=files.draft and files.draft.absolute(),
        statistics_file=statistics_file and statistics_file.absolute(),
        llama_server=llama_server and llama_server.absolute(),
        n_threads=n_threads(resolved, files.target.stat().st_size)[0],
        n_gpu_layers=layers if isinstance(layers, int) else -1,
        n_context=resolved.ctx_size,
        n_predict=resolved.n_predict,
        with_cache=True,
        one_line=False,
        folder=folder,
    )


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the started processes on SIGTERM, as Ctrl-C does."""
    former = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
