"""A comparison as tables and JSON."""

import json

from benchmarks.decoding import (
    Decoded,
    DecodeRun,
    decoded_figures,
    decoded_ratio_table,
    decoded_table,
)
from benchmarks.figures import Figures, why_not_lines
from benchmarks.peers.decoding import OURS_HUMAN
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.peers.report import typed_ratio_table, typed_table
from benchmarks.report import as_json
from speclsp.statistics import RequestStats


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
    typed_side("llama-server ngram-mod", 1.0, 1.0, 1.0),
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


def test_the_best_of_each_column_is_marked_whoever_it_is():
    text = str(typed_table("Typed", TYPED))
    assert row(text, "speclsp")[1:3] == ["20.0", "40.0"]
    assert row(text, "llama-server ngram-mod")[1:3] == ["1.0 *", "2.0 *"]
    assert set(row(text, "llama-server ngram-cache")[1:]) == {"–"}
    assert why_not_lines(TYPED) == [
        "llama-server ngram-cache did not run: no statistics file is given."
    ]


def test_ratios_have_their_spread_and_leave_out_who_did_not_run():
    text = str(typed_ratio_table("Ratios", TYPED))
    assert row(text, "llama-server")[1] == "0.20 (0.10 … 0.30)"
    # Three rounds were run, and one has this figure.
    assert row(text, "llama-server")[-2] == "1.00 n=1"
    assert "ngram-cache" not in text


def test_texts_that_are_the_same_are_counted():
    text = str(decoded_table(DECODED[0]))
    assert row(text, "speclsp")[1] == "44.0 *"
    assert row(text, "speclsp")[-1] == "2 of 2"
    assert row(text, "llama-server draft")[-1] == "0 of 2"
    ratios = str(decoded_ratio_table(DECODED[0], OURS))
    assert row(ratios, "llama-server")[1] == "2.10 (2.00 … 2.20)"


def test_nobody_competes_with_the_humans_text():
    text = str(decoded_table(DECODED[1]))
    human = row(text, OURS_HUMAN)
    assert (human[1], human[-1]) == ("50.0", "–")
    assert row(text, OURS)[1] == "25.0 *"
    assert f"{OURS_HUMAN} is not marked, since no other side" in text
    assert "is not marked" not in str(decoded_table(DECODED[0]))


def test_everything_is_plain_data():
    found = json.loads(as_json({"typed": {"w": TYPED}, "decoding": DECODED}))
    ours, *_, missing = found["typed"]["w"]
    assert ours["by_round"]["ms_p50"] == [10.0, 20.0, 30.0]
    assert missing["why_not"] == "no statistics file is given."
    cases, edits = found["decoding"]
    assert cases["texts"]["llama-server draft"] == {"n_same": 0, "n_all": 2}
    assert [side["is_hypothetical"] for side in edits["sides"]] == [False, True, False]
