"""Source files of the machine at hand, tokenised: something to index that everybody has.

They are the Python files of the standard library and of the packages installed beside speclsp.
Where they do not suffice they are taken again with every hundredth token exchanged.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from speclsp.drafting.drafter import TokenArray
from speclsp.drafting.token_index import FileKey
from speclsp.project.source_text import SourceText, read_source

_VARIED_SHARE: Final = 0.01
_KEY_BYTES: Final = 16
_FOLDERS: Final = ("stdlib", "purelib")

IndexedFile = tuple[FileKey, TokenArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCorpus:
    """Files to index, and others that are not, in no order."""

    files: list[IndexedFile]
    held_out: list[TokenArray]
    n_tokens: int
    """Of ``files``."""
    n_repeated_tokens: int
    """Of these, tokens of files that were taken again with variations."""
    mean_token_chars: float


def source_corpus(
    tokenize: Callable[[str], TokenArray],
    n_tokens: int,
    *,
    seed: int = 1,
    folders: tuple[Path, ...] | None = None,
) -> SourceCorpus:
    """Gather files of ``n_tokens`` tokens together or a little more; every 20th is held out."""
    random = np.random.default_rng(seed)
    paths = _python_files(folders or _python_folders())
    files: dict[FileKey, TokenArray] = {}
    held_out: list[TokenArray] = []
    n_found = n_all = n_chars = 0
    for number in random.permutation(len(paths)).tolist():
        if n_found >= n_tokens:
            break
        source = read_source(paths[number])
        if not isinstance(source, SourceText):
            continue
        tokens = tokenize(source.text)
        n_chars += len(source.text)
        n_all += len(tokens)
        if number % 20 == 0:
            held_out.append(tokens)
        elif source.content not in files:
            files[source.content] = tokens
            n_found += len(tokens)
    originals = list(files.values())
    n_repeated = 0
    for idx in range(n_tokens):
        if n_found + n_repeated >= n_tokens or not n_found:
            break
        tokens = varied(originals[idx % len(originals)], random)
        files[random.bytes(_KEY_BYTES)] = tokens
        n_repeated += len(tokens)
    return SourceCorpus(
        files=list(files.items()),
        held_out=held_out,
        n_tokens=n_found + n_repeated,
        n_repeated_tokens=n_repeated,
        mean_token_chars=n_chars / max(1, n_all),
    )


def varied(tokens: TokenArray, random: np.random.Generator) -> TokenArray:
    """Return a copy in which some tokens, one at least, are others of the same file."""
    copy = tokens.copy()
    n_varied = 1 + int(len(tokens) * _VARIED_SHARE)
    if len(tokens):
        copy[random.integers(0, len(tokens), n_varied)] = random.choice(tokens, n_varied)
    return copy


def _python_folders() -> tuple[Path, ...]:
    return tuple(Path(sysconfig.get_path(name)) for name in _FOLDERS)


def _python_files(folders: tuple[Path, ...]) -> list[str]:
    # One folder may lie in the other.
    return sorted({str(path) for folder in folders for path in folder.rglob("*.py")})
