"""Places of held-out files at which models are asked for what stands there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from training.corpus import SourceFile
from training.cutting import indentation, line_end, line_start

Kind = Literal["mid-line", "line start"]

_N_PREFIX_CHARS = 1200
_N_SUFFIX_CHARS = 450
_MIN_EXPECTED = 3


@dataclass(frozen=True, slots=True)
class Probe:
    """One place: the text around the cursor, which stands on a line whose rest is missing."""

    package: str
    path: str
    kind: Kind
    prefix: str
    typed: str
    """The text of the cursor's line before the cursor; ``prefix`` ends before it."""
    expected: str
    suffix: str


def draw_probes(files: Sequence[SourceFile], n_probes: int, seed: int) -> list[Probe]:
    """Draw places, as many of each package; half lie inside a line, half at a line's start.

    What is expected has three characters at least.
    """
    rng = random.Random(seed)
    by_package: dict[str, list[SourceFile]] = {}
    for file in files:
        by_package.setdefault(file.package, []).append(file)
    packages = sorted(by_package)
    probes: list[Probe] = []
    while len(probes) < n_probes:
        package = packages[len(probes) // 2 % len(packages)]
        file = rng.choice(by_package[package])
        kind: Kind = "line start" if len(probes) % 2 else "mid-line"
        probe = _probe(file, kind, rng)
        if probe is not None:
            probes.append(probe)
    return probes


def _probe(file: SourceFile, kind: Kind, rng: random.Random) -> Probe | None:
    text = file.text
    index = rng.randrange(len(text))
    start, end = line_start(text, index), line_end(text, index)
    first = start + indentation(text[start:end])
    cursor = first if kind == "line start" else rng.randint(first, end)
    expected = text[cursor:end].rstrip()
    if (kind == "mid-line" and cursor == first) or len(expected.strip()) < _MIN_EXPECTED:
        return None
    prefix_start = max(0, start - _N_PREFIX_CHARS)
    if prefix_start > 0:
        prefix_start = min(start, line_end(text, prefix_start) + 1)
    return Probe(
        package=file.package,
        path=file.path,
        kind=kind,
        prefix=text[prefix_start:start],
        typed=text[start:cursor],
        expected=expected,
        suffix=text[end : end + _N_SUFFIX_CHARS],
    )
