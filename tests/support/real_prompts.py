"""Fill-in-the-middle prompts cut from the standard library's Python sources, line-anchored."""

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speclsp.drafting.drafter import TokenArray
from speclsp.vocabulary_protocol import Vocabulary

MODULES = (
    "argparse",
    "ast",
    "base64",
    "bdb",
    "bisect",
    "calendar",
    "cmd",
    "code",
    "codecs",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "difflib",
    "dis",
    "enum",
    "fileinput",
)
CUTS = ((0.3, 0.5), (0.55, 0.0), (0.8, 0.35))
"""Share of the file's lines before the cursor's line, and of that line before the cursor."""

STEP = int(os.environ.get("SPECLSP_LOSSLESS_STEP", "12"))
"""The tests try one prompt of so many; `make lossless` tries all."""

N_PREFIX, N_SUFFIX = 360, 110
"""Tokens around the cursor."""


@dataclass(frozen=True)
class RealPrompt:
    """A prompt for the target, and the whole buffer for the drafters."""

    name: str
    tokens: tuple[int, ...]
    prefix: TokenArray
    suffix: TokenArray


def cut_prompts(vocabulary: Vocabulary) -> list[RealPrompt]:
    """Cut each module at each place."""
    library = Path(sysconfig.get_path("stdlib"))
    prompts = []
    for module in MODULES:
        text = (library / f"{module}.py").read_text(encoding="utf-8")
        prompts += [_cut(vocabulary, f"{module}.py", text, *cut) for cut in CUTS]
    return prompts


def _cut(
    vocabulary: Vocabulary, path: str, text: str, file_share: float, line_share: float
) -> RealPrompt:
    lines = text.splitlines(keepends=True)
    line_idx = int(len(lines) * file_share)
    while not lines[line_idx].strip():
        line_idx += 1
    line = lines[line_idx]
    typed = line[: len(line) - len(line.lstrip()) + int(len(line.strip()) * line_share)]
    rest = line[len(typed) :].rstrip("\n")
    before = vocabulary.tokenize("".join(lines[:line_idx]))
    after = vocabulary.tokenize("\n" + "".join(lines[line_idx + 1 :]))
    middle = vocabulary.tokenize(typed)
    fim = vocabulary.fim
    assert None not in (fim.repo, fim.separator, fim.prefix, fim.suffix, fim.middle)
    tokens = [
        fim.repo,
        *vocabulary.tokenize("cpython\n").tolist(),
        fim.separator,
        *vocabulary.tokenize(f"{path}\n").tolist(),
        fim.prefix,
        *before[-N_PREFIX:].tolist(),
        fim.suffix,
        *after[:N_SUFFIX].tolist(),
        fim.middle,
        *middle.tolist(),
    ]
    return RealPrompt(
        name=f"{path}:{line_idx + 1} (rest {rest!r})",
        tokens=tuple(t for t in tokens if t is not None),
        prefix=np.concatenate([before, middle]),
        suffix=after,
    )
