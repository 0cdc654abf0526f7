"""The names in a text, which say what it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

NameCodes = NDArray[np.uint32]
"""Checksums of names, sorted, each once: the same in every process, and 4 bytes a name."""

_NAME: Final = re.compile(r"[^\W\d]\w{2,}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS: Final = _words(
    """
    abstract alignas and any args array assert async auto await bool boolean break byte case catch
    char class const continue def default del delete dict double elif else elseif end enum error
    except export extends false final finally float fmt for foreach from func function global goto
    if impl implements import include init inline instanceof int int32 int64 interface is lambda
    len let list local long loop map match mod module mut namespace new nil none nonlocal not null
    nullptr object operator package pass print private protected pub public raise range ref repeat
    require return self set short signed sizeof static str string struct super switch template then
    this throw throws trait true try tuple type typedef typename typeof uint undefined union
    unsafe unsigned until use using val value var virtual void volatile where while with yield
    None True False String self cls the that are with from
    """
)

_PIECE_CHARS: Final = 65_536
"""Text that is searched at a time, in a millisecond: no other thread runs meanwhile."""


def names_in(text: str) -> list[str]:
    """Return the names in a text in the order of their first mention, keywords left out.

    In a text that is longer than a piece, a name where two pieces meet may count as two.
    """
    names: dict[str, None] = {}
    for start in range(0, len(text), _PIECE_CHARS):
        names.update(dict.fromkeys(_NAME.findall(text, start, start + _PIECE_CHARS)))
    return [name for name in names if name not in _KEYWORDS]


def codes_of(names: Iterable[str]) -> NameCodes:
    """Return the checksums of names."""
    codes = [crc32(name.encode("utf-8", "replace")) for name in names]
    return np.unique(np.array(codes, dtype=np.uint32))
