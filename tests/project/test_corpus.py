import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.drafting.drafter import TokenArray
from speclsp.drafting.token_index import DEPTH, MAX_TOKEN
from speclsp.project.corpus import Corpus


def ids(*tokens: int) -> TokenArray:
    return np.array(tokens, dtype=np.int32)


def corpus_of(*files: TokenArray) -> Corpus:
    corpus = Corpus()
    for idx, tokens in enumerate(files):
        corpus.add(str(idx).encode(), tokens)
    corpus.flush()
    return corpus


def look_up(
    corpus: Corpus, tail: TokenArray, *, n_min: int = 1, n_max: int = 16, n: int = 4
) -> tuple[list[int], int]:
    tokens, n_matched = corpus.continuation(tail, n_min, n_max, n)
    assert tokens.dtype == np.int32
    return tokens.tolist(), n_matched


MANY = np.tile(ids(1, 2, 3), 5000)
LONG = np.arange(2 * DEPTH, dtype=np.int32)
FOUR = [ids(1, 2, 7, 3, 3), ids(1, 2, 7, 3, 4), ids(1, 2, 7, 5), ids(1, 2, 8)]
CONTINUATIONS = {
    "the most frequent continuation wins": (
        [ids(1, 2, 7), ids(8, 1, 2, 7, 5), ids(9, 1, 2, 6)], ids(1, 2), {"n": 1}, ([7], 2),
    ),
    "agreement goes on token by token": (FOUR, ids(1, 2), {}, ([7, 3, 4], 2)),
    "the newest wins among equals": ([ids(1, 2, 3), ids(1, 2, 4)], ids(1, 2), {}, ([4], 2)),
    "a later place wins within a file": ([ids(1, 2, 3, 1, 2, 4)], ids(1, 2), {"n": 1}, ([4], 2)),
    "a match counts at most the depth": (
        [LONG], LONG[:-1], {"n_max": 1000}, ([2 * DEPTH - 1], DEPTH),
    ),
    "a negative token": ([ids(1, 2, 3)], ids(-1), {}, ([], 0)),
    "a tail that ends with a foreign token": ([ids(1, 2, 3)], ids(1, 2, -1), {}, ([], 0)),
    "a token too large": ([ids(1, 2, 3)], ids(MAX_TOKEN + 1), {}, ([], 0)),
    "a tail counts from after a foreign token": ([ids(1, 2, 3)], ids(1, -1, 2), {}, ([3], 1)),
    "nothing wanted": ([ids(1, 2, 3)], ids(1, 2), {"n": 0}, ([], 0)),
    "the largest token": (
        [ids(MAX_TOKEN, MAX_TOKEN, 0, MAX_TOKEN)], ids(MAX_TOKEN, 0), {}, ([MAX_TOKEN], 2),
    ),
    "many places of one match": ([MANY], ids(9, 1, 2), {}, ([3, 1, 2, 3], 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUATIONS)
def test_continuation(name):
    files, tail, options, expected = CONTINUATIONS[name]
    assert look_up(corpus_of(*files), tail, **options) == expected


def test_the_newest_wins_among_equals_of_two_indexes():
    corpus = Corpus()
    for key, last in ((b"a", 3), (b"b", 4)):
        corpus.add(key, ids(1, 2, last))
        corpus.flush()
    assert look_up(corpus, ids(1, 2)) == ([4], 2)


class TestChanges:
    def test_added_files_are_found_after_a_flush(self):
        corpus = Corpus()
        corpus.add(b"a", ids(1, 2, 3))
        assert b"a" in corpus
        assert corpus.n_pending_tokens == 3
        assert look_up(corpus, ids(1, 2)) == ([], 0)
        corpus.flush()
        assert corpus.n_pending_tokens == 0
        assert look_up(corpus, ids(1, 2)) == ([3], 2)

    def test_removed_file_is_not_found_and_can_be_revived(self):
        corpus = Corpus()
        corpus.add(b"a", ids(1, 2, 3))
        corpus.add(b"b", ids(5, 6, 7, 8))
        corpus.flush()
        corpus.remove(b"a")
        assert b"a" not in corpus
        assert look_up(corpus, ids(1, 2)) == ([], 0)
        n_sorted = corpus.n_sorted_tokens
        corpus.add(b"a", ids(1, 2, 3))
        assert look_up(corpus, ids(1, 2)) == ([3], 2)
        corpus.flush()
        assert corpus.n_sorted_tokens == n_sorted

    def test_removed_before_it_was_flushed(self):
        corpus = Corpus()
        corpus.add(b"a", ids(1, 2, 3))
        corpus.remove(b"a")
        corpus.flush()
        assert corpus.n_pending_tokens == 0
        assert corpus.n_files == 0

    def test_adding_twice_keeps_one(self):
        corpus = Corpus()
        for _ in range(2):
            corpus.add(b"a", ids(1, 2, 3))
            corpus.add(b"a", ids(1, 2, 3))
            corpus.flush()
        assert (corpus.n_files, corpus.n_tokens) == (1, 3)

    def test_mostly_removed_segment_is_rebuilt(self):
        corpus = Corpus()
        for idx in range(10):
            corpus.add(bytes([idx]), np.arange(idx * 100, idx * 100 + 100, dtype=np.int32))
        corpus.flush()
        n_sorted = corpus.n_sorted_tokens
        for idx in range(6):
            corpus.remove(bytes([idx]))
        corpus.flush()
        assert corpus.n_sorted_tokens - n_sorted == 400
        assert look_up(corpus, ids(700, 701), n=1) == ([702], 2)
        for idx in range(6, 10):
            corpus.remove(bytes([idx]))
        corpus.flush()
        assert (corpus.n_tokens, corpus.n_bytes) == (0, 0)

    def test_hidden_files_come_back(self):
        corpus = corpus_of(ids(1, 2, 3), ids(5, 6, 7))
        corpus.hide([b"0", b"unknown"])
        assert look_up(corpus, ids(1, 2)) == ([], 0)
        assert look_up(corpus, ids(5, 6)) == ([7], 2)
        assert (corpus.n_files, corpus.n_tokens, corpus.n_visible_tokens) == (2, 6, 3)
        corpus.remove(b"1")
        corpus.hide([b"1"])
        assert look_up(corpus, ids(5, 6)) == ([], 0)
        corpus.hide([])
        assert look_up(corpus, ids(5, 6)) == ([], 0)
        assert look_up(corpus, ids(1, 2)) == ([3], 2)

    def test_hidden_files_stay_hidden_when_sorted_again(self):
        corpus = corpus_of(ids(1, 2, 3), ids(5, 6, 7))
        corpus.hide([b"0", b"2"])
        corpus.add(b"2", ids(11, 12, 13))
        corpus.flush()
        assert look_up(corpus, ids(1, 2)) == look_up(corpus, ids(11, 12)) == ([], 0)
        assert look_up(corpus, ids(5, 6)) == ([7], 2)

    def test_indexes_stay_few_and_sorting_stays_cheap(self):
        n_files, n_tokens = 600, 50
        corpus = Corpus()
        random = np.random.default_rng(1)
        files = [random.integers(0, 1000, n_tokens).astype(np.int32) for _ in range(n_files)]
        for idx, tokens in enumerate(files):
            corpus.add(str(idx).encode(), tokens)
            corpus.flush()
            assert corpus.n_indexes <= 5
        assert corpus.n_sorted_tokens <= 14 * n_files * n_tokens
        assert corpus.n_tokens == n_files * n_tokens
        for tokens in files[::37]:
            assert look_up(corpus, tokens[:40]) == (tokens[40:44].tolist(), 16)

    def test_memory_per_token(self):
        corpus = corpus_of(np.random.default_rng(1).integers(0, 5000, 100_000).astype(np.int32))
        assert corpus.n_bytes / corpus.n_tokens < 9


token_lists = st.lists(st.integers(0, 3), max_size=12)


def brute_force(
    files: list[list[int]], tail: list[int], n_min: int, n_max: int, n: int
) -> tuple[list[list[int]], int]:
    """All continuations of the longest match, and its length."""
    for n_shared in range(min(len(tail), n_max), n_min - 1, -1):
        rows = [
            file[end : end + n]
            for file in files
            for end in range(n_shared, len(file))
            if file[end - n_shared : end] == tail[len(tail) - n_shared :]
        ]
        if rows:
            return rows, n_shared
    return [], 0


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    batches=st.lists(st.lists(token_lists, max_size=4), max_size=5),
    tails=st.lists(token_lists, min_size=1, max_size=4),
    gone=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=6),
    hidden=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=3),
    n_min=st.integers(1, 5),
    n_max=st.integers(1, 8),
    n=st.integers(1, 5),
    growth=st.sampled_from([0, 8]),
)
def test_equals_brute_force(batches, tails, gone, hidden, n_min, n_max, n, growth):
    corpus = Corpus()
    living: list[list[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        # Without growth each batch has an index of its own.
        patch.setattr("speclsp.project.corpus._GROWTH", growth)
        for i, batch in enumerate(batches):
            for j, file in enumerate(batch):
                corpus.add(bytes([i, j]), ids(*file))
                if (i, j) not in gone | hidden:
                    living.append(file)
            corpus.flush()
    for i, j in gone:
        corpus.remove(bytes([i, j]))
    corpus.hide([bytes(key) for key in hidden])
    assert corpus.n_visible_tokens == sum(map(len, living))
    for tail in tails:
        rows, n_expected = brute_force(living, tail, n_min, n_max, n)
        tokens, n_matched = look_up(corpus, ids(*tail), n_min=n_min, n_max=n_max, n=n)
        assert n_matched == n_expected
        assert tokens in rows or not rows
        if rows and len(rows) <= 3:
            first = [row[0] for row in rows]
            assert first.count(tokens[0]) == max(map(first.count, first))


def test_equals_brute_force_on_long_repetitions():
    random = np.random.default_rng(7)
    motif = random.integers(0, 3, 60).tolist()
    files: list[list[int]] = []
    for _ in range(6):
        cut = int(random.integers(0, 60))
        files.append(random.integers(0, 3, 20).tolist() + motif[cut:] + motif + motif[:cut])
    corpus = corpus_of(*(ids(*file) for file in files))
    for _ in range(200):
        file = files[int(random.integers(0, 6))]
        tail = [int(random.integers(0, 3)), *file[: int(random.integers(1, len(file)))]]
        rows, n_expected = brute_force(files, tail, 1, DEPTH, 6)
        tokens, n_matched = look_up(corpus, ids(*tail), n_max=DEPTH, n=6)
        assert n_matched == n_expected
        assert tokens in rows or not rows
