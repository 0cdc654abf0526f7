"""``python -m benchmarks remote``: one llama-server, asked by speclsp and by llama.vim's logic.

Each side has a llama-server of its own with the same flags, and the same edits are typed to both in
rounds.  speclsp is measured twice: with a GGUF of the model named, so that it sends token ids, and
without, so that it sends text.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from benchmarks.askers import Asker, ServerAsker, server_asker
from benchmarks.cases import load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.machine import print_remarks
from benchmarks.output_file import write_text
from benchmarks.peers.command import ended_by_signals, peer_options
from benchmarks.peers.contract import Peer, PeerOptions, PeerSession
from benchmarks.peers.llama_server import LlamaServer, llama_server, llama_server_peers
from benchmarks.peers.own import own_settings
from benchmarks.peers.typed_rounds import (
    PeerRun,
    TypedRound,
    TypingPlan,
    all_of,
    case_lines,
    type_to_all,
    typed_rounds,
    typed_runs_of,
)
from benchmarks.progress import RunProgress
from benchmarks.tables import Table
from speclsp.cli.options import OutputFile, SettingsCommand, given_settings
from speclsp.settings import Settings

_LONGEST_SESSION_S: Final = 600.0
_KEY_S: Final = 5.0
_PLAIN: Final = llama_server_peers()[0]


@dataclass(frozen=True, slots=True)
class RemotePeer:
    """speclsp with a llama-server as its remote engine; see :class:`~benchmarks.peers.contract`."""

    name: str
    settings: Settings
    sends_ids: bool
    """Whether the model's GGUF is named, for its vocabulary."""

    def why_not(self, options: PeerOptions) -> str | None:
        """Return what is missing."""
        return _PLAIN.why_not(options)

    def open(self, options: PeerOptions) -> AbstractContextManager[PeerSession]:
        """Start a llama-server and a server of ours that asks it."""
        return self._open(options)

    @contextmanager
    def _open(self, options: PeerOptions) -> Iterator[PeerSession]:
        command = _PLAIN.command(options)
        log = options.folder / f"{self.name.replace(' ', '-')}.log"
        with llama_server(command, log) as server:
            settings = dataclasses.replace(
                own_settings(self.settings, options),
                engine_url=server.address,
                model=str(options.model) if self.sends_ids else "",
            )
            with server_asker(settings) as asker:
                yield RemoteSession(asker, server)


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """Both servers, running."""

    server: ServerAsker
    engine: LlamaServer

    @property
    def asker(self) -> Asker:
        """Asks over stdio."""
        return self.server

    def resident_mib(self) -> float:
        """Return the llama-server's resident memory."""
        return self.engine.resident_mib()

    def host_ms_per_step(self) -> float | None:
        """Return None: the steps are llama-server's."""
        return None


_ROWS: Final[tuple[tuple[str, str, Callable[[TypedRound], float]], ...]] = (
    (
        "prompt tokens per key",
        ".1f",
        lambda one: one.counts.n_evaluated / max(1, one.counts.n_requests),
    ),
    (
        "… with idle time and requests ahead",
        ".1f",
        lambda one: (
            (one.counts.n_evaluated + one.counts.n_idle_evaluated + one.counts.n_prefetch_evaluated)
            / max(1, one.counts.n_requests)
        ),
    ),
    ("from key to answer, ms, p50", ".1f", lambda one: one.counts.ms["all"].p50),
    ("from key to answer, ms, p95", ".1f", lambda one: one.counts.ms["all"].p95),
    ("keys", ".0f", lambda one: float(one.counts.n_requests)),
    ("keys with a suggestion", ".0f", lambda one: float(one.counts.n_shown)),
    ("characters taken from suggestions", ".0f", lambda one: float(one.session.n_chars_taken)),
    ("answers lost", ".0f", lambda one: float(one.own_work.n_failed + one.own_work.n_cancelled)),
)


def remote_table(runs: Sequence[PeerRun]) -> Table:
    """Return the median over the rounds for each side, and ours as a share of the last one's."""
    sides = [run for run in runs if run.rounds]
    table = Table("Median over the rounds", ("", *(run.name for run in sides), "ratios"))
    for name, form, value in _ROWS:
        medians = [statistics.median(map(value, run.rounds)) for run in sides]
        last = medians[-1]
        ratios = ", ".join(f"{one / last:.2f}" for one in medians[:-1]) if last else ""
        table.add(name, *(format(one, form) for one in medians), ratios)
    return table


@click.command("remote", cls=SettingsCommand)
@CASES
@click.option(
    "--llama-server", "llama_server_path", required=True,
    type=click.Path(exists=True, dir_okay=False, executable=True, path_type=Path),
    help="The llama-server to ask; tools/peers/build_llama_server.sh builds one.",
)  # fmt: skip
@click.option(
    "--rounds", "n_rounds", type=click.IntRange(min=1), default=3, show_default=True,
    help="Rounds, all sides taking turns in each.",
)  # fmt: skip
@click.option(
    "--n-cases", "n_cases", type=click.IntRange(min=1), default=2, show_default=True,
    help="Cases to type in each round.",
)  # fmt: skip
@click.option(
    "--keys", "n_keys", type=click.IntRange(min=1), default=20, show_default=True,
    help="Characters to type of each case.",
)  # fmt: skip
@REPLAY_SEED
@click.option("--json", "json_path", type=OutputFile(), help="Write the figures to a file.")
def remote_command(
    cases_path: Path,
    llama_server_path: Path,
    n_rounds: int,
    n_cases: int,
    n_keys: int,
    replay_seed: int,
    json_path: Path | None,
    **options: Any,
) -> None:
    """Type to a llama-server through speclsp and through llama.vim's logic, on CASES."""
    settings = given_settings(options)
    print_remarks(settings)
    cases = load_cases(cases_path)
    peers: list[Peer] = [
        RemotePeer("speclsp, token ids", settings, sends_ids=True),
        RemotePeer("speclsp, text", settings, sends_ids=False),
        _PLAIN,
    ]
    plan = TypingPlan(
        rounds=typed_rounds(
            cases, n_rounds=n_rounds, n_cases=n_cases, n_keys=n_keys, seed=replay_seed
        ),
        seed=replay_seed,
        longest_s=_LONGEST_SESSION_S,
        key_s=_KEY_S,
        going_on=all_of,
    )
    for line in case_lines(plan.rounds, n_cases, n_keys):
        click.echo(line)
    with TemporaryDirectory() as folder, ended_by_signals():
        given = peer_options(settings, llama_server_path, None, Path(folder))
        runs = typed_runs_of(peers, given)
        with RunProgress() as progress:
            task = progress.add_task("Typing", total=len(peers) * sum(plan.n_chars))

            def advance(label: str, n_chars: int) -> None:
                progress.update(task, description=label, advance=n_chars)

            type_to_all(runs, peers, given, plan, advance)
    for run in runs:
        if run.why_not:
            click.echo(f"{run.name}: {run.why_not}")
    table = remote_table(runs)
    click.echo(str(table))
    if json_path is not None:
        figures = {
            run.name: [{name: value(one) for name, _, value in _ROWS} for one in run.rounds]
            for run in runs
        }
        write_text(json_path, json.dumps(figures, indent=2))
