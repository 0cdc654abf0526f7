"""Pieces of other files that may help at the cursor, in one order over all kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.prompt.chunks import ContextChunk

MAX_CHUNKS: Final = 24
_KNOWN_SHARE: Final = 0.6
"""Share of a candidate's lines that may stand elsewhere in the prompt."""
_LEAST_LINE: Final = 4
"""Shorter lines, such as lone brackets, are not compared."""

_STABILITY: Final = {"declaration": 3, "similar": 2, "viewed": 1, "edit": 0, "diff": 0}
"""Kinds that change least go first: the KV cache is valid up to the first change."""


Reason = Literal["edit", "diff", "declaration", "viewed", "similar"]
"""What was edited last, how, what a name near the cursor means, what was looked at last, and what
looks like the text around the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """``text`` stands at ``first_line`` (from 0) of the file ``path``."""

    path: str
    """Relative to its workspace folder, with slashes."""
    first_line: int
    text: str
    reason: Reason
    detail: str
    """The reason in words, for `speclsp explain`."""
    score: float
    """From 0 to 1, comparable between all candidates."""
    name: str = ""
    """Identifies it within its file while lines move; "" for its first line."""

    @property
    def last_line(self) -> int:
        """The last line that it covers."""
        return self.first_line + self.text.rstrip("\n").count("\n")

    @property
    def key(self) -> str:
        """Identifies the place: a candidate with the same key and other text is a newer version."""
        return f"{self.reason}:{self.path}:{self.name or self.first_line}"


def ranked(candidates: Iterable[Candidate], visible: str) -> list[Candidate]:
    """Return the candidates, the best first; ``visible`` is what the prompt's windows may show.

    One whose lines are mostly known already, from there or from better ones, is left out.
    """
    known = set(_telling_lines(visible))
    keys: set[str] = set()
    chosen: list[Candidate] = []
    for candidate in sorted(
        candidates, key=lambda c: (-c.score, c.reason, c.path, c.first_line, c.text)
    ):
        lines = _telling_lines(candidate.text)
        n_known = sum(line in known for line in lines)
        if not lines or n_known >= _KNOWN_SHARE * len(lines) or candidate.key in keys:
            continue
        known.update(lines)
        keys.add(candidate.key)
        chosen.append(candidate)
        if len(chosen) == MAX_CHUNKS:
            break
    return chosen


def as_chunk(candidate: Candidate) -> ContextChunk:
    """Return a candidate as the prompt takes it."""
    return ContextChunk(
        path=candidate.path,
        text=candidate.text.rstrip("\n"),
        key=candidate.key,
        stability=_STABILITY[candidate.reason],
    )


def _telling_lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if len(line) >= _LEAST_LINE]
