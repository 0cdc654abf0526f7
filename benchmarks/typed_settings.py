"""``python -m benchmarks typing`` and ``speculation``: the same sessions with different settings.

``typing`` counts what keystrokes cost with each layout of the prompt.

``speculation`` compares times with drafts and without.  Each round draws cases, starts both sides
anew in one process and types the cases into each: a burst of keys into the one, the same burst into
the other, so that a machine whose speed drifts slows both.  A ratio is with drafts / without, of
the keystrokes of all rounds together, since the slowest few of one round are a matter of chance;
beside it the range of the rounds' ratios.  Keystrokes count that the model answered: the others
take microseconds on both sides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from benchmarks.askers import local_asker, server_asker
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.figures import (
    Column,
    Percentiles,
    figures_of,
    host_ms_per_step,
    ratios,
    share,
    tokens_per_pass,
    tokens_per_s,
)
from benchmarks.progress import RunProgress
from benchmarks.quality import LAYOUTS
from benchmarks.report import Report, printed_if_ended_early
from benchmarks.tables import Table
from benchmarks.typing_session import (
    STEPS,
    TypedSession,
    TypingCounts,
    count_typing,
    replay_typing,
    typed_bursts,
)
from speclsp.reporting.session import summed
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings

_STEP_NAMES: Final = {
    "line": "within a line",
    "newline": "behind a new line",
    "jump": "behind a jump",
    "all": "all",
}
_SOURCE_NAMES: Final = {
    "model": "the model",
    "memory": "memory",
    "filter": "a filter",
    "all": "all",
}


def typing(
    settings: Settings,
    *,
    cases_path: Path,
    n_cases: int,
    replay_seed: int,
    compare: bool,
    pauses: bool,
    through_server: bool,
) -> Report:
    """Type the cases with each layout of the prompt, and count what that costs."""
    cases = drawn_cases(load_cases(cases_path), n_cases, replay_seed)
    n_chars = sum(len(case.typed) for case in cases)
    others = [layout for layout in LAYOUTS if layout != settings.fim_layout] if compare else []
    counts: dict[str, TypingCounts] = {}
    with RunProgress() as progress:
        for layout in (settings.fim_layout, *others):
            task = progress.add_task(f"Typing, {layout}", total=n_chars)
            make = server_asker if through_server else local_asker
            with make(replace(settings, fim_layout=layout), rests=pauses) as asker:
                session = replay_typing(
                    cases,
                    asker,
                    seed=replay_seed,
                    progress=functools.partial(progress.advance, task),
                )
                counts[layout] = count_typing(session, asker.statistics())
    figures = {
        layout: {
            **asdict(one),
            "memory_share": one.memory_share,
            "evaluated_per_char": one.evaluated_per_char,
        }
        for layout, one in counts.items()
    }
    return Report((prompt_table(counts), latency_table(counts), session_table(counts)), figures)


def prompt_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the prompt tokens evaluated per request that reached the model, by layout."""
    table = Table(
        "Prompt tokens evaluated, of requests that reached the model",
        ("layout", "request", "requests", "median", "mean", "p95", "p99", "most"),
        n_names=2,
    )
    for layout, one in counts.items():
        for step in (*STEPS, "all"):
            found = one.evaluated[step]
            whole = (f"{value:.0f}" for value in (found.p95, found.p99, found.most))
            row = (str(found.n), f"{found.p50:.0f}", f"{found.mean:.1f}", *whole)
            table.add(layout, _STEP_NAMES[step], *row)
    return table


def latency_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the milliseconds from request to answer, by layout and by who answered."""
    headers = ("layout", "answered by", "requests", "p50", "p95", "p99")
    table = Table("Milliseconds from request to answer", headers, n_names=2)
    for layout, one in counts.items():
        for source, found in one.ms.items():
            if found.n:
                row = (f"{found.p50:.1f}", f"{found.p95:.1f}", f"{found.p99:.1f}")
                table.add(layout, _SOURCE_NAMES[source], str(found.n), *row)
    return table


_SESSION_ROWS: Final[tuple[tuple[str, Callable[[TypingCounts], str]], ...]] = (
    ("keys", lambda one: str(one.n_keys)),
    ("suggestions taken", lambda one: str(one.n_takes)),
    ("jumps", lambda one: str(one.n_jumps)),
    ("characters written", lambda one: str(one.n_chars)),
    ("characters saved", lambda one: _part(one.n_chars_saved, one.n_chars)),
    ("requests", lambda one: str(one.n_requests)),
    ("… with a suggestion", lambda one: _part(one.n_shown, one.n_requests)),
    ("… answered from memory", lambda one: _part(one.n_from_memory, one.n_requests)),
    ("… spared by a filter", lambda one: _part(one.n_filtered, one.n_requests)),
    (
        "keys that fit what was shown, from memory",
        lambda one: _part(one.n_fitting_from_memory, one.n_fitting),
    ),
    (
        "requests behind a take of all, from memory",
        lambda one: _part(one.n_after_taking_from_memory, one.n_after_taking),
    ),
    ("target passes", lambda one: str(one.n_target_passes)),
    ("tokens predicted", lambda one: str(one.n_predicted)),
    ("prompt tokens evaluated", lambda one: str(one.n_evaluated)),
    ("… in idle time, beside these", lambda one: str(one.n_idle_evaluated)),
    ("… ahead of a take, beside these", lambda one: str(one.n_prefetch_evaluated)),
    ("… all three, per character", lambda one: f"{one.evaluated_per_char:.1f}"),
    ("tokens predicted ahead of a take", lambda one: str(one.n_prefetch_predicted)),
)


def session_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the sessions' sums, one column per layout."""
    table = Table("The session", ("", *counts))
    for name, value in _SESSION_ROWS:
        table.add(name, *(value(one) for one in counts.values()))
    return table


def _part(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "0"


def speculation(
    settings: Settings,
    *,
    cases_path: Path,
    n_rounds: int,
    n_cases: int,
    n_keys: int,
    pauses: bool,
    replay_seed: int,
) -> Report:
    """Type the cases with speculation and without, and compare what the keystrokes take."""
    cases = load_cases(cases_path)
    seeds = range(replay_seed, replay_seed + n_rounds)
    rounds = [
        [replace(case, typed=case.typed[:n_keys]) for case in drawn_cases(cases, n_cases, seed)]
        for seed in seeds
    ]
    off, on = (replace(settings, speculation=is_on) for is_on in (False, True))
    sessions: list[tuple[TypedSession, TypedSession]] = []

    def table() -> list[Table]:
        return [drafts_table(*_by_side(sessions))] if sessions else []

    with printed_if_ended_early(table), RunProgress() as progress:
        n_chars = 2 * sum(len(case.typed) for drawn in rounds for case in drawn)
        advance = functools.partial(progress.advance, progress.add_task("Typing", total=n_chars))
        for drawn, seed in zip(rounds, seeds, strict=True):
            sessions.append(typed_in_turns(drawn, (off, on), seed, advance, pauses=pauses))
    without, with_drafts = _by_side(sessions)
    figures = {
        "without": figures_of("without", _DRAFT_COLUMNS, without).by_round,
        "with": figures_of("with", _DRAFT_COLUMNS, with_drafts).by_round,
    }
    return Report(table(), figures)


def _by_side(
    sessions: Sequence[tuple[TypedSession, TypedSession]],
) -> tuple[list[TypedSession], list[TypedSession]]:
    return [off for off, _ in sessions], [on for _, on in sessions]


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


def _ms(session: TypedSession) -> list[float]:
    """Return the milliseconds of the keystrokes that the model answered."""
    answers = (request.answer for request in session.requests)
    return [answer.ms for answer in answers if answer.stats.n_target_passes]


def _stats(session: TypedSession) -> RequestStats:
    found = (request.answer.stats for request in session.requests)
    return functools.reduce(summed, found, RequestStats())


def _total_ms(session: TypedSession) -> float:
    return sum(request.answer.ms for request in session.requests)


def _decoding_ms(session: TypedSession, step: str = "") -> float:
    """Return the time behind the prompts, of requests behind one kind of key or of all."""
    found = (one.answer.stats for one in session.requests if not step or one.step == step)
    return sum(stats.ms_predict for stats in found)


def _speed(session: TypedSession) -> float | None:
    return tokens_per_s(_stats(session), n_requests=len(_ms(session)))


def _drafted(stats: RequestStats) -> float | None:
    return share(stats.n_draft_passes, stats.n_target_passes)


def _accepted(stats: RequestStats) -> float | None:
    return share(stats.n_accepted, stats.n_drafted)


_DRAFT_COLUMNS: Final[tuple[Column[TypedSession], ...]] = (
    Column("n_answered", "keystrokes that the model answered", lambda one: len(_ms(one)), "", 0),
    Column("p50", "keystroke p50, ms", lambda one: Percentiles.of(_ms(one)).p50, "least"),
    Column("p95", "keystroke p95, ms", lambda one: Percentiles.of(_ms(one)).p95, "least"),
    Column("total", "all keystrokes, ms", _total_ms, "least", 0),
    Column("decoding", "decoding behind the prompts, ms", _decoding_ms, "least", 0),
    *(
        Column(
            f"decoding_{step}",
            f"… {_STEP_NAMES[step]}, ms",
            functools.partial(_decoding_ms, step=step),
            "least",
            0,
        )
        for step in STEPS
    ),
    Column("tokens_per_s", "tokens/s after the prompt", _speed, "most"),
    Column(
        "tokens_per_pass",
        "tokens per target pass",
        lambda one: tokens_per_pass(_stats(one)),
        "most",
        3,
    ),
    Column("drafted", "share of the passes drafted", lambda one: _drafted(_stats(one)), "", 3),
    Column("acceptance", "draft tokens accepted", lambda one: _accepted(_stats(one)), "", 3),
    Column("host_ms", "host ms per step", lambda one: host_ms_per_step(_stats(one)), "", 3),
)
"""What of them is better has a ratio."""


def drafts_table(without: Sequence[TypedSession], with_drafts: Sequence[TypedSession]) -> Table:
    """Return both sides' figures over all rounds, their ratios, and the range of the rounds'."""
    table = Table(
        f"Typed sessions, {len(without)} rounds",
        ("", "without speculation", "with", "with / without", "least … most"),
    )
    sides = without, with_drafts
    off, on = (figures_of("", _DRAFT_COLUMNS, side) for side in sides)
    all_off, all_on = (figures_of("", _DRAFT_COLUMNS, [_joined(side)]) for side in sides)
    for column in _DRAFT_COLUMNS:
        ratio = ratios(all_on, all_off, column.name) if column.better else None
        rounds = ratios(on, off, column.name)
        table.add(
            column.header,
            *(column.text(side.median(column.name)) for side in (all_off, all_on)),
            f"{ratio.median:.3f}" if ratio else "",
            f"{rounds.least:.3f} … {rounds.most:.3f}" if ratio and rounds else "",
        )
    return table


def _joined(sessions: Sequence[TypedSession]) -> TypedSession:
    """Return the requests of all sessions as one."""
    return TypedSession(requests=[one for session in sessions for one in session.requests])
