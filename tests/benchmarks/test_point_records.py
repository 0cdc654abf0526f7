"""Judging texts beside the human's, cutting them by probability, and keeping records."""

import math
from typing import Any

import pytest

from benchmarks.point_records import (
    Cut,
    Header,
    Judged,
    Point,
    PointRecord,
    PointsError,
    RecordFile,
    before_dense,
    cut_text,
    judged,
    n_kept_tokens,
    read_records,
)
from benchmarks.point_tables import THRESHOLDS, calibration_table, sides_table, thresholds_table

HALF = math.log(0.5)
HEADER = Header(model="m.gguf, 1 bytes", options={"times": False, "points": [["f", [1]]]})


def point(human: str = "return total + one\n    }", **fields: Any) -> Point:
    plain = {"case": "f", "n_typed": 1, "project": "p", "language_id": "go", "path": "f.go"}
    return Point(**{**plain, "line_before": "", "human": human, **fields})


def record(*tokens: tuple[str, float], text: str | None = None, **fields: Any) -> PointRecord:
    """Return a record whose tokens have these probabilities."""
    pieces = tuple(piece for piece, _ in tokens)
    plain: dict[str, Any] = {"side": "a", "point": point(), "shown": "".join(pieces)}
    return PointRecord(
        **{**plain, **fields},
        text="".join(pieces) if text is None else text,
        pieces=pieces,
        logprobs=tuple(math.log(p) for _, p in tokens),
    )


@pytest.mark.parametrize(
    ("text", "right", "right_line", "saved", "wrong"),
    [
        ("return total", True, True, 12, 0),
        ("return total + one\n", True, True, 18, 0),
        ("return total + two", False, False, 14, 4),
        ("return total + one\n    two", False, True, 18, 8),
        ("return totals", False, False, 6, 7),
        ("x", False, False, 0, 1),
    ],
)
def test_a_text_is_judged_by_words(text, right, right_line, saved, wrong):
    expected = Judged(
        is_shown=True, is_right=right, has_right_line=right_line, n_saved=saved, n_wrong=wrong
    )
    assert judged(text, point()) == expected


def test_blanks_are_nothing_shown():
    assert judged(" \n", point()) == Judged()


def test_line_ends_of_the_file_make_no_difference():
    assert judged("a\r\nb", point("a\nb")).is_right
    assert judged("a\nb", point("a\r\nb")).is_right


def test_the_product_decides_where_a_text_ends():
    logprobs = [HALF, 0.0, HALF, HALF]
    assert [n_kept_tokens(logprobs, p) for p in (0.0, 0.1, 0.2, 0.3, 0.6)] == [4, 4, 3, 2, 0]


def test_a_cut_text_ends_at_a_word():
    made = record(("return", 0.9), (" to", 0.9), ("tal", 0.9), (" +", 0.9), (" one", 0.1))
    assert [cut_text(made, n) for n in range(6)] == [
        Cut("", 1), Cut("return", 2), Cut("return", 3), Cut("return total", 4),
        Cut("return total +", 5), Cut("return total + one", 5),
    ]  # fmt: skip


def test_a_cut_text_without_a_letter_is_nothing():
    assert cut_text(record(("(", 0.9), ("a", 0.1), (")", 0.1)), 1) == Cut("", 2)


def test_what_healing_holds_back_does_not_count():
    made = record(
        ("ret", 0.1), ("urn", 0.9), (" a", 0.9), ("b", 0.9), text="n ab", held_back="retur"
    )
    assert len(made.scores.logprobs) == 3
    assert n_kept_tokens(made.scores.logprobs, 0.5) == 3
    assert cut_text(made, 1) == Cut("n", 3)


def test_tokens_behind_a_fitted_text_do_not_count():
    made = record(("a", 0.9), ("b", 0.9), ("\n}", 0.1), text="ab")
    assert len(made.scores.logprobs) == 2
    assert cut_text(made, n_kept_tokens(made.scores.logprobs, 0.7)) == Cut("ab", 3)


def test_bytes_count_where_tokens_begin():
    assert [before_dense("ä b c", n) for n in range(5)] == ["", "ä ", "ä ", "ä b ", "ä b c"]


def test_a_table_of_thresholds():
    records = [record(("return", 0.9), (" total", 0.5), (" -", 0.2)), record(("nothing", 0.03))]
    rows = {row[0]: list(row[1:]) for row in thresholds_table(records).rows}
    assert len(rows) == len(THRESHOLDS)
    assert rows["none"] == ["100", "0", "0", "6.0", "4.5", "2.0"]
    assert rows["0.3"] == ["50", "100", "100", "6.0", "0.0", "2.0"]
    assert rows["0.5"] == ["50", "100", "100", "3.0", "0.0", "1.5"]


def test_a_table_of_calibration():
    made = record(("return", 0.95), (" total", 0.5), (" -", 0.2))
    rows = {row[0]: list(row[1:]) for row in calibration_table([made]).rows}
    assert rows["0.05 … 0.1"] == ["1", "0", "0", "–", "–"]
    assert rows["0.4 … 0.5"] == ["0", "–", "1", "48", "100"]
    assert rows["0.9 … 1"] == ["0", "–", "1", "95", "100"]


def test_a_table_of_sides_counts_same_texts():
    one = record(("return", 0.9), n_predicted=2, n_passes=1)
    other = record(("x", 0.9), n_predicted=4, n_passes=4, ms=8.0)
    table = sides_table({"a": [one], "b": [other]}, times=True)
    assert list(table.rows[0]) == [
        "a", "1", "100", "100", "100", "6.0", "0.0", "2.0", "1.0", "0.0", "0.0", "1 of 1", "0", "0",
    ]  # fmt: skip
    assert list(table.rows[1])[-3:] == ["0 of 1", "8", "8"]


def test_records_come_back(tmp_path):
    path = tmp_path / "records.jsonl"
    broken = b"\xe2\x82".decode("utf-8", "surrogateescape")
    made = [record(("ä", 0.5), (broken, 0.25), text="ä"), record(("x", 1.0))]
    RecordFile(path, HEADER).add(made[:1])
    again = RecordFile(path, HEADER)
    assert again.records == made[:1]
    again.add(made[1:])
    assert read_records(path) == (HEADER, made)


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    path = tmp_path / "records.jsonl"
    made = record(("x", 1.0))
    RecordFile(path, HEADER).add([made])
    path.write_text(path.read_text() + '{"side": "a", "po')
    again = RecordFile(path, HEADER)
    again.add([made])
    assert read_records(path)[1] == [made, made]


def test_records_of_another_run_are_not_added_to(tmp_path):
    path = tmp_path / "records.jsonl"
    RecordFile(path, HEADER).add([record(("x", 1.0))])
    before = path.read_text()
    other = Header(model="other.gguf, 1 bytes", options=HEADER.options)
    with pytest.raises(PointsError, match="another model"):
        RecordFile(path, other)
    assert path.read_text() == before


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "no json\n"])
def test_a_file_that_holds_no_records(text, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(text)
    with pytest.raises(PointsError, match="records"):
        read_records(path)
