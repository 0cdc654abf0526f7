"""``python -m benchmarks speculation``: typed sessions with drafts and without, in turns.

Each round draws cases, starts both sides anew in one process and types the cases into each: a
burst of keys into the one, the same burst into the other, so that a machine whose speed drifts
slows both.  A ratio is with drafts / without, of the keystrokes of all rounds together, since the
slowest few of one round are a matter of chance; beside it the range of the rounds' ratios.
Keystrokes count that the model answered: the others take microseconds on both sides.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from benchmarks.askers import local_asker
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.machine import print_remarks
from benchmarks.output_file import write_text
from benchmarks.peers.contract import host_ms_per_step
from benchmarks.peers.figures import tokens_per_s
from benchmarks.progress import RunProgress
from benchmarks.tables import Table
from benchmarks.typing_session import TypedSession, typed_bursts
from speclsp.cli.options import OutputFile, SettingsCommand, given_settings
from speclsp.decoding.session import summed
from speclsp.request import RequestStats
from speclsp.settings import Settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """One side's session of one round; times in milliseconds."""

    n_answered: int
    """Keystrokes that the model answered."""
    p50: float
    p95: float
    total: float
    """All keystrokes together."""
    tokens_per_s: float
    """Tokens predicted in the time from the end of the prompt on."""
    tokens_per_pass: float
    drafted: float
    """Share of the target passes that verified a draft."""
    acceptance: float
    """Accepted of the draft tokens."""
    host_ms: float
    """Per step, outside llama.cpp."""


_ROWS: Final[tuple[tuple[str, str, str, bool], ...]] = (
    ("keystrokes that the model answered", "n_answered", ".0f", False),
    ("keystroke p50, ms", "p50", ".1f", True),
    ("keystroke p95, ms", "p95", ".1f", True),
    ("all keystrokes, ms", "total", ".0f", True),
    ("tokens/s after the prompt", "tokens_per_s", ".1f", True),
    ("tokens per target pass", "tokens_per_pass", ".3f", True),
    ("share of the passes drafted", "drafted", ".3f", False),
    ("draft tokens accepted", "acceptance", ".3f", False),
    ("host ms per step", "host_ms", ".3f", False),
)


def figures_of(*sessions: TypedSession) -> SessionFigures:
    """Return the figures of all requests of some sessions."""
    answers = [request.answer for session in sessions for request in session.requests]
    ms = [answer.ms for answer in answers if answer.stats.n_target_passes]
    stats = functools.reduce(summed, (answer.stats for answer in answers), RequestStats())
    p50, p95 = np.percentile(ms, [50, 95]).tolist() if ms else (0.0, 0.0)
    return SessionFigures(
        n_answered=len(ms),
        p50=p50,
        p95=p95,
        total=sum(answer.ms for answer in answers),
        tokens_per_s=tokens_per_s(stats, n_requests=len(ms)) or 0.0,
        tokens_per_pass=stats.n_predicted / max(1, stats.n_target_passes),
        drafted=stats.n_draft_passes / max(1, stats.n_target_passes),
        acceptance=stats.n_accepted / max(1, stats.n_drafted),
        host_ms=host_ms_per_step(stats) or 0.0,
    )


def rounds_table(without: Sequence[TypedSession], with_drafts: Sequence[TypedSession]) -> Table:
    """Return both sides' figures over all rounds, their ratios, and the range of the rounds'."""
    table = Table(
        f"Typed sessions, {len(without)} rounds",
        ("", "without speculation", "with", "with / without", "least … most"),
    )
    off, on = figures_of(*without), figures_of(*with_drafts)
    rounds = [(figures_of(a), figures_of(b)) for a, b in zip(without, with_drafts, strict=True)]
    for label, name, form, has_ratio in _ROWS:
        ratios = [_ratio(a, b, name) for a, b in ((off, on), *rounds)] if has_ratio else []
        table.add(
            label,
            format(getattr(off, name), form),
            format(getattr(on, name), form),
            f"{ratios[0]:.3f}" if ratios else "",
            f"{min(ratios[1:]):.3f} … {max(ratios[1:]):.3f}" if ratios else "",
        )
    return table


def _ratio(off: SessionFigures, on: SessionFigures, name: str) -> float:
    """Return one figure with drafts / without; NaN where that is 0."""
    divisor: float = getattr(off, name)
    return getattr(on, name) / divisor if divisor else math.nan


def typed_in_turns(
    cases: Sequence[EditCase],
    sides: tuple[Settings, Settings],
    seed: int,
    progress: Callable[[int], None],
    *,
    pauses: bool,
) -> tuple[TypedSession, TypedSession]:
    """Type the cases into two completers that know nothing yet, burst by burst in turns."""
    sessions = TypedSession(), TypedSession()
    with ExitStack() as stack:
        askers = [stack.enter_context(local_asker(side, rests=pauses)) for side in sides]
        waiting = [
            (asker, typed_bursts(cases, asker, session, seed=seed))
            for asker, session in zip(askers, sessions, strict=True)
        ]
        while waiting:
            for turn in list(waiting):
                asker, bursts = turn
                n_chars = next(bursts, None)
                if n_chars is None:
                    waiting.remove(turn)
                    continue
                progress(n_chars)
                asker.finish()  # or its idle work would slow the other's keys
            waiting.reverse()
    return sessions


@click.command("speculation", cls=SettingsCommand)
@CASES
@click.option(
    "--rounds", "n_rounds", type=click.IntRange(min=1), default=5, show_default=True,
    help="Rounds, each with both sides in turns.",
)  # fmt: skip
@click.option(
    "--n-cases", type=click.IntRange(min=1), default=12, show_default=True,
    help="Number of cases of a round, drawn evenly.",
)  # fmt: skip
@click.option(
    "--keys", "n_keys", type=click.IntRange(min=1), default=20, show_default=True,
    help="Most characters to type of each case.",
)  # fmt: skip
@click.option(
    "--pauses/--no-pauses", default=True, show_default=True,
    help="Wait for idle work between two keys, as at a human's speed.",
)  # fmt: skip
@REPLAY_SEED
@click.option("--json", "json_path", type=OutputFile(), help="Write the figures to a file.")
def speculation_command(
    cases_path: Path,
    n_rounds: int,
    n_cases: int,
    n_keys: int,
    pauses: bool,
    replay_seed: int,
    json_path: Path | None,
    **options: Any,
) -> None:
    """Type CASES with speculation and without, and compare what the keystrokes take."""
    resolved = given_settings(options)
    all_cases = load_cases(cases_path)
    seeds = range(replay_seed, replay_seed + n_rounds)
    rounds = [
        [
            dataclasses.replace(case, typed=case.typed[:n_keys])
            for case in drawn_cases(all_cases, n_cases, seed)
        ]
        for seed in seeds
    ]
    off, on = (dataclasses.replace(resolved, speculation=is_on) for is_on in (False, True))
    sessions: list[list[TypedSession]] = [[], []]
    n_chars = 2 * sum(len(case.typed) for cases in rounds for case in cases)
    with RunProgress() as progress:
        task = progress.add_task("Typing", total=n_chars)
        for cases, seed in zip(rounds, seeds, strict=True):
            one_round = typed_in_turns(
                cases, (off, on), seed, lambda n: progress.advance(task, n), pauses=pauses
            )
            for of_side, one in zip(sessions, one_round, strict=True):
                of_side.append(one)
    print_remarks(resolved)
    click.echo(rounds_table(*sessions))
    if json_path is not None:
        given = {"cases": len(rounds[0]), "keys": n_keys, "seed": replay_seed, "rounds": n_rounds}
        sides_object = {
            name: [dataclasses.asdict(figures_of(one)) for one in of_side]
            for name, of_side in zip(("without", "with"), sessions, strict=True)
        }
        write_text(json_path, json.dumps({"options": given, **sides_object}, indent=2) + "\n")
