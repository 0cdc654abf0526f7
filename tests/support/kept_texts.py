"""All text that a server has left on disk: files as they are, and stored tokens as their text."""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from speclsp.vocabulary_protocol import Vocabulary


def kept_texts(folder: Path, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the texts below a folder."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        yield path.read_bytes().decode("utf-8", "replace")
        if path.suffix in {".sqlite", ".sqlite3", ".db"}:
            yield from _database_texts(path, vocabulary)


def detokenised(tokens: Iterable[int], vocabulary: Vocabulary) -> str:
    return b"".join(vocabulary.piece(int(token)) for token in tokens).decode("utf-8", "replace")


def _database_texts(path: Path, vocabulary: Vocabulary) -> Iterator[str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, str):
                        yield value
                    elif isinstance(value, bytes):
                        yield value.decode("utf-8", "replace")
                        yield from _token_texts(value, vocabulary)
    finally:
        connection.close()


def _token_texts(value: bytes, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield what a blob says if it holds packed token ids, compressed or not."""
    for data in (value, _decompressed(value)):
        if data and len(data) % 4 == 0:
            tokens = np.frombuffer(data, dtype="<i4")
            if tokens.min() >= 0 and tokens.max() < vocabulary.n_tokens:
                yield detokenised(tokens, vocabulary)


def _decompressed(value: bytes) -> bytes:
    try:
        return zlib.decompress(value)
    except zlib.error:
        return b""
