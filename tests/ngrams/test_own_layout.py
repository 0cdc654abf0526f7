from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import as_counts, counted, saved

from speclsp.errors import StoreError
from speclsp.ngrams import own_layout
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import StatisticsFile, open_statistics, write
from speclsp.ngrams.table import NgramTables


@dataclass(frozen=True)
class Identity:
    n_tokens: int = 100
    fingerprint: str = "0123456789abcdef"


VOCABULARY = Identity()
# Of a file that the first release wrote: files of former releases stay readable.
VERSION_1 = "0b995323529e19473417abfd487b9db4514025bc6a45f59de49d77378a2864d4"


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
    assert as_counts(file.tables) == counted(text, orders)
    for ngram, followers in counted(text, orders).items():
        assert followers_of(file, ngram) == followers
        assert followers_of(file, (*ngram[:-1], 50)) == {}


def followers_of(file: StatisticsFile, ngram: tuple[int, ...]) -> dict[int, int]:
    found = file.tables.followers(ngram)
    assert (found.tokens.dtype, found.tokens.dtype.isnative) == (np.int32, True)
    return dict(zip(found.tokens.tolist(), found.counts.tolist(), strict=True))


def test_what_it_says_of_itself(path: Path) -> None:
    write(path, count_tokens([np.arange(50, dtype=np.int32)], [1, 3]), "speclsp", VOCABULARY)
    header = open_statistics(path, None).header
    assert header is not None
    assert (header.fingerprint, header.n_tokens) == (VOCABULARY.fingerprint, 100)
    assert [(t.order, t.n_ngrams, t.n_followers) for t in header.tables] == [
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


# What is changed, where the damage is said to be, and why.
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
        open_statistics(path, VOCABULARY)
    assert caught.value.message.startswith(f"{path}, byte ")
    assert where in caught.value.message
    assert reason in caught.value.message
    assert caught.value.remedy


def test_each_mib_has_its_checksum(path: Path) -> None:
    write(path, tables_of(60_000, range(3, 5)), "speclsp", VOCABULARY)
    data = bytearray(path.read_bytes())
    assert len(data) > 2 * own_layout.BLOCK_BYTES
    start = body_offset(data) + own_layout.BLOCK_BYTES
    data[own_layout.BLOCK_BYTES + 5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"byte {start:,}: the checksum"):
        open_statistics(path, VOCABULARY)


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


def body_offset(data: bytes) -> int:
    n_header_bytes = int.from_bytes(data[12:16], "little")
    return -(-(24 + n_header_bytes) // 64) * 64


def test_the_checksum_is_crc_32(path: Path) -> None:
    write(path, tables_of(100, range(1, 3)), "speclsp", VOCABULARY)
    data = path.read_bytes()
    body = data[body_offset(data) : -8]
    assert data[-8:-4] == zlib.crc32(body).to_bytes(4, "little")


def test_the_bytes_of_a_file_are_those_of_version_1(path: Path) -> None:
    write(path, tables_of(200, range(1, 4)), "speclsp", VOCABULARY)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == VERSION_1
