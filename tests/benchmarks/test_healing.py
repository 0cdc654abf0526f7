"""Every split point inside the identifiers of a corpus, completed by the embedded model."""

import time
from pathlib import Path

import pytest

from benchmarks.healing import Split, count_splits, healing, no_healing, word_splits
from speclsp.backends.weights import Tokenizer
from speclsp.prompt.families import family_for
from speclsp.prompt.healing import TokenPrefixes

CORPUS = Path(__file__).parents[2] / "fixtures" / "healing_corpus"


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return Tokenizer(
        vocabulary=vocabulary, family=family_for(vocabulary, ""), prefixes=TokenPrefixes(vocabulary)
    )


@pytest.fixture(scope="module")
def splits():
    files = sorted(CORPUS.iterdir())
    return [split for file in files for split in word_splits(file.name, file.read_text("utf-8"))]


def test_places_inside_words():
    assert list(word_splits("a", "x1 = 日本\ny")) == [
        Split("a", "x", "\ny", "1"),
        Split("a", "x1 = 日", "\ny", "本"),
    ]


@pytest.mark.real
def test_no_word_of_the_corpus_is_broken_at_any_place(tokenizer, splits, target_f16):
    assert len(splits) > 1500
    some = splits[::4]  # `python -m benchmarks healing` tries all
    healed = count_splits(some, tokenizer, target_f16, time.perf_counter, healing(tokenizer))
    assert healed.n_splits == len(some)
    assert healed.n_continued > healed.n_splits * 0.9
    assert (healed.n_disagreeing, healed.n_moved, healed.n_broken) == (0, 0, 0), healed.examples


@pytest.mark.real
def test_words_are_broken_without_healing(tokenizer, splits, target_f16):
    some = splits[::12]
    plain = count_splits(some, tokenizer, target_f16, time.perf_counter, no_healing)
    healed = count_splits(some, tokenizer, target_f16, time.perf_counter, healing(tokenizer))
    assert plain.n_moved > 0
    assert plain.n_broken > 0
    assert len(plain.examples) == plain.n_broken
    assert healed.n_right > 2 * plain.n_right
