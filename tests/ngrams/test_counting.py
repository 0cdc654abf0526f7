import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import as_counts, counted

from speclsp.ngrams.counting import Observations, count_tokens, merge, table_of
from speclsp.ngrams.table import MAX_COUNT, NgramTables

texts = st.lists(st.integers(0, 5), max_size=40)


def ids(tokens: list[int] | list[list[int]]) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def arrays(tables: NgramTables) -> dict[int, list[bytes]]:
    names = ("grams", "lengths", "tokens", "counts")
    return {
        order: [getattr(one, name).tobytes() for name in names]
        for order, one in tables.by_order.items()
    }


@given(texts)
def test_counts_are_llama_cpps(text):
    assert as_counts(count_tokens([ids(text)], range(1, 5))) == counted(text, range(1, 5))


def test_no_ngram_crosses_from_one_text_into_another():
    tables = count_tokens([ids([1, 2, 3]), ids([4, 5]), ids([]), ids([6])], [1, 2])
    assert as_counts(tables) == {(1,): {2: 1}, (2,): {3: 1}, (4,): {5: 1}, (1, 2): {3: 1}}


@given(st.lists(texts, max_size=6), st.integers(0, 6))
def test_shards_merge_to_the_arrays_of_one_run(parts, n_first):
    whole = count_tokens(map(ids, parts), range(1, 4))
    shards = [
        count_tokens(map(ids, parts[n_first:]), range(1, 4)),
        count_tokens(map(ids, parts[:n_first]), range(1, 4)),
    ]
    assert arrays(merge(shards)) == arrays(whole)
    assert arrays(merge([merge([shards[1]]), shards[0]])) == arrays(whole)


def test_any_order_of_a_large_vocabulary():
    text = np.random.default_rng(3).integers(0, 150_000, 30_000).astype(np.int32)
    tables = count_tokens([text], [1, 7])
    assert tables.max_order == 7
    for place in range(0, 29_000, 500):
        followers = tables.followers(tuple(text[place : place + 7].tolist()))
        assert list(followers) == [int(text[place + 7])]
    assert tables.followers((1, 2, 3, 4, 5, 6, 7)) == {}
    assert tables.followers((1, 2)) == {}


@given(st.lists(st.lists(st.integers(0, 2**30), min_size=3, max_size=3), min_size=1))
def test_rows_are_in_order_whatever_their_tokens(ngrams):
    seen = Observations(ids(ngrams), ids([0] * len(ngrams)), np.ones(len(ngrams), np.int64))
    counted_once = table_of(seen)
    assert counted_once.grams.tolist() == sorted(map(list, set(map(tuple, ngrams))))
    for ngram in ngrams:
        assert counted_once.followers(ngram) == {0: ngrams.count(ngram)}


def test_counts_stop_where_the_layouts_have_no_more_room():
    seen = Observations(ids([1, 1]).reshape(2, 1), ids([2, 2]), np.array([MAX_COUNT, 5]))
    assert table_of(seen).followers((1,)) == {2: MAX_COUNT}
