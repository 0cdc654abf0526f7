"""Source files of a corpus as tests need them."""

import hashlib

from training.corpus import SourceFile
from training.layouts import SpecialTokens

SPECIAL = SpecialTokens(end=0, prefix=1, middle=2, suffix=3, repo=4, separator=5, pad=6)
N_SPECIAL = 7


def source_file(
    path: str, text: str, *, package: str = "", version: str = "1.0", language: str = "python"
) -> SourceFile:
    """A file under MIT by its package's metadata; its folder names the package."""
    return SourceFile(
        package=package or path.split("/", maxsplit=1)[0],
        version=version,
        licence="MIT",
        judged="metadata",
        language=language,
        path=path,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        text=text,
    )


def encode(text: str) -> list[int]:
    """Characters are the tokens behind the special ones."""
    return [N_SPECIAL + ord(character) for character in text]


def decode(tokens: list[int]) -> str:
    return "".join(chr(t - N_SPECIAL) if t >= N_SPECIAL else f"<{t}>" for t in tokens)
