"""Medians, ratios, and who is best, from rounds."""

from __future__ import annotations

from typing import Literal

import pytest

from speclsp.bench.peers_decoding import Decoded
from speclsp.bench.peers_figures import (
    DECODE_COLUMNS,
    TYPED_COLUMNS,
    Column,
    Figures,
    Spread,
    best_of,
    best_sides,
    figures_of,
    medians_in_all,
    ratios,
    side_named,
    tokens_per_s,
)
from speclsp.bench.peers_typing import TypedRound
from speclsp.bench.typing_counts import Spread as CountSpread
from speclsp.bench.typing_session import TypedSession
from speclsp.request import RequestStats, SessionStats


def column(better: Literal["least", "most", ""], n_digits: int = 1) -> Column[float]:
    return Column(name="x", header="x", value=lambda one: one, better=better, n_digits=n_digits)


def side(name: str, *values: float | None) -> Figures:
    return Figures(name, {"x": values})


def test_a_figure_is_the_rounds_median() -> None:
    found = figures_of("one", [column("least")], [3.0, 1.0, 2.0])
    assert found.spread("x") == Spread(2.0, 1.0, 3.0, 3)
    assert side("two", None, None).median("x") is None
    assert figures_of("three", [column("least")], [1.0], "it fell over.").median("x") is None


def test_the_best_are_those_that_look_best() -> None:
    sides = [side("a", 2.01, 2.0, 2.02), side("b", 1.98), side("c", 2.2), side("d", None)]
    assert best_sides(column("least"), sides) == {"a", "b"}  # both are shown as 2.0
    assert best_sides(column("least", n_digits=2), sides) == {"b"}
    assert best_sides(column("most"), sides) == {"c"}
    assert best_sides(column(""), sides) == set()
    assert best_sides(column("most"), [side("d", None)]) == set()


def test_who_has_a_figure_in_one_table_alone_is_left_out_of_what_shows_all() -> None:
    tables = [[side("a", 1.0, 3.0), side("b", 4.0)], [side("b", None), side("a", 5.0)]]
    assert medians_in_all("x", tables) == {"a": [2.0, 5.0]}
    assert medians_in_all("x", tables[:1]) == {"a": [2.0], "b": [4.0]}
    assert medians_in_all("x", []) == {}


def test_who_did_not_run_is_not_found_by_its_name() -> None:
    sides = [side("a", 1.0), Figures("b", {}, "it fell over.")]
    assert side_named(sides, "a") is sides[0]
    assert side_named(sides, "b") is None


def test_what_is_hypothetical_is_best_of_nothing() -> None:
    sides = [side("a", 1.0), Figures("b", {"x": [9.0]}, is_hypothetical=True)]
    assert best_sides(column("most"), sides) == {"a"}
    assert best_sides(column("most"), sides[1:]) == set()


def test_what_was_cut_short_is_best_of_nothing_and_compared_over_what_both_wrote() -> None:
    cut = Figures("b", {"x": [9.0]}, is_partial=True, pairs={"x": [(2.0, 8.0)]})
    assert best_sides(column("most"), [side("a", 1.0), cut]) == {"a"}
    assert ratios(side("a", 1.0), cut, "x") == Spread(0.25, 0.25, 0.25, 1)
    assert ratios(side("a", 1.0), cut, "y") is None


def test_the_best_one_of_a_column() -> None:
    sides = [side("a", 5.0), side("b", 1.0), side("c", None)]
    least, most = best_of(column("least"), sides), best_of(column("most"), sides)
    assert least is not None
    assert most is not None
    assert (least.name, most.name) == ("b", "a")
    assert best_of(column("least"), [side("c", None)]) is None


def test_ratios_are_taken_round_by_round() -> None:
    ours, theirs = side("ours", 1.0, 2.0, 3.0), side("theirs", 2.0, 2.0, 12.0)
    assert ratios(ours, theirs, "x") == Spread(0.5, 0.25, 1.0, 3)
    assert ratios(ours, side("theirs", 4.0, 0.0, None), "x") == Spread(0.25, 0.25, 0.25, 1)
    assert ratios(ours, side("theirs", 0.0), "x") is None
    assert ratios(ours, Figures("theirs", {}, "it did not start."), "x") is None


def test_decoding_counts_what_comes_behind_the_prompts_last_batch() -> None:
    stats = RequestStats(
        n_predicted=48, n_prefill_predicted=3, n_target_passes=10, n_decode_passes=9,
        n_drafted=50, n_accepted=38, ms_predict=900.0, ms_decode=890.0,
    )  # fmt: skip
    plain = RequestStats(n_predicted=48, n_target_passes=48, n_decode_passes=47, ms_predict=4700.0)
    ours, theirs = (
        figures_of(name, DECODE_COLUMNS, [[Decoded(stats=one, is_same=True)] * 2])
        for name, one in (("ours", stats), ("theirs", plain))
    )
    assert ours.by_round == {
        "tokens_per_s": [pytest.approx(50.0)],
        "tokens_per_pass": [4.8],
        "acceptance": [76.0],
        "drafted": [5.0],
        "host_ms": [pytest.approx(1.0)],
    }
    # A server that does not tell what the prompt's batch gave gave one token by it.
    assert theirs.by_round["tokens_per_s"] == [pytest.approx(10.0)]
    assert theirs.by_round["acceptance"] == [None]
    assert theirs.by_round["host_ms"] == [None]
    assert tokens_per_s(RequestStats(n_predicted=1, ms_predict=0.1), n_requests=1) is None
    assert figures_of("none", DECODE_COLUMNS, [[]]).median("tokens_per_s") is None


def test_a_session_without_a_request_to_the_model_has_no_prompts() -> None:
    empty = TypedRound(
        session=TypedSession(), own_work=SessionStats(), resident_mib=7.0, host_ms=None
    )
    found = figures_of("one", TYPED_COLUMNS, [empty])
    assert empty.counts.ms["all"] == CountSpread()
    assert found.by_round["evaluated"] == found.by_round["tokens_per_s"] == [None]
    assert found.by_round["resident_mib"] == [7.0]
    assert found.by_round["evaluated_per_char"] == [0.0]
