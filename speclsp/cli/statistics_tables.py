"""A session's statistics as tables for the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from speclsp.decoding.speedup import expected_speedup, measured_speedup, tokens_per_pass
from speclsp.request import SessionStats


def statistics_tables(stats: SessionStats) -> list[Table]:
    """Return the tables: drafters, session, time per stage."""
    return [drafter_table(stats), session_table(stats), stage_table(stats)]


def drafter_table(stats: SessionStats) -> Table:
    """Return what each drafter proposed and what became of it."""
    table = _table("Drafters")
    table.add_column("drafter", no_wrap=True)
    for header in (
        "drafts",
        "drafted tokens",
        "accepted tokens",
        "acceptance rate",
        "mean acceptance length",
    ):
        table.add_column(header, justify="right")
    for name, drafter in stats.totals.drafters.items():
        table.add_row(
            name,
            str(drafter.n_drafts),
            str(drafter.n_drafted),
            str(drafter.n_accepted),
            f"{drafter.acceptance_rate:.0%}",
            f"{drafter.mean_acceptance_length:.2f}",
        )
    return table


def session_table(stats: SessionStats) -> Table:
    """Return the sums over the session."""
    totals = stats.totals
    n_reused = totals.n_prompt - totals.n_prompt_evaluated
    share = n_reused / totals.n_prompt if totals.n_prompt else 0.0
    layers = ", ".join(f"{n} on {device}" for device, n in stats.layers.items())
    rows = {
        "model": stats.model + (f", layers: {layers}" if layers else ""),
        "draft model": stats.draft_model or "none",
        "tokens per target pass": (
            f"{tokens_per_pass(totals):.2f} "
            f"({totals.n_predicted} tokens, {totals.n_target_passes} passes)"
        ),
        "draft tokens accepted": f"{totals.n_accepted} of {totals.n_drafted}",
        "speed-up, expected": _times(expected_speedup(totals)),
        "speed-up, measured": _times(measured_speedup(totals)),
        "prompt tokens": (
            f"{totals.n_prompt_evaluated} evaluated, {n_reused} reused ({share:.0%})"
        ),
        "requests": (
            f"{stats.n_requests}, {stats.n_completions} with text, "
            f"{stats.n_accepted_items} accepted ({stats.n_chars_accepted} characters)"
        ),
    }
    table = _table("Session")
    table.add_column("what")
    table.add_column("figure")
    table.show_header = False
    for what, figure in rows.items():
        table.add_row(what, figure)
    return table


def stage_table(stats: SessionStats) -> Table:
    """Return the time that each stage of a request takes."""
    table = _table("Milliseconds per request")
    table.add_column("stage")
    for header in ("p50", "p95", "requests"):
        table.add_column(header, justify="right")
    for stage, latency in stats.latency.items():
        table.add_row(stage, f"{latency.p50:.1f}", f"{latency.p95:.1f}", str(latency.n))
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)


def _times(speedup: float | None) -> str:
    return "not measured" if speedup is None else f"{speedup:.2f}×"
