"""A comparison as tables, JSON and a chart."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from benchmarks.peers.decoding import OURS_HUMAN, Decoded, DecodeRun
from benchmarks.peers.figures import Figures
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.peers.report import (
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


def row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_best_of_each_column_is_marked_whoever_it_is() -> None:
    text = str(typed_table("Typed", TYPED))
    assert row(text, "speclsp")[1:3] == ["20.0", "40.0"]
    assert row(text, "llama-cpp-python")[1:3] == ["1.0 *", "2.0 *"]
    assert set(row(text, "llama-server ngram-cache")[1:]) == {"–"}
    assert why_not_lines(TYPED) == [
        "llama-server ngram-cache did not run: no statistics file is given."
    ]


def test_ratios_have_their_spread_and_leave_out_who_did_not_run() -> None:
    text = str(typed_ratio_table("Ratios", TYPED))
    assert row(text, "llama-server")[1] == "0.20 (0.10 … 0.30)"
    # Three rounds were run, and one has this figure.
    assert row(text, "llama-server")[-2] == "1.00 n=1"
    assert "ngram-cache" not in text


def test_texts_that_are_the_same_are_counted() -> None:
    text = str(decoded_table(DECODED[0]))
    assert row(text, "speclsp")[1] == "44.0 *"
    assert row(text, "speclsp")[-1] == "2 of 2"
    assert row(text, "llama-server draft")[-1] == "0 of 2"
    assert row(str(decoded_ratio_table(DECODED[0])), "llama-server")[1] == "2.10 (2.00 … 2.20)"


def test_nobody_competes_with_the_humans_text() -> None:
    text = str(decoded_table(DECODED[1]))
    human = row(text, OURS_HUMAN)
    assert (human[1], human[-1]) == ("50.0", "–")
    assert row(text, OURS)[1] == "25.0 *"
    assert f"{OURS_HUMAN} is not marked, since no other side" in text
    assert "is not marked" not in str(decoded_table(DECODED[0]))
    sides = comparison_object({}, [], [], {}, DECODED)["decoding"]["edits"]["sides"]
    assert [(side["is_hypothetical"], side["best_in"] == []) for side in sides] == [
        (False, False), (True, True), (False, False),
    ]  # fmt: skip
    assert OURS_HUMAN not in comparison_chart([], DECODED[1:], [])


def test_who_was_cut_short_is_marked_as_that_and_not_as_best() -> None:
    cut = replace(typed_side("llama-server", 1.0), is_partial=True, n_chars=[7])
    found = [typed_side(OURS, 10.0), cut]
    text = str(typed_table("Typed", found))
    assert row(text, "llama-server †")[1] == "1.0"
    assert row(text, "speclsp")[1] == "10.0 *"
    assert "llama-server †" in str(typed_ratio_table("Ratios", found))
    sides = comparison_object({}, [], [], {"w": found}, [])["typed"]["w"]
    assert [(side["is_partial"], side["chars_written"]) for side in sides] == [
        (False, []),
        (True, [7]),
    ]
    chart = comparison_chart(found, [], ["† llama-server was cut short.", "made"])
    assert "llama-server" not in chart
    assert ">made<" in chart


def test_everything_is_plain_data() -> None:
    found = comparison_object({"rounds": 3}, [("CPU", "x")], ["made"], {"w": TYPED}, DECODED)
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
