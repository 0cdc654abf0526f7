"""``python -m benchmarks remote``: one llama-server, asked by speclsp and by llama.vim's logic.

Each side has a llama-server of its own with the same flags, and the same edits are typed to both in
rounds.  speclsp is measured twice: with a GGUF of the model named, so that it sends token ids, and
without, so that it sends text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.askers import server_asker
from benchmarks.cases import load_cases
from benchmarks.figures import Column, Figures, figures_of, why_not_lines
from benchmarks.peers.comparison import peer_options
from benchmarks.peers.contract import Peer, PeerOptions, PeerSession
from benchmarks.peers.llama_server import llama_server, llama_server_peers
from benchmarks.peers.own import LONGEST_PAUSE_S, OwnSession, own_settings
from benchmarks.peers.typed_rounds import (
    TypedRound,
    case_lines,
    type_with_progress,
    typed_rounds,
    typed_runs_of,
)
from benchmarks.report import Report, ended_by_signals
from benchmarks.tables import Table
from speclsp.settings import Settings

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

    @contextmanager
    def open(self, options: PeerOptions) -> Iterator[PeerSession]:
        """Start a llama-server and a server of ours that asks it."""
        command = _PLAIN.command(options)
        log = options.folder / f"{self.name.replace(' ', '-')}.log"
        with llama_server(command, log) as server:
            settings = dataclasses.replace(
                own_settings(self.settings, options),
                engine_url=server.address,
                model=str(options.model) if self.sends_ids else "",
            )
            with server_asker(settings, longest_rest_s=LONGEST_PAUSE_S) as asker:
                yield OwnSession(asker)


def _per_key(n_tokens: int, one: TypedRound) -> float:
    return n_tokens / max(1, one.counts.n_requests)


def _in_all(one: TypedRound) -> int:
    counts = one.counts
    return counts.n_evaluated + counts.n_idle_evaluated + counts.n_prefetch_evaluated


def _lost(one: TypedRound) -> int:
    return one.own_work.n_failed + one.own_work.n_cancelled


_COLUMNS: Final[tuple[Column[TypedRound], ...]] = (
    Column("evaluated", "prompt tokens per key", lambda one: _per_key(one.counts.n_evaluated, one)),
    Column(
        "evaluated_in_all",
        "… with idle time and requests ahead",
        lambda one: _per_key(_in_all(one), one),
    ),
    Column("ms_p50", "from key to answer, ms, p50", lambda one: one.counts.ms["all"].p50),
    Column("ms_p95", "from key to answer, ms, p95", lambda one: one.counts.ms["all"].p95),
    Column("keys", "keys", lambda one: one.counts.n_requests, "", 0),
    Column("shown", "keys with a suggestion", lambda one: one.counts.n_shown, "", 0),
    Column(
        "taken", "characters taken from suggestions", lambda one: one.session.n_chars_taken, "", 0
    ),
    Column("lost", "answers lost", _lost, "", 0),
)


def remote_table(sides: Sequence[Figures]) -> Table:
    """Return the median over the rounds for each side, and ours as a share of the last one's."""
    shown = [side for side in sides if side.n_rounds]
    table = Table("Median over the rounds", ("", *(side.name for side in shown), "ratios"))
    for column in _COLUMNS:
        medians = [side.median(column.name) for side in shown]
        *ours, last = medians
        ratios = ", ".join(f"{one / last:.2f}" for one in ours if one is not None) if last else ""
        table.add(column.header, *map(column.text, medians), ratios)
    return table


def run(
    settings: Settings,
    *,
    cases_path: Path,
    llama_server: Path,
    n_rounds: int,
    n_cases: int,
    n_keys: int,
    replay_seed: int,
) -> Report:
    """Type to a llama-server through speclsp and through llama.vim's logic."""
    peers: list[Peer] = [
        RemotePeer("speclsp, token ids", settings, sends_ids=True),
        RemotePeer("speclsp, text", settings, sends_ids=False),
        _PLAIN,
    ]
    rounds = typed_rounds(
        load_cases(cases_path), n_rounds=n_rounds, n_cases=n_cases, n_keys=n_keys, seed=replay_seed
    )
    with TemporaryDirectory() as folder, ended_by_signals():
        given = peer_options(settings, llama_server, None, Path(folder))
        runs = typed_runs_of(peers, given)
        type_with_progress(runs, peers, given, rounds, replay_seed)
    sides = [figures_of(run.name, _COLUMNS, run.rounds, run.why_not) for run in runs]
    said = [*case_lines(rounds, n_cases, n_keys), *why_not_lines(sides)]
    return Report([*said, remote_table(sides)], sides)
