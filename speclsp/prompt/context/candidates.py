"""Context candidates: pieces of other files that may help at the cursor, in one order.

The result depends on the arguments only; ties are broken by path and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.edits import EditedRegion
from speclsp.prompt.context.similarity import ProjectOutline, best_window, codes_of, names_in
from speclsp.request import PlacedRequest

MAX_CHUNKS: Final = 24
_KNOWN_SHARE: Final = 0.6
"""A candidate is left out if this share of its lines is elsewhere in the prompt."""
_LEAST_LINE: Final = 4
"""Shorter lines, such as lone brackets, are not compared."""

_NEAR_BEFORE: Final = 30
_NEAR_AFTER: Final = 8
"""Lines around the cursor whose names count."""
_MAX_SIMILAR: Final = 8
_MAX_EDITS: Final = 6
_MAX_VIEWED: Final = 2
_VIEWED_LINES: Final = 10

Reason = Literal["edit", "viewed", "similar"]
"""A recent edit, the surroundings of the last cursor in another document, or lines that share
names with those around the cursor."""

_STABILITY: Final[Mapping[Reason, int]] = {"similar": 2, "viewed": 1, "edit": 0}
"""Chunks that change least go first: the KV cache is valid up to the first change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """``text`` begins at ``first_line`` (from 0) of the file ``path``."""

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
        """The last line of its text."""
        return self.first_line + self.text.rstrip("\n").count("\n")

    @property
    def key(self) -> str:
        """Identifies the place: a candidate with the same key and other text is a newer version."""
        return f"{self.reason}:{self.path}:{self.name or self.first_line}"


def ranked(candidates: Iterable[Candidate], visible: str) -> list[Candidate]:
    """Return the candidates, the best first.

    ``visible`` is the part of the document that the prompt may show.  A candidate is left out if
    most of its lines are there or in better candidates.
    """
    known = set(_compared_lines(visible))
    keys: set[str] = set()
    chosen: list[Candidate] = []
    for candidate in sorted(
        candidates, key=lambda c: (-c.score, c.reason, c.path, c.first_line, c.text)
    ):
        lines = _compared_lines(candidate.text)
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


def similar_candidates(request: PlacedRequest, project: ProjectOutline) -> list[Candidate]:
    """Return the windows of other files that share most names with the cursor's lines."""
    before = "\n".join(request.prefix.split("\n")[-_NEAR_BEFORE:])
    after = "\n".join(request.suffix.split("\n", _NEAR_AFTER)[:_NEAR_AFTER])
    query = codes_of(names_in(before + after))
    found: list[Candidate] = []
    for file_idx in project.names.best_files(query, _MAX_SIMILAR + 1):
        path = project.files[file_idx]
        text = None if path == request.path else project.text(path)
        if text is None:
            continue
        lines = text.split("\n")
        window = best_window(lines, query, project.names)
        if window is not None:
            found.append(
                Candidate(
                    path=path,
                    first_line=window.first_line,
                    text="\n".join(lines[window.first_line : window.end_line]) + "\n",
                    reason="similar",
                    detail=f"similar names: {window.similarity:.2f}",
                    score=min(0.9, 0.3 + window.similarity),
                )
            )
    return found


def edited_candidates(
    regions: Iterator[EditedRegion], texts: Mapping[str, Sequence[str]]
) -> list[Candidate]:
    """Return the last edits, the newest first; ``texts`` are the open documents' lines by URI."""
    found: list[Candidate] = []
    for age, region in enumerate(regions):
        lines = texts.get(region.uri)
        if lines is None or age >= _MAX_EDITS:
            continue
        first, text = region.text(lines)
        if text.strip():
            found.append(
                Candidate(
                    path=region.path,
                    first_line=first,
                    text=text,
                    reason="edit",
                    detail=f"edited {_ago(age)}",
                    score=0.85 - 0.1 * age,
                    name=f"edit {region.number}",
                )
            )
    return found


def viewed_candidates(
    requests: Sequence[PlacedRequest], texts: Mapping[str, Sequence[str]]
) -> list[Candidate]:
    """Return the lines around the cursors of the last requests in other documents.

    ``requests`` has the newest first, ``texts`` the open documents' lines by URI.
    """
    found: list[Candidate] = []
    for age, request in enumerate(requests[:_MAX_VIEWED]):
        lines = texts[request.uri]
        # In a notebook the cells above the cursor's come first.
        line = request.text.count("\n", request.cursor - request.offset, request.cursor)
        first = max(0, min(line, len(lines) - 1) - _VIEWED_LINES)
        text = "\n".join(lines[first : first + 2 * _VIEWED_LINES]).strip("\n") + "\n"
        if text.strip():
            found.append(
                Candidate(
                    path=request.path,
                    first_line=first,
                    text=text,
                    reason="viewed",
                    detail=f"looked at {_ago(age)}",
                    score=0.35 - 0.1 * age,
                )
            )
    return found


def _compared_lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if len(line) >= _LEAST_LINE]


def _ago(age: int) -> str:
    return "last" if age == 0 else f"{age + 1} places ago"
