"""The columns of a comparison's tables: of a typed session, and of decoding alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final, Literal

from benchmarks.host_share import host_ms_per_step
from benchmarks.peers_decoding import Decoded
from benchmarks.peers_figures import Column
from benchmarks.peers_typing import TypedRound
from speclsp.decoding.session import summed
from speclsp.request import RequestStats


def _ms(share: Literal["p50", "p95", "p99"]) -> Callable[[TypedRound], float | None]:
    return lambda one: getattr(one.counts.ms["all"], share)


TYPED_COLUMNS: Final[tuple[Column[TypedRound], ...]] = (
    Column(name="ms_p50", header="p50 ms", value=_ms("p50"), better="least"),
    Column(name="ms_p95", header="p95 ms", value=_ms("p95"), better="least"),
    Column(name="ms_p99", header="p99 ms", value=_ms("p99"), better="least"),
    Column(
        name="shown",
        header="shown %",
        value=lambda one: 100 * one.counts.n_shown / max(1, one.counts.n_requests),
        better="most",
        n_digits=0,
    ),
    Column(
        name="evaluated",
        header="prompt tokens",
        value=lambda one: one.counts.evaluated["all"].mean if _n_asked(one) else None,
        better="least",
    ),
    Column(
        name="evaluated_per_char",
        header="evaluated per char",
        value=lambda one: one.counts.evaluated_per_char,
        better="least",
        of_whole=True,
    ),
    Column(
        name="tokens_per_pass",
        header="tokens/pass",
        value=lambda one: tokens_per_pass(one.stats),
        better="most",
        n_digits=2,
    ),
    Column(
        name="acceptance",
        header="accepted %",
        value=lambda one: acceptance(one.stats),
        better="most",
    ),
    Column(
        name="tokens_per_s",
        header="tokens/s",
        value=lambda one: tokens_per_s(one.stats, n_requests=_n_asked(one)),
        better="most",
    ),
    Column(
        name="host_ms",
        header="host ms/step",
        value=lambda one: one.host_ms,
        better="least",
        n_digits=2,
        of_whole=True,
    ),
    Column(
        name="chars_saved",
        header="saved %",
        value=lambda one: 100 * one.counts.n_chars_saved / max(1, one.counts.n_chars),
        better="most",
    ),
    Column(
        name="resident_mib",
        header="MiB",
        value=lambda one: one.resident_mib,
        better="least",
        n_digits=0,
        of_whole=True,
    ),
)
"""Of a session; the first three are keystroke to answer."""


def _n_asked(one: TypedRound) -> int:
    return one.counts.evaluated["all"].n


def summed_stats(answers: Sequence[Decoded]) -> RequestStats:
    """Return the sums over a round's answers."""
    return functools.reduce(summed, (one.stats for one in answers), RequestStats())


DECODE_COLUMNS: Final[tuple[Column[Sequence[Decoded]], ...]] = (
    Column(
        name="tokens_per_s",
        header="tokens/s",
        value=lambda one: tokens_per_s(summed_stats(one), n_requests=len(one)),
        better="most",
    ),
    Column(
        name="tokens_per_pass",
        header="tokens/pass",
        value=lambda one: tokens_per_pass(summed_stats(one)),
        better="most",
        n_digits=2,
    ),
    Column(
        name="acceptance",
        header="accepted %",
        value=lambda one: acceptance(summed_stats(one)),
        better="most",
    ),
    Column(
        name="drafted",
        header="drafted/pass",
        value=lambda one: _share(summed_stats(one).n_drafted, summed_stats(one).n_target_passes),
        n_digits=2,
    ),
    Column(
        name="host_ms",
        header="host ms/step",
        value=lambda one: host_ms_per_step(summed_stats(one)),
        better="least",
        n_digits=2,
    ),
)


def tokens_per_s(stats: RequestStats, *, n_requests: int) -> float | None:
    """Return the tokens behind the prompt's last pass by the time behind it."""
    n_first = max(stats.n_prefill_predicted, min(n_requests, stats.n_predicted))
    n_tokens = stats.n_predicted - n_first
    return 1000 * n_tokens / stats.ms_predict if stats.ms_predict > 0.0 and n_tokens else None


def tokens_per_pass(stats: RequestStats) -> float | None:
    """Return the tokens that a target pass gave."""
    return _share(stats.n_predicted, stats.n_target_passes)


def acceptance(stats: RequestStats) -> float | None:
    """Return the per cent of the drafted tokens that were right; None where none were drafted."""
    share = _share(stats.n_accepted, stats.n_drafted)
    return None if share is None else 100 * share


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
