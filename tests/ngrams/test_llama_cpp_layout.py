import io
import struct
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp_statistics import as_counts, loaded, record, saved

from speclsp.errors import StoreError
from speclsp.ngrams.counting import count_tokens, merge
from speclsp.ngrams.llama_cpp_layout import ALL_ORDERS, parse, write
from speclsp.ngrams.reading import read_bytes
from speclsp.ngrams.table import NgramTables

N_VOCAB = 1000

counts_of_files = st.dictionaries(
    st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=4).map(tuple),
    st.dictionaries(st.integers(0, N_VOCAB - 1), st.integers(1, 2**31 - 1), min_size=1, max_size=5),
    min_size=1,
    max_size=40,
)


def read(path: Path, n_vocab: int | None, orders: Collection[int] = ALL_ORDERS) -> NgramTables:
    return parse(path, read_bytes(path), n_vocab, orders)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("statistics") / "f.bin"


@given(counts=counts_of_files)
def test_what_llama_cpp_saves_is_loaded_and_the_other_way_round(path, counts):
    path.write_bytes(saved(counts))
    tables = read(path, N_VOCAB)
    assert as_counts(tables) == counts
    written = io.BytesIO()
    write(merge([tables]).by_order, written)
    assert loaded(written.getvalue()) == counts


GOOD = record([1, 2], {3: 4}) + record([5, 6], {7: 8, 9: 10})
DAMAGED = {
    "empty": (b"", 0, "it is empty"),
    "cut in a header": (GOOD[:40], 28, "truncated: 12 bytes of a record are left"),
    "cut in a pair": (GOOD[:-4], 28, "truncated: of a record's 36 bytes 32 are left"),
    "cut within a number": (GOOD[:-1], 28, "truncated: of a record's 36 bytes 35 are left"),
    "a byte too many": (GOOD + b"\0", 64, "truncated: 1 bytes of a record are left"),
    "no followers": (GOOD + record([1, 3], {}), 64, "claims 0 followers"),
    "followers below zero": (
        GOOD + struct.pack("=5i", 1, 3, -1, -1, -2), 64, "claims -2 followers"
    ),
    "absurdly many followers": (
        GOOD + struct.pack("=5i", 1, 3, -1, -1, 70_000), 64, "claims 70,000 followers"
    ),
    "a count of zero": (record([1, 2], {3: 0}) + GOOD, 24, "a count is 0"),
    "a negative count": (GOOD + record([1, 3], {3: 4, 5: -6}), 64 + 32, "a count is -6"),
    "a foreign n-gram": (GOOD + record([1, N_VOCAB], {3: 4}), 68, "token 1000 is not in a voc"),
    "a foreign follower": (record([1, 3], {N_VOCAB + 5: 4}) + GOOD, 20, "token 1005 is not in"),
    "a negative token": (record([-7, 3], {1: 4}) + GOOD, 0, "token -7 is not in"),
    "a gap": (struct.pack("=7i", 1, -1, 2, -1, 1, 3, 4) + GOOD, 0, "do not stand at its end"),
    "an empty n-gram": (record([], {1: 1}) + GOOD, 0, "has 0 tokens, and 1 to 4 are"),
    "text": (b"No statistics at all, but a line of text.\n", 0, "followers, more than there are"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_file_and_offset(path, name):
    data, offset, reason = DAMAGED[name]
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        read(path, N_VOCAB)
    assert str(caught.value).startswith(f"{path}, byte {offset:,}: ")
    assert reason in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("at", [0, 1, 17, 900, 1999])
@pytest.mark.parametrize("damage", ["count", "token", "length"])
def test_damage_in_a_long_file_is_found_where_it_is(path, at, damage):
    records = [record([idx % 7, idx % 11], {idx % 13: 1, 20: 2}) for idx in range(2000)]
    place = {"token": 4, "length": 16, "count": 24}[damage]
    bad = {"token": 5000, "length": 0, "count": -1}[damage]
    data = bytearray(records[at])
    data[place : place + 4] = struct.pack("=i", bad)
    path.write_bytes(b"".join(records[:at]) + data + b"".join(records[at + 1 :]))
    offset = at * len(records[0]) + (0 if damage == "length" else place)
    with pytest.raises(StoreError, match=f"byte {offset:,}: "):
        read(path, N_VOCAB)


@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(path, data):
    path.write_bytes(data)
    try:
        counts = as_counts(read(path, N_VOCAB))
    except StoreError as error:
        counts = {}
        refusal = str(error)
    else:
        refusal = ""
    assert bool(counts) is not refusal.startswith(str(path))


def test_a_static_file_has_order_two_only(path):
    path.write_bytes(GOOD + record([1, 2, 3], {4: 5}))
    assert as_counts(read(path, N_VOCAB))
    with pytest.raises(StoreError, match="byte 64: an n-gram has 3 tokens, and 2 are expected"):
        read(path, N_VOCAB, [2])


def test_longer_ngrams_have_no_room():
    with pytest.raises(StoreError, match="not for n-grams of 5"):
        write(count_tokens([np.arange(9, dtype=np.int32)], [5]).by_order, io.BytesIO())


@pytest.mark.parametrize("name", ["missing", "folder"])
def test_no_file(path, name):
    place = path.parent if name == "folder" else path.parent / "none.bin"
    with pytest.raises(StoreError, match=str(place)):
        read(place, None)


def test_a_model_is_told_by_its_beginning(path):
    path.write_bytes(b"GGUF" + bytes(96))
    with pytest.raises(StoreError, match="it is a model, not statistics"):
        read(path, None)


def test_an_ngram_that_stands_twice_counts_as_the_sum(path):
    path.write_bytes(record([1, 2], {3: 4, 5: 1}) + record([1, 2], {3: 4}))
    assert as_counts(read(path, N_VOCAB)) == {(1, 2): {3: 8, 5: 1}}
