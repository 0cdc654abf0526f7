"""A comparison as tables and JSON."""

import json

import pytest

from benchmarks.decoding import (
    DECODE_COLUMNS,
    Decoded,
    DecodeRun,
    decoded_figures,
    decoded_ratio_table,
    decoded_table,
)
from benchmarks.figures import Figures, Percentiles, figures_of, tokens_per_s, why_not_lines
from benchmarks.peers.decoding import OURS_HUMAN
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.peers.report import TYPED_COLUMNS, typed_ratio_table, typed_table
from benchmarks.peers.typed_rounds import TypedRound
from benchmarks.report import as_json
from benchmarks.typing_session import TypedSession
from speclsp.seam.statistics import RequestStats, SessionStats


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


def test_decoding_counts_what_comes_behind_the_prompts_last_batch():
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


def test_a_session_without_a_request_to_the_model_has_no_prompts():
    empty = TypedRound(
        session=TypedSession(), own_work=SessionStats(), resident_mib=7.0, host_ms=None
    )
    found = figures_of("one", TYPED_COLUMNS, [empty])
    assert empty.counts.ms["all"] == Percentiles()
    assert found.by_round["evaluated"] == found.by_round["tokens_per_s"] == [None]
    assert found.by_round["resident_mib"] == [7.0]
    assert found.by_round["evaluated_per_char"] == [0.0]
