import io
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import as_counts, counted, saved

from speclsp.errors import StoreError
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import StatisticsFile, open_statistics, write
from speclsp.ngrams.table import NgramTables


@dataclass(frozen=True)
class Identity:
    n_tokens: int = 100
    fingerprint: str = "0123456789abcdef"


VOCABULARY = Identity()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("statistics") / "f.ngrams"


def tables_of(n_tokens: int, orders: range) -> NgramTables:
    rng = np.random.default_rng(n_tokens)
    return count_tokens([rng.integers(0, 100, n_tokens).astype(np.int32)], orders)


@given(text=st.lists(st.integers(0, 9), max_size=60), max_order=st.integers(1, 6))
def test_what_is_written_is_found(path, text, max_order):
    orders = range(1, max_order + 1)
    write(path, count_tokens([np.array(text, np.int32)], orders).by_order, "speclsp", VOCABULARY)
    file = open_statistics(path, VOCABULARY)
    assert file.layout == "speclsp"
    assert as_counts(file.tables) == counted(text, orders)
    for ngram, followers in counted(text, orders).items():
        assert followers_of(file, ngram) == followers
        assert followers_of(file, (*ngram[:-1], 50)) == {}


def followers_of(file: StatisticsFile, ngram: tuple[int, ...]) -> dict[int, int]:
    assert all(table.tokens.dtype == np.int32 for table in file.tables.by_order.values())
    return file.tables.followers(ngram)


def test_what_it_says_of_itself(path):
    write(
        path, count_tokens([np.arange(50, dtype=np.int32)], [1, 3]).by_order, "speclsp", VOCABULARY
    )
    header = open_statistics(path, None).header
    assert header is not None
    assert (header.fingerprint, header.n_tokens) == (VOCABULARY.fingerprint, 100)
    assert open_statistics(path, None).n_ngrams == {1: 49, 3: 47}


@given(st.data())
def test_no_damage_goes_unnoticed(path, data):
    write(path, tables_of(300, range(1, 4)).by_order, "speclsp", VOCABULARY)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    is_cut = data.draw(st.booleans())
    path.write_bytes(
        whole[:place] if is_cut else whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    )
    try:
        found = as_counts(open_statistics(path, VOCABULARY).tables)
    except StoreError as error:
        found = {}
        told = f"{error}"
    else:
        told = f"{path} is whole"
    assert told.startswith(str(path))
    # A bit that no array is read by may be another, such as one of a time.
    assert not found or (not is_cut and found == as_counts(tables_of(300, range(1, 4))))


def archive(**changed: object) -> bytes:
    arrays = {
        "vocabulary": VOCABULARY.fingerprint,
        "n_tokens": 100,
        "grams_2": np.array([[1, 2], [3, 4]], np.int32),
        "lengths_2": np.array([1, 1], np.uint32),
        "tokens_2": np.array([5, 6], np.int32),
        "counts_2": np.array([7, 8], np.int32),
    }
    stream = io.BytesIO()
    np.savez(stream, **(arrays | changed))  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (archive(lengths_2=np.array([1, 2], np.uint32)), "do not have as many followers"),
        (archive(grams_2=np.zeros((2, 3), np.int32)), "do not fit together"),
        (archive(tokens_2=np.array([5], np.int32)), "do not fit together"),
        (archive(tokens_2=np.array([5, 100], np.int32)), "tokens outside of 100"),
        (archive(grams_2=np.array([[1, 2], [-3, 4]], np.int32)), "tokens outside of 100"),
        (archive(counts_2=np.array([0, 1], np.int32)), "counts out of range"),
        (archive(counts_2=np.array([{}, {}])), "damaged"),
    ],
)
def test_impossible_content_is_named(path, data, reason):
    path.write_bytes(data)
    with pytest.raises(StoreError, match=reason) as caught:
        open_statistics(path, VOCABULARY)
    assert caught.value.remedy


def test_an_archive_that_unpacks_to_more_than_its_file_is_refused(path):
    stream = io.BytesIO()
    np.savez_compressed(stream, grams_1=np.zeros(1_000_000, np.int32))
    path.write_bytes(stream.getvalue())
    with pytest.raises(StoreError, match="arrays are larger than the file"):
        open_statistics(path, VOCABULARY)


def test_an_archive_whose_members_hold_each_other_is_refused(path):
    """n members of nearly the file's size each: 10,000 of 1 MB would fill 10 GB."""
    data, offsets = b"x" * 10_000, []
    members: list[tuple[bytes, int, int]] = []
    for number in range(50):
        name = b"grams_%d.npy" % number
        members.append((name, zlib.crc32(data), len(data)))
        data = local_header(*members[-1]) + data
        offsets.append(len(data))
    start = len(data)
    for (name, checksum, size), n_bytes in zip(members, offsets, strict=True):
        fields = (20, 20, 0, 0, 0, 0, checksum, size, size, len(name), 0, 0, 0, 0, 0)
        data += struct.pack("<4s6H3I5H2I", b"PK\1\2", *fields, start - n_bytes) + name
    end = (0, 0, len(members), len(members), len(data) - start, start, 0)
    path.write_bytes(data + struct.pack("<4s4H2IH", b"PK\5\6", *end))
    with pytest.raises(StoreError, match="arrays are larger than the file"):
        open_statistics(path, VOCABULARY)


def local_header(name: bytes, checksum: int, size: int) -> bytes:
    fields = (20, 0, 0, 0, 0, checksum, size, size, len(name), 0)
    return struct.pack("<4s5H3I2H", b"PK\3\4", *fields) + name


def test_a_foreign_vocabulary(path):
    write(path, tables_of(100, range(1, 3)).by_order, "speclsp", VOCABULARY)
    with pytest.raises(StoreError, match=r"f.ngrams: it belongs to another vocabulary \("):
        open_statistics(path, Identity(fingerprint="f" * 16))


def test_static_needs_order_two(path):
    write(path, tables_of(100, range(3, 5)).by_order, "speclsp", VOCABULARY)
    assert open_statistics(path, VOCABULARY, "dynamic").role == "dynamic"
    with pytest.raises(StoreError, match="no n-grams of 2 tokens"):
        open_statistics(path, VOCABULARY, "static")
    write(path, tables_of(100, range(2, 3)).by_order, "speclsp", VOCABULARY)
    assert open_statistics(path, VOCABULARY, "static").role == "static"


def test_writing_replaces_the_file_or_leaves_it(path):
    old = saved({(1, 2): {3: 4}})
    path.write_bytes(old)
    with pytest.raises(StoreError, match="not for n-grams of 5"):
        write(path, tables_of(100, range(5, 6)).by_order, "llama.cpp", None)
    with pytest.raises(StoreError, match="--model"):
        write(path, tables_of(100, range(1, 6)).by_order, "speclsp", None)
    assert path.read_bytes() == old
    assert sorted(path.parent.iterdir()) == [path]
    with pytest.raises(StoreError, match=r"none/f\.bin cannot be written"):
        write(path.parent / "none" / "f.bin", tables_of(9, range(1, 2)).by_order, "llama.cpp", None)
