"""llama.cpp's statistics layout, written and read number by number as ``ngram-cache.cpp`` does."""

import struct
from collections.abc import Iterable, Mapping

from speclsp.ngrams.table import NgramTables

Counts = Mapping[tuple[int, ...], Mapping[int, int]]
"""N-gram → token → how often it followed."""


def record(ngram: Iterable[int], followers: Mapping[int, int]) -> bytes:
    """One entry, as ``common_ngram_cache_save`` writes it."""
    tokens = [*ngram]
    tokens += [-1] * (4 - len(tokens))
    data = struct.pack("=4i", *tokens) + struct.pack("=i", len(followers))
    for token, count in followers.items():
        data += struct.pack("=i", token) + struct.pack("=i", count)
    return data


def saved(counts: Counts) -> bytes:
    """A whole file."""
    return b"".join(record(ngram, followers) for ngram, followers in counts.items())


def loaded(data: bytes) -> dict[tuple[int, ...], dict[int, int]]:
    """What ``common_ngram_cache_load`` makes of a file, its assertions included."""
    counts: dict[tuple[int, ...], dict[int, int]] = {}
    place = 0
    while len(data) - place >= 16:
        tokens = struct.unpack_from("=4i", data, place)
        (n_followers,) = struct.unpack_from("=i", data, place + 16)
        assert n_followers > 0
        place += 20
        followers: dict[int, int] = {}
        for _ in range(n_followers):
            token, count = struct.unpack_from("=2i", data, place)
            assert count > 0
            followers.setdefault(token, count)
            place += 8
        used = tuple(token for token in tokens if token != -1)
        assert tokens == used + (-1,) * (4 - len(used))
        counts.setdefault(used, followers)
    assert place == len(data)
    return counts


def as_counts(tables: NgramTables) -> dict[tuple[int, ...], dict[int, int]]:
    """Everything that tables hold, found by looking each n-gram up."""
    counts: dict[tuple[int, ...], dict[int, int]] = {}
    for table in tables.by_order.values():
        for gram in table.grams.tolist():
            counts[tuple(gram)] = tables.followers(tuple(gram))
        assert sum(len(counts[tuple(gram)]) for gram in table.grams.tolist()) == table.tokens.size
    return counts


def counted(text: Iterable[int], orders: Iterable[int]) -> dict[tuple[int, ...], dict[int, int]]:
    """N-grams of a text, counted one by one as ``common_ngram_cache_update`` does."""
    tokens = list(text)
    counts: dict[tuple[int, ...], dict[int, int]] = {}
    for order in orders:
        for idx in range(order, len(tokens)):
            followers = counts.setdefault(tuple(tokens[idx - order : idx]), {})
            followers[tokens[idx]] = followers.get(tokens[idx], 0) + 1
    return counts
