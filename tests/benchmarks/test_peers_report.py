"""A comparison as tables, aims, JSON and a chart."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.peers_aims import ON_CPU, ON_GPU, aim_lines
from benchmarks.peers_decoding import OURS_HUMAN, Decoded, DecodeRun
from benchmarks.peers_figures import Figures
from benchmarks.peers_own import OURS, OURS_PLAIN
from benchmarks.peers_report import (
    comparison_chart,
    comparison_object,
    decoded_figures,
    decoded_ratio_table,
    decoded_table,
    typed_ratio_table,
    typed_table,
    why_not_lines,
)
from speclsp.request import RequestStats


def typed_side(name: str, *p50: float) -> Figures:
    return Figures(name, {"ms_p50": p50, "ms_p95": [2 * ms for ms in p50], "chars_saved": [5.0]})


def run(name: str, *tokens_per_s: float, is_same: bool = True, says_own: bool = True) -> DecodeRun:
    """Return a side that decodes so fast in each round, and spends 0.2 ms outside llama_decode."""
    rounds = [
        [
            Decoded(
                stats=RequestStats(
                    n_predicted=11, n_prefill_predicted=1, n_target_passes=11, n_decode_passes=10,
                    ms_predict=10_000 / speed, ms_decode=10_000 / speed - 2.2,
                ),
                is_same=is_same,
            )
        ]
        for speed in tokens_per_s
    ]  # fmt: skip
    return DecodeRun(name, says_own, rounds)


TYPED = [
    typed_side(OURS, 10.0, 20.0, 30.0),
    typed_side("llama-server", 100.0, 100.0, 100.0),
    typed_side("llama-server draft", 300.0, 300.0, 300.0),
    typed_side("llama-cpp-python", 1.0, 1.0, 1.0),
    Figures("llama-server ngram-cache", {}, "no statistics file is given."),
]
DECODED = [
    decoded_figures(
        "cases",
        [
            run(OURS, 44.0, 44.0),
            run(OURS_PLAIN, 20.0, 20.0),
            run("llama-server", 20.0, 22.0),
            run("llama-server draft", 40.0, 40.0, is_same=False),
        ],
    ),
    decoded_figures(
        "edits",
        [
            run(OURS, 25.0, 25.0),
            run(OURS_HUMAN, 50.0, 50.0, says_own=False),
            run("llama-server", 20.0, 20.0),
        ],
    ),
]


def shown(table: Table) -> str:
    console = Console(file=io.StringIO(), record=True, width=240)
    console.print(table)
    return console.export_text()


def row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_best_of_each_column_is_marked_whoever_it_is() -> None:
    text = shown(typed_table("Typed", TYPED))
    assert row(text, "speclsp")[1:3] == ["20.0", "40.0"]
    assert row(text, "llama-cpp-python")[1:3] == ["1.0 *", "2.0 *"]
    assert set(row(text, "llama-server ngram-cache")[1:]) == {"–"}
    assert why_not_lines(TYPED) == [
        "llama-server ngram-cache did not run: no statistics file is given."
    ]


def test_ratios_have_their_spread_and_leave_out_who_did_not_run() -> None:
    text = shown(typed_ratio_table("Ratios", TYPED))
    assert row(text, "llama-server")[1] == "0.20 (0.10 … 0.30)"
    # Three rounds were run, and one has this figure.
    assert row(text, "llama-server")[-2] == "1.00 n=1"
    assert "ngram-cache" not in text


def test_texts_that_are_the_same_are_counted() -> None:
    text = shown(decoded_table(DECODED[0]))
    assert row(text, "speclsp")[1] == "44.0 *"
    assert row(text, "speclsp")[-1] == "2 of 2"
    assert row(text, "llama-server draft")[-1] == "0 of 2"
    assert row(shown(decoded_ratio_table(DECODED[0])), "llama-server")[1] == "2.10 (2.00 … 2.20)"


def test_nobody_competes_with_the_humans_text() -> None:
    text = shown(decoded_table(DECODED[1]))
    human = row(text, OURS_HUMAN)
    assert (human[1], human[-1]) == ("50.0", "–")
    assert row(text, OURS)[1] == "25.0 *"
    assert f"{OURS_HUMAN} is not marked, since no other side" in text
    assert "is not marked" not in shown(decoded_table(DECODED[0]))
    sides = comparison_object({}, [], [], {}, DECODED, [])["decoding"]["edits"]["sides"]
    assert [(side["is_hypothetical"], side["best_in"] == []) for side in sides] == [
        (False, False), (True, True), (False, False),
    ]  # fmt: skip
    assert OURS_HUMAN not in comparison_chart([], DECODED[1:], [])


def test_aims_are_held_against_the_best_llama_server() -> None:
    assert aim_lines(ON_CPU, TYPED, DECODED) == [
        "key to answer, p50: speclsp / llama-server = 0.20 (0.10 … 0.30; aim ≤ 0.2: reached)",
        "key to answer, p95: speclsp / llama-server = 0.20 (0.10 … 0.30; aim ≤ 0.5: reached)",
        (
            "tokens per second, cases: speclsp / llama-server draft"
            " = 1.10 (1.10 … 1.10; aim ≥ 1.1: reached)"
        ),
        "host ms per step, cases: 0.20 (aim ≤ 0.3: reached)",
        "tokens per second, edits: speclsp / llama-server = 1.25 (1.25 … 1.25; aim ≥ 1.5: missed)",
        (
            "tokens per second, edits as the human wrote them: speclsp, the human's text"
            " / llama-server = 2.50 (2.50 … 2.50; aim ≥ 1.5: reached)"
            " (hypothetical: the human's text)"
        ),
        "host ms per step, edits: 0.20 (aim ≤ 0.3: reached)",
    ]


def test_a_gpu_has_aims_of_its_own() -> None:
    lines = aim_lines(ON_GPU, TYPED, DECODED[:1])
    assert [line.partition("aim ")[2] for line in lines] == [
        "≤ 0.5: reached)", "≥ 1.5: missed)", "≥ 2: reached)", "≤ 0.3: reached)",
    ]  # fmt: skip


def test_an_aim_says_who_was_not_typed_to_and_of_how_few_rounds_it_is() -> None:
    server = Figures("llama-server", {"ms_p50": [50.0, None, None]})
    (line,) = aim_lines(ON_CPU, [TYPED[0], server, TYPED[4]], [])
    assert line == (
        "key to answer, p50: speclsp / llama-server = 0.20 (0.20 … 0.20 of 1 rounds; "
        "aim ≤ 0.2: reached) (kinds of speculation not typed to)"
    )


def test_the_best_is_one_of_those_that_were_asked_in_all_rounds_and_to_the_end() -> None:
    server = typed_side("llama-server", 100.0, 100.0)
    once = typed_side("llama-server once", 5.0)
    cut = replace(typed_side("llama-server cut", 10.0, 10.0), is_partial=True)
    found = [typed_side(OURS, 10.0, 10.0), server, once, cut]
    assert aim_lines(ON_CPU, found, [])[0].startswith(
        "key to answer, p50: speclsp / llama-server = 0.10 (0.10 … 0.10; aim ≤ 0.2: reached)"
    )
    pairs = {"ms_p50": [(9.0, 10.0), (7.0, 10.0)]}
    (line,) = aim_lines(ON_CPU, [found[0], replace(cut, pairs=pairs), once], [])
    assert line == (
        "key to answer, p50: speclsp / llama-server cut = 0.80 (0.70 … 0.90; aim ≤ 0.2: missed)"
        " (of what both wrote before one was cut short)"
    )


def test_who_was_cut_short_is_marked_as_that_and_not_as_best() -> None:
    cut = replace(typed_side("llama-server", 1.0), is_partial=True, n_chars=[7])
    found = [typed_side(OURS, 10.0), cut]
    text = shown(typed_table("Typed", found))
    assert row(text, "llama-server †")[1] == "1.0"
    assert row(text, "speclsp")[1] == "10.0 *"
    assert "llama-server †" in shown(typed_ratio_table("Ratios", found))
    sides = comparison_object({}, [], [], {"w": found}, [], [])["typed"]["w"]
    assert [(side["is_partial"], side["chars_written"]) for side in sides] == [
        (False, []),
        (True, [7]),
    ]
    chart = comparison_chart(found, [], ["† llama-server was cut short.", "made"])
    assert "llama-server" not in chart
    assert ">made<" in chart


def test_no_aim_is_told_where_there_is_nobody_to_compare_with() -> None:
    assert aim_lines(ON_CPU, TYPED[:1], []) == []


def test_everything_is_plain_data() -> None:
    found = comparison_object({"rounds": 3}, [("CPU", "x")], ["made"], {"w": TYPED}, DECODED, [])
    assert json.loads(json.dumps(found)) == found
    ours, server, *_ = found["typed"]["w"]
    assert ours["by_round"]["ms_p50"] == [10.0, 20.0, 30.0]
    assert server["ours_to_this"]["ms_p50"] == {
        "median": pytest.approx(0.2), "least": 0.1, "most": pytest.approx(0.3), "n": 3,
    }  # fmt: skip
    assert found["typed"]["w"][3]["best_in"] == ["ms_p50", "ms_p95", "chars_saved"]
    assert found["decoding"]["cases"]["texts"]["llama-server draft"] == {"n_same": 0, "n_all": 2}


def test_the_chart_has_a_bar_for_each_side_and_says_what_the_model_is() -> None:
    chart = comparison_chart(TYPED, DECODED, ["half.gguf is made: <its> times"])
    root = ET.fromstring(chart)
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("llama-server") == 2
    assert "llama-server ngram-cache" not in texts
    assert texts[-1] == "half.gguf is made: <its> times"
    assert ET.fromstring(comparison_chart([], [], [])).tag.endswith("svg")
