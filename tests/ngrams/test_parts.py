import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_cpp_statistics import Counts, as_counts, counted

from speclsp.ngrams import llama_cpp_layout, parts
from speclsp.ngrams.counting import Observations, count_tokens, table_of
from speclsp.ngrams.files import open_statistics, write
from speclsp.ngrams.parts import (
    StoredTable,
    boundaries,
    joined_parts,
    store,
    stored_tally,
    sum_range,
)
from speclsp.ngrams.table import JoinedTable, NgramTables

ORDERS = range(1, 4)
texts = st.lists(st.integers(0, 4), max_size=60)


class Vocabulary:
    n_tokens = 100
    fingerprint = "0123456789abcdef"


def ids(tokens: list[int]) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def summed(
    folder: Path, stored: Sequence[Path], *, min_count: int, n_in_range: int, n_rows: int
) -> dict[int, JoinedTable]:
    """Add up all ranges as parts of their own."""
    tables: dict[int, JoinedTable] = {}
    for order in ORDERS:
        ranges: list[Path] = []
        for within in boundaries(stored, order, n_in_range):
            ranges.append(folder / f"sum-{order}-{len(ranges)}")
            store(ranges[-1], sum_range(stored, order, within, min_count=min_count, n_rows=n_rows))
        if (table := joined_parts(ranges, order, folder)) is not None:
            tables[order] = table
    return tables


def total(all_texts: Sequence[list[int]], min_count: int) -> Counts:
    found: dict[tuple[int, ...], dict[int, int]] = {}
    for text in all_texts:
        for gram, followers in counted(text, ORDERS).items():
            into = found.setdefault(gram, {})
            for token, n in followers.items():
                into[token] = into.get(token, 0) + n
    frequent = {
        gram: {token: n for token, n in followers.items() if n >= min_count}
        for gram, followers in found.items()
    }
    return {gram: followers for gram, followers in frequent.items() if followers}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["speclsp", "llama.cpp"])
@settings(max_examples=30)
@given(
    in_parts=st.lists(st.lists(texts, max_size=3), min_size=1, max_size=5),
    min_count=st.integers(1, 3),
    n_in_range=st.integers(1, 8),
    n_rows=st.integers(1, 40),
    n_at_once=st.integers(1, 20),
)
def test_sums_of_ranges_are_the_file_of_one_run(
    layout, in_parts, min_count, n_in_range, n_rows, n_at_once
):
    all_texts = [text for of_part in in_parts for text in of_part]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as unsynced:
        unsynced.setattr("os.fsync", lambda descriptor: None)  # hundreds, which take most of it
        folder = Path(name)
        stored = [folder / str(idx) for idx in range(len(in_parts))]
        for part, of_part in zip(stored, in_parts, strict=True):
            store(part, count_tokens(map(ids, of_part), ORDERS))
        tables = summed(folder, stored, min_count=min_count, n_in_range=n_in_range, n_rows=n_rows)
        one, two = folder / "one", folder / "two"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(llama_cpp_layout, "_ROWS_AT_ONCE", n_at_once)
            write(one, tables, layout, Vocabulary())
        expected = total(all_texts, min_count)
        if expected:
            assert as_counts(open_statistics(one, Vocabulary()).tables) == expected
        if min_count == 1:
            write(two, count_tokens(map(ids, all_texts), ORDERS).by_order, layout, Vocabulary())
            assert one.read_bytes() == two.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["speclsp", "llama.cpp"])
def test_a_file_larger_than_memory_is_written(layout, tmp_path):
    stored = [tmp_path / str(idx) for idx in range(24)]
    n_rows = 2**17
    for idx, part in enumerate(stored):
        numbers = np.arange(idx * n_rows, (idx + 1) * n_rows, dtype=np.int32)
        grams = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255, numbers & 1], axis=1)
        ones = np.ones(n_rows, np.int32)
        store(part, NgramTables({4: table_of(Observations(grams, ones, ones))}))
    tracemalloc.start()
    try:
        table = joined_parts(stored, 4, tmp_path)
        assert table is not None
        write(tmp_path / "file", {4: table}, layout, Vocabulary())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (tmp_path / "file").stat().st_size / 3


def test_ranges_are_of_the_size_that_is_asked_for(tmp_path):
    dice = np.random.default_rng(1)
    stored = [tmp_path / str(idx) for idx in range(4)]
    for part in stored:
        # Some tokens are much more frequent than others, as in code.
        tokens = np.minimum(dice.geometric(0.05, 20_000), 400).astype(np.int32)
        store(part, count_tokens([tokens], ORDERS))
    ranges = boundaries(stored, 3, n_rows=1000)
    sizes = [
        sum(parts._rows_within(StoredTable(part, 3), within).tokens.size for part in stored)
        for within in ranges
    ]
    assert sum(sizes) == sum(StoredTable(part, 3).read("tokens").size for part in stored)
    assert len(sizes) > 30
    assert max(sizes) < 1500


def test_one_ngram_with_more_rows_than_fit_is_added_up_bit_by_bit(tmp_path, monkeypatch):
    followers = np.arange(1, 51, dtype=np.int32)
    text = np.stack([np.zeros(50, np.int32), followers], axis=1).ravel()
    stored = [tmp_path / str(idx) for idx in range(40)]
    for part in stored:
        store(part, count_tokens([text], [1]))
    sorted_at_once: list[int] = []
    table_of = parts.table_of

    def noted(seen):
        sorted_at_once.append(seen.tokens.size)
        return table_of(seen)

    monkeypatch.setattr(parts, "table_of", noted)
    tables = sum_range(stored, 1, (None, (1,)), min_count=1, n_rows=60)
    assert max(sorted_at_once) <= 2 * 60 + 50
    assert list(tables.followers((0,)).values()) == [40] * 50


def test_a_part_that_is_missing_is_no_part_without_ngrams(tmp_path):
    short, missing = tmp_path / "short", tmp_path / "missing"
    store(short, count_tokens([ids([1, 2])], ORDERS))
    assert not StoredTable(short, 3).exists()
    with pytest.raises(FileNotFoundError, match="part of the counts is missing"):
        boundaries([short, missing], 1, 1)
    with pytest.raises(FileNotFoundError, match="part of the counts is missing"):
        sum_range([short, missing], 1, (None, None), min_count=1, n_rows=9)


def test_a_part_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    tables = count_tokens([ids([1, 2, 3, 1, 2])], ORDERS)
    part, saved = tmp_path / "part", parts._save

    def full_disk(path, array):
        if path.name == "tally.npy":
            raise OSError(28, "No space left on device")
        saved(path, array)

    monkeypatch.setattr(parts, "_save", full_disk)
    with pytest.raises(OSError, match="No space"):
        store(part, tables, [7])
    assert stored_tally(part) is None
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    store(part, tables, [7])
    store(part, NgramTables({}), [8])
    assert stored_tally(part) == (7,), "a twin of a task changes nothing"
    assert list(tmp_path.iterdir()) == [part]
