"""ngram-mod: one pool for all documents, chains from it, thresholds and what is learned when."""

import numpy as np
import pytest
from character_tokens import FREE, drafted, ids, text_of, where
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.ngram_mod import LEARN_EVERY, NgramModDrafter, NgramPool
from speclsp.drafting.registry import load_drafter
from speclsp.settings import Settings
from speclsp.settings_resolution import ngram_mod_lengths


def make(n: int = 3, n_min: int = 0, n_max: int = 6) -> NgramModDrafter:
    return NgramModDrafter(NgramPool(n, entry_bits=16), n_min=n_min, n_max=n_max)


def test_a_chain_follows_the_pool():
    assert drafted(make(), where("abcdefghijk__abc")) == "defghi"
    assert drafted(make(), where("abX__ab")) == ""
    assert drafted(make(), where("ab")) == ""


def test_a_chain_goes_from_text_to_text():
    # abcde stands in one buffer and cdefg in another one.
    assert drafted(make(), where("__abc", "", ["abcde", "cdefg"])) == "defg"
    assert drafted(make(), where("__abc", "abcde", ["cdefg"])) == "defg"


def test_a_loop_is_followed_round():
    assert drafted(make(), where("xyzababab")) == "ababab"


@pytest.mark.parametrize(("n_min", "expected"), [(0, "defg"), (4, "defg"), (5, "")])
def test_a_chain_shorter_than_n_min_is_not_drafted(n_min, expected):
    context = where("__abc", "abcdefg")
    assert drafted(make(n_min=n_min), context) == expected


def test_nothing_is_drafted_where_n_min_tokens_cannot_be_verified():
    assert drafted(make(n_min=4), where("__abc", "abcdefg"), n_max=4) == "defg"
    assert drafted(make(n_min=4), where("__abc", "abcdefg"), n_max=3) == ""
    assert drafted(make(n_min=0), where("__abc", "abcdefg"), n_max=0) == ""


def test_the_later_of_two_followers_counts():
    assert drafted(make(), where("abcX_abcY_abc")) == "Y_abcY"
    # The text before the cursor is learned after the text behind it, and both after others.
    assert drafted(make(), where("abcX__abc", "abcY.", ["abcZ."])) == "X__abc"
    assert drafted(make(), where("__abc", "abcY.", ["abcZ."])) == "Y."
    assert drafted(make(), where("__abc", "", ["abcY.", "abcZ."])) == "Y."


@pytest.fixture
def drafter():
    return make()


def test_all_documents_share_the_pool(drafter):
    drafted(drafter, where("one document: abcdef"))
    assert drafted(drafter, where("another one: abc")) == "def"


def test_a_corrected_text_replaces_what_was_learned(drafter):
    assert drafted(drafter, where("abcdef__abc")) == "def__a"
    assert drafted(drafter, where("abcXYZ__abc")) == "XYZ__a"


def test_generated_text_is_learned(drafter):
    generated = "pqrstu" + LEARN_EVERY * "." + "pqr"
    assert drafted(drafter, where("__"), generated) == "stu..."
    # What was generated last is learned when the next request begins, if not before.
    drafted(drafter, where("__"), "ghijkl")
    assert drafted(drafter, where("__ghi")) == "jkl"


def test_generated_text_is_learned_once(monkeypatch, drafter):
    learned: list[str] = []
    monkeypatch.setattr(drafter._pool, "learn", lambda tokens: learned.append(text_of(tokens)))
    drafter.begin(where("abcdef"))
    del learned[:]
    generated = list(range(1000, 1000 + 2 * LEARN_EVERY + 5))
    for end in range(len(generated) + 1):
        drafter.draft(generated[:end], 9)
    drafter.begin(where("abcdef"))
    texts = [ids(text).tolist() for text in learned if len(text) > 3]
    first, second, rest = texts
    assert first == [*map(ord, "def"), *generated[:LEARN_EVERY]]
    assert second == generated[LEARN_EVERY - 3 : 2 * LEARN_EVERY]
    assert rest == generated[2 * LEARN_EVERY - 3 :]


def test_a_keystroke_learns_what_it_changed(monkeypatch, drafter):
    learned: list[str] = []
    monkeypatch.setattr(drafter._pool, "learn", lambda tokens: learned.append(text_of(tokens)))
    buffer = ids("another buffer")

    def begin(prefix, suffix):
        del learned[:]
        drafter.begin(
            DraftContext(prompt=(0,), prefix=ids(prefix), suffix=ids(suffix), buffers=(buffer,))
        )
        return [text for text in learned if len(text) > drafter._pool.n]

    assert begin("0123456789", "vwxyz") == ["another buffer", "vwxyz", "0123456789"]
    assert begin("0123456789A", "vwxyz") == ["789A"]
    assert begin("0123456789A(", ")vwxyz") == [")vwx", "89A("]
    assert begin("01234!6789A(", ")vwxyz") == ["234!678"]


@pytest.mark.parametrize(
    ("n_shared", "n_text", "n_drafted"), [(23, 200, 0), (24, 200, 64), (24, 72, 48), (24, 71, 0)]
)
def test_upstream_s_name_and_defaults(n_shared, n_text, n_drafted):
    drafter = load_drafter("ngram-mod", Settings())
    assert drafter.name == "ngram-mod"
    text = np.arange(n_text, dtype=np.int32)
    context = DraftContext(prompt=(0,), prefix=text[:n_shared], buffers=(text,), verify_curve=FREE)
    drafter.begin(context)
    assert len(drafter.draft([], 99).tokens) == n_drafted


def test_the_pool_is_as_large_as_upstream_s():
    assert NgramPool(24)._entries.nbytes == 4 * 2**20 * 4


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (48, 64)),
        ({"draft_max": 12}, (12, 12)),
        ({"draft_min": 80}, (80, 80)),
        ({"draft_min": 20, "draft_max": 5}, (5, 5)),
        ({"draft_min": 0, "draft_max": 32}, (0, 32)),
    ],
)
def test_the_shared_limits_are_its_own(given, expected):
    assert ngram_mod_lengths(Settings(**given)) == expected


small = st.lists(st.integers(1, 3), max_size=20)


def learn_naively(pool: dict[tuple[int, ...], int], tokens: list[int], n: int) -> None:
    for start in range(len(tokens) - n):
        pool[tuple(tokens[start : start + n])] = tokens[start + n]


@given(
    texts=st.lists(small, min_size=1, max_size=5),
    tail=small,
    n=st.integers(1, 4),
    n_wanted=st.integers(0, 12),
)
def test_the_pool_equals_a_dictionary(texts, tail, n, n_wanted):
    pool, naive = NgramPool(n, entry_bits=20), {}
    for tokens in texts:
        pool.learn(np.array(tokens, dtype=np.int32))
        learn_naively(naive, tokens, n)
    text = list(tail)
    while len(tail) >= n and len(text) < len(tail) + n_wanted:
        token = naive.get(tuple(text[-n:]))
        if token is None:
            break
        text.append(token)
    assert pool.chain(np.array(tail, dtype=np.int32), n_wanted) == text[len(tail) :]


@given(requests=st.lists(st.tuples(small, small, small), min_size=1, max_size=5))
def test_the_drafter_equals_one_that_learns_everything_anew(requests):
    """Learning the changes alone leaves the same n-grams behind."""
    n = 2
    drafter = make(n)
    known: set[tuple[int, ...]] = set()
    for prefix, suffix, generated in requests:
        drafter.begin(
            DraftContext(
                prompt=(0,),
                prefix=np.array(prefix, dtype=np.int32),
                suffix=np.array(suffix, dtype=np.int32),
                verify_curve=FREE,
            )
        )
        drafter.draft(generated, 9)
        for text in (prefix, suffix):
            known |= {tuple(text[i : i + n]) for i in range(len(text) - n)}
        for ngram in known:
            assert drafter._pool.chain(np.array(ngram, dtype=np.int32), 1) != []
        text = prefix + generated
        known |= {tuple(text[i : i + n]) for i in range(max(0, len(prefix) - n), len(text) - n)}


def test_ngrams_of_one_entry_are_seldom_confused():
    pool = NgramPool(2, entry_bits=0)
    pool.learn(np.array([1, 2, 7], dtype=np.int32))
    assert pool.chain(np.array([1, 2], dtype=np.int32), 1) == [7]
    random = np.random.default_rng(3)
    strangers = random.integers(0, 30000, size=(2000, 2)).astype(np.int32)
    n_confused = sum(pool.chain(pair, 1) != [] for pair in strangers)
    assert n_confused <= 3  # 2,000 / 2^14 are expected


def test_the_largest_token_ids_are_learned_and_larger_ones_left_out():
    pool = NgramPool(1, entry_bits=12)
    pool.learn(np.array([2**18 - 1, 2**18 - 1, 2**18, 5], dtype=np.int32))
    assert pool.chain(np.array([2**18 - 1], dtype=np.int32), 3)[:1] == [2**18 - 1]
    assert pool.chain(np.array([2**18], dtype=np.int32), 1) == [5]


def test_a_request_that_finds_a_quarter_in_use_empties_the_pool():
    pool = NgramPool(3, entry_bits=8)
    drafter = NgramModDrafter(pool, n_min=0, n_max=6)
    text, long_text = "abcdefghijklm", "".join(map(chr, range(1000, 1080)))
    assert drafted(drafter, where("__klm", text)) == ""
    assert 0.0 < pool.share_used <= 0.25
    assert drafted(drafter, where("__abc" + long_text + "__ijk", text)) == "lm"
    assert pool.share_used > 0.25
    assert drafted(drafter, where("__abc")) == ""
    assert pool.share_used < 0.05
    assert drafted(drafter, where("__abc", text)) == "defghi"


@pytest.mark.parametrize(("n_right", "is_emptied"), [(1, False), (0, True)])
def test_five_drafts_in_a_row_that_were_wrong_empty_the_pool(n_right, is_emptied, drafter):
    context = where("__abc", "abcdefgh")
    for outcome in (0, 0, 0, 0, n_right):
        assert drafted(drafter, context) == "defgh"
        drafter.accept(outcome, 4)
    assert drafted(drafter, where("__abc")) == ("" if is_emptied else "defgh")
    assert drafted(drafter, context) == "defgh"
