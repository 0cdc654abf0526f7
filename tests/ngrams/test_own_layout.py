from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import as_counts, counted, record, saved

from speclsp.errors import StoreError
from speclsp.ngrams import files, own_layout
from speclsp.ngrams.checking import verify
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.file_bytes import FileBytes
from speclsp.ngrams.file_table import FileTables
from speclsp.ngrams.files import StatisticsFile, open_statistics, write
from speclsp.ngrams.table import NgramTables


@dataclass(frozen=True)
class Identity:
    n_tokens: int = 100
    fingerprint: str = "0123456789abcdef"


VOCABULARY = Identity()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("statistics") / "f.ngrams"


def tables_of(n_tokens: int, orders: range) -> NgramTables:
    rng = np.random.default_rng(n_tokens)
    return count_tokens([rng.integers(0, 100, n_tokens).astype(np.int32)], orders)


@given(text=st.lists(st.integers(0, 9), max_size=60), max_order=st.integers(1, 6))
def test_what_is_written_is_found(path: Path, text: list[int], max_order: int) -> None:
    orders = range(1, max_order + 1)
    write(path, count_tokens([np.array(text, np.int32)], orders), "speclsp", VOCABULARY)
    file = open_statistics(path, VOCABULARY)
    assert file.layout == "speclsp"
    assert as_counts(file.tables()) == counted(text, orders)
    for ngram, followers in counted(text, orders).items():
        assert followers_of(file, ngram) == followers
        assert followers_of(file, (*ngram[:-1], 50)) == {}
    verify(file)


def followers_of(file: StatisticsFile, ngram: tuple[int, ...]) -> dict[int, int]:
    assert file.own is not None
    found = file.own.counts.followers(ngram)
    assert (found.tokens.dtype, found.tokens.dtype.isnative) == (np.int32, True)
    return dict(zip(found.tokens.tolist(), found.counts.tolist(), strict=True))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_file_that_is_cut_while_it_is_looked_up_in(path: Path, order: int) -> None:
    write(path, tables_of(20_000, range(1, 5)), "speclsp", VOCABULARY)
    whole = path.read_bytes()
    file = open_statistics(path, VOCABULARY)
    ngrams = [tuple(gram) for gram in file.tables().by_order[order].grams[:40].tolist()]
    wanted = [followers_of(file, ngram) for ngram in ngrams]
    assert all(wanted)
    seen = set()
    for n_bytes in (*range(len(whole) - 1, 0, -5003), 1, 0):
        os.truncate(path, n_bytes)  # as cp does with the file that it copies onto
        for ngram, followers in zip(ngrams, wanted, strict=True):
            found = followers_of(file, ngram)
            assert found in ({}, followers)
            seen.add(bool(found))
    assert seen == {True, False}
    for use in (file.tables, lambda: verify(file)):
        with pytest.raises(StoreError, match=r"f\.ngrams, byte \d.*: the file was cut while"):
            use()
    path.write_bytes(whole)  # it is the same file still
    assert [followers_of(file, ngram) for ngram in ngrams] == wanted


def test_a_file_that_becomes_another_while_it_is_looked_up_in(path: Path) -> None:
    write(path, tables_of(20_000, range(1, 5)), "speclsp", VOCABULARY)
    file = open_statistics(path, VOCABULARY)
    ngrams = [tuple(gram) for gram in file.tables().by_order[2].grams[:40].tolist()]
    n_bytes = path.stat().st_size
    assert file.own is not None
    for text in (b"\xff" * n_bytes, b"\0" * n_bytes, bytes(range(256)) * n_bytes):
        path.write_bytes(text[:n_bytes])
        for ngram in ngrams:
            file.own.counts.followers(ngram)
        with pytest.raises(StoreError, match="checksum"):
            verify(file)


def test_a_file_is_closed_when_nobody_needs_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close = os.close

    def watched(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    write(path, tables_of(100, range(1, 3)), "speclsp", VOCABULARY)
    monkeypatch.setattr(os, "close", watched)
    file = open_statistics(path, VOCABULARY)
    assert file.own is not None
    descriptor = file.own.stored._descriptor
    counts = file.own.counts
    del file
    gc.collect()
    assert counts.followers((1,)).tokens.size
    assert descriptor not in closed
    del counts
    gc.collect()
    assert closed.count(descriptor) == 1


def test_reading_where_the_system_has_no_positioned_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pread", raising=False)
    write(path, tables_of(5000, range(1, 5)), "speclsp", VOCABULARY)
    file = open_statistics(path, VOCABULARY)
    verify(file)
    for ngram, followers in list(as_counts(file.tables()).items())[:50]:
        assert followers_of(file, ngram) == followers


def test_a_large_file_is_opened_without_its_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, tables_of(60_000, range(1, 5)), "speclsp", VOCABULARY)
    n_bytes = path.stat().st_size
    n_read: list[int] = []
    read = FileBytes.read

    def watched(self: FileBytes, offset: int, n_wanted: int) -> bytes:
        data = read(self, offset, n_wanted)
        n_read.append(len(data))
        return data

    monkeypatch.setattr(FileBytes, "read", watched)
    small = open_statistics(path, VOCABULARY)
    assert isinstance(small.counts, NgramTables)
    assert sum(n_read) > 0.99 * n_bytes
    n_read.clear()
    monkeypatch.setattr(files, "IN_MEMORY_BYTES", n_bytes - 1)
    large = open_statistics(path, VOCABULARY)
    assert isinstance(large.counts, FileTables)
    assert sum(n_read) < 0.02 * n_bytes
    assert large.counts.max_order == small.counts.max_order == 4
    n_read.clear()
    assert large.counts.followers((1, 2)).tokens.size == small.counts.followers((1, 2)).tokens.size
    assert sum(n_read) < 4000


def test_what_it_says_of_itself(path: Path) -> None:
    write(path, count_tokens([np.arange(50, dtype=np.int32)], [1, 3]), "speclsp", VOCABULARY)
    own = open_statistics(path, None).own
    assert own is not None
    assert (own.header.fingerprint, own.header.n_tokens) == (VOCABULARY.fingerprint, 100)
    assert [(t.order, t.n_ngrams, t.n_followers) for t in own.header.tables] == [
        (1, 49, 49),
        (3, 47, 47),
    ]


Change = Callable[[bytearray], None]


def cut(n_bytes: int) -> Change:
    def change(data: bytearray) -> None:
        del data[n_bytes:]

    return change


def flip(place: int) -> Change:
    def change(data: bytearray) -> None:
        data[place] ^= 1

    return change


# What is changed, where the damage is said to be, why, and whether opening already finds it.
DAMAGED: dict[str, tuple[Change, str, str]] = {
    "cut in the preamble": (cut(10), "byte 10", "truncated within its header"),
    "cut in the header": (cut(100), "byte 100", "truncated within its header"),
    "cut in the body": (cut(3000), "byte 3,000", "the file has 3,000 bytes instead of"),
    "cut in the checksums": (cut(-3), "", "bytes instead of"),
    "longer": (lambda data: data.extend(b"x"), "", "bytes instead of"),
    "another version": (flip(8), "byte 8", "its version is 0, not 1"),
    "the header": (flip(40), "byte 24", "the header's checksum is wrong"),
    "the body": (flip(5000), "byte ", "the checksum of 1,048,576 bytes is wrong"),
    "the checksums": (flip(-6), "byte ", "the table of checksums is damaged"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_file_and_offset(path: Path, name: str) -> None:
    change, where, reason = DAMAGED[name]
    write(path, tables_of(5000, range(1, 5)), "speclsp", VOCABULARY)
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        verify(open_statistics(path, VOCABULARY))
    assert caught.value.message.startswith(f"{path}, byte ")
    assert where in caught.value.message
    assert reason in caught.value.message
    assert caught.value.remedy


def test_each_mib_has_its_checksum(path: Path) -> None:
    write(path, tables_of(60_000, range(3, 5)), "speclsp", VOCABULARY)
    data = bytearray(path.read_bytes())
    assert len(data) > 2 * own_layout.BLOCK_BYTES
    shares: list[float] = []

    def go_on(share: float) -> bool:
        shares.append(share)
        return True

    file = open_statistics(path, VOCABULARY)
    verify(file, go_on)
    assert file.own is not None
    assert len(shares) == -(-file.own.n_body_bytes // own_layout.BLOCK_BYTES)
    assert shares[-1] == 1.0
    start = file.own.body_offset + own_layout.BLOCK_BYTES
    data[own_layout.BLOCK_BYTES + 5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"byte {start:,}: the checksum"):
        verify(open_statistics(path, VOCABULARY))


def test_a_foreign_vocabulary(path: Path) -> None:
    write(path, tables_of(100, range(1, 3)), "speclsp", VOCABULARY)
    with pytest.raises(StoreError, match=r"f.ngrams, byte 0: it belongs to another vocabulary \("):
        open_statistics(path, Identity(fingerprint="f" * 16))


def test_static_needs_order_two(path: Path) -> None:
    write(path, tables_of(100, range(3, 5)), "speclsp", VOCABULARY)
    assert open_statistics(path, VOCABULARY, "dynamic").role == "dynamic"
    with pytest.raises(StoreError, match="no n-grams of 2 tokens"):
        open_statistics(path, VOCABULARY, "static")
    write(path, tables_of(100, range(2, 3)), "speclsp", VOCABULARY)
    assert open_statistics(path, VOCABULARY, "static").role == "static"


# What a checksum cannot find: a writer's mistakes.  Each is made in the arrays, then written.
MISTAKES: dict[str, tuple[str, int, int, str]] = {
    "a token beyond the vocabulary": ("tokens", 5, 100, "token ids reach from 0 to 100"),
    "a negative token": ("grams", 5, -3, "token ids reach from -3 to"),
    "a count of zero": ("counts", 5, 0, "a count is 0"),
    "a wrong tag": ("tags", 5, 5, "do not stand where they are looked up"),
    "followers out of range": ("begins", 5, 2**31, "followers are not all there"),
    "buckets out of order": ("starts", 1, 2**40, "the buckets do not cover"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_writers_mistakes_are_found_by_verify(path: Path, name: str) -> None:
    field, place, value, reason = MISTAKES[name]
    tables = tables_of(5000, range(2, 3))
    getattr(tables.by_order[2], field).reshape(-1)[place] = value
    write(path, tables, "speclsp", VOCABULARY)
    with pytest.raises(StoreError, match=f"f.ngrams, n-grams of 2 tokens: .*{reason}"):
        verify(open_statistics(path, VOCABULARY))


def test_ngrams_that_stand_twice_in_llama_cpps_layout(path: Path) -> None:
    path.write_bytes(record([1, 2], {3: 4}) * 2)
    file = open_statistics(path, VOCABULARY)
    assert file.counts.followers((1, 2)).counts.tolist() == [4]  # the first, as in llama.cpp
    with pytest.raises(StoreError, match="1 n-grams stand in it twice"):
        verify(file)


def test_writing_replaces_the_file_or_leaves_it(path: Path) -> None:
    old = saved({(1, 2): {3: 4}})
    path.write_bytes(old)
    with pytest.raises(StoreError, match="not for n-grams of 5"):
        write(path, tables_of(100, range(5, 6)), "llama.cpp", None)
    with pytest.raises(StoreError, match="--model"):
        write(path, tables_of(100, range(1, 6)), "speclsp", None)
    assert path.read_bytes() == old
    assert sorted(path.parent.iterdir()) == [path]
    with pytest.raises(StoreError, match=r"none/f\.bin cannot be written"):
        write(path.parent / "none" / "f.bin", tables_of(9, range(1, 2)), "llama.cpp", None)


def test_the_checksum_is_crc_32(path: Path) -> None:
    write(path, tables_of(100, range(1, 3)), "speclsp", VOCABULARY)
    own = open_statistics(path, VOCABULARY).own
    assert own is not None
    end = own.body_offset + own.n_body_bytes
    expected = zlib.crc32(path.read_bytes()[own.body_offset : end]).to_bytes(4, "little")
    assert path.read_bytes()[end : end + 4] == expected
