"""The measurement of the project index: what it counts, never how long it took."""

import zlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.index import corpus_line, growth_table, measure_index, replacing_table, size_marks
from benchmarks.source_corpus import SourceCorpus, source_corpus, varied
from speclsp.drafting.drafter import TokenArray
from tests.benchmarks.command_line import run


def tokenize(text: str) -> TokenArray:
    return np.array([zlib.crc32(w.encode()) % 5000 for w in text.split()], dtype=np.int32)


@pytest.fixture
def folder(tmp_path):
    for number in range(60):
        words = [f"w{(number * 31 + idx * idx) % 997}" for idx in range(200)]
        (tmp_path / f"{number}.py").write_text("\n".join(words))
    (tmp_path / "copy.py").write_bytes((tmp_path / "1.py").read_bytes())
    (tmp_path / "binary.py").write_bytes(b"\0\1")
    return tmp_path


def corpus_of(folder: Path, n_tokens: int) -> SourceCorpus:
    return source_corpus(tokenize, n_tokens, folders=(folder,))


def test_corpus_of_sources(folder):
    corpus = corpus_of(folder, 5_000)
    assert corpus.n_tokens == sum(len(tokens) for _, tokens in corpus.files) == 5_000
    assert corpus.n_repeated_tokens == 0
    assert len(corpus.files) == 25
    again = corpus_of(folder, 5_000)
    assert [key for key, _ in again.files] == [key for key, _ in corpus.files]
    assert "repetitions" not in corpus_line(corpus)


def test_too_few_sources_are_repeated_with_variations(folder):
    corpus = corpus_of(folder, 20_000)
    n_originals = (corpus.n_tokens - corpus.n_repeated_tokens) // 200
    assert n_originals in {57, 58}  # one of 20 is held out, and one is a copy
    assert len(corpus.held_out) in {3, 4}
    assert corpus.n_tokens == 20_000
    assert len({tokens.tobytes() for _, tokens in corpus.files}) == 100
    assert "repetitions" in corpus_line(corpus)


def test_variation_keeps_the_length():
    tokens = np.arange(1000, dtype=np.int32)
    other = varied(tokens, np.random.default_rng(1))
    assert len(other) == 1000
    assert 0 < np.count_nonzero(other != tokens) <= 11
    assert len(varied(tokens[:0], np.random.default_rng(1))) == 0


@pytest.mark.slow
def test_everything_is_measured(folder):
    corpus = corpus_of(folder, 10_000)
    told: list[str] = []
    report = measure_index(corpus, [2_000, 6_000], told.append)
    assert [size.n_tokens for size in report.sizes] == [2_000, 6_000, 10_000]
    assert [size.n_files for size in report.sizes] == [10, 30, 50]
    assert all(1 <= size.n_indexes <= 2 for size in report.sizes)
    # 8 bytes for each token that has others on both sides, and separators between the files.
    assert all(7.8 <= size.array_bytes / size.n_tokens < 9 for size in report.sizes)
    assert (report.replacing.n_files, report.replacing.n_tokens) == (5, 1_000)
    assert report.replacing.n_sorted_tokens >= 1_000
    assert len(told) == 2
    found = report.replacing.look_up
    assert 0 < found.p50 <= found.p95 <= found.p99 <= found.most


def test_tables(folder):
    report = measure_index(corpus_of(folder, 10_000), [], lambda _: None)
    tables = growth_table(report.sizes), replacing_table(report.replacing)
    assert [len(table.rows) for table in tables] == [1, 1]
    assert "8.0" in str(tables[0])
    assert "| 1,000" in str(tables[1])


def test_marks():
    assert size_marks(10_000_000) == [1_000_000, 2_000_000, 5_000_000]
    assert size_marks(500_000) == []


@pytest.mark.real
def test_command(model_folder):
    model = str(model_folder / "embedded-target-f16.gguf")
    result = run("index", "--tokens", "20000", "--model", model)
    assert "Python files of this machine" in result.output
    assert "Files replaced one by one" in result.output
