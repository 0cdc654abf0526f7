from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import as_counts, counted

from speclsp.ngrams import counting, table
from speclsp.ngrams.counting import Observations, count_tokens, merge, table_of
from speclsp.ngrams.table import MAX_COUNT, NgramTables, key_of, keys_of

texts = st.lists(st.integers(0, 5), max_size=40)


def ids(tokens: list[int]) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def arrays(tables: NgramTables) -> dict[int, list[bytes]]:
    names = ("starts", "tags", "grams", "begins", "lengths", "tokens", "counts")
    return {
        order: [getattr(one, name).tobytes() for name in names]
        for order, one in tables.by_order.items()
    }


@given(texts)
def test_counts_are_llama_cpps(text: list[int]) -> None:
    assert as_counts(count_tokens([ids(text)], range(1, 5))) == counted(text, range(1, 5))


def test_no_ngram_crosses_from_one_text_into_another() -> None:
    tables = count_tokens([ids([1, 2, 3]), ids([4, 5]), ids([]), ids([6])], [1, 2])
    assert as_counts(tables) == {(1,): {2: 1}, (2,): {3: 1}, (4,): {5: 1}, (1, 2): {3: 1}}


@given(st.lists(texts, max_size=6), st.integers(0, 6))
def test_shards_merge_to_the_arrays_of_one_run(parts: list[list[int]], n_first: int) -> None:
    whole = count_tokens(map(ids, parts), range(1, 4))
    shards = [
        count_tokens(map(ids, parts[n_first:]), range(1, 4)),
        count_tokens(map(ids, parts[:n_first]), range(1, 4)),
    ]
    assert arrays(merge(shards)) == arrays(whole)
    assert arrays(merge([merge([shards[1]]), shards[0]])) == arrays(whole)


def test_any_order_and_many_buckets() -> None:
    text = np.random.default_rng(3).integers(0, 150_000, 30_000).astype(np.int32)
    tables = count_tokens([text], [1, 7])
    assert tables.max_order == 7
    assert len(tables.by_order[7].starts) > 100
    for place in range(0, 29_000, 500):
        followers = tables.followers(tuple(text[place : place + 7].tolist()))
        assert followers.tokens.tolist() == [int(text[place + 7])]
    assert tables.followers((1, 2, 3, 4, 5, 6, 7)).tokens.size == 0
    assert tables.followers((1, 2)).tokens.size == 0


def test_different_ngrams_with_one_hash_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "key_of", lambda ngram: 7)
    monkeypatch.setattr(counting, "keys_of", lambda columns: np.full(len(columns[0]), 7, np.uint64))
    text = [1, 2, 1, 3, 2, 1, 1, 2, 3, 1, 2, 1]
    assert as_counts(count_tokens([ids(text)], [1, 3])) == counted(text, [1, 3])


@given(st.lists(st.lists(st.integers(0, 2**23), min_size=3, max_size=3), min_size=1))
def test_one_hash_and_many_hashes_agree(ngrams: list[list[int]]) -> None:
    columns = [np.array(column, dtype=np.int32) for column in zip(*ngrams, strict=True)]
    assert keys_of(columns).tolist() == [key_of(ngram) for ngram in ngrams]


def test_counts_stop_where_the_layouts_have_no_more_room() -> None:
    seen = Observations(ids([1, 1]).reshape(2, 1), ids([2, 2]), np.array([MAX_COUNT, 5]))
    assert table_of(seen).followers((1,)).counts.tolist() == [MAX_COUNT]
