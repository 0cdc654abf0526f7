"""Context candidates: ranked pieces of other files that may help at the cursor.

The result depends on the arguments only; ties are broken by path and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.edited_regions import EditedRegion
from speclsp.prompt.context.similarity import NameTable, best_window, codes_of, names_in
from speclsp.requests import AnyPlaced

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


def ranked(candidates: Iterable[ContextChunk], visible: str) -> list[ContextChunk]:
    """Return the candidates, the best first.

    ``visible`` is the part of the document that the prompt may show.  A candidate is left out if
    most of its lines are there or in better candidates.
    """
    known = set(_compared_lines(visible))
    keys: set[str] = set()
    chosen: list[ContextChunk] = []
    for chunk in sorted(
        candidates, key=lambda c: (-c.score, c.reason, c.path, c.first_line, c.text)
    ):
        lines = _compared_lines(chunk.text)
        n_known = sum(line in known for line in lines)
        if not lines or n_known >= _KNOWN_SHARE * len(lines) or chunk.key in keys:
            continue
        known.update(lines)
        keys.add(chunk.key)
        chosen.append(chunk)
        if len(chosen) == MAX_CHUNKS:
            break
    return chosen


def similar_candidates(
    request: AnyPlaced, names: NameTable, read: Callable[[str], str | None]
) -> list[ContextChunk]:
    """Return the windows of other files that share most names with the cursor's lines.

    ``read`` returns the text of a file of ``names``, or None if it can no longer be read.
    """
    before = "\n".join(request.prefix.split("\n")[-_NEAR_BEFORE:])
    after = "\n".join(request.suffix.split("\n", _NEAR_AFTER)[:_NEAR_AFTER])
    query = codes_of(names_in(before + after))
    found: list[ContextChunk] = []
    for path in names.best_files(query, _MAX_SIMILAR + 1):
        text = None if path == request.path else read(path)
        if text is None:
            continue
        lines = text.split("\n")
        window = best_window(lines, query, names)
        if window is not None:
            found.append(
                ContextChunk(
                    path=path,
                    text="\n".join(lines[window.first_line : window.end_line]).rstrip("\n"),
                    key=f"similar:{path}:{window.first_line}",
                    first_line=window.first_line,
                    reason="similar",
                    detail=f"similar names: {window.similarity:.2f}",
                    score=min(0.9, 0.3 + window.similarity),
                )
            )
    return found


def edited_candidates(
    regions: Sequence[EditedRegion], texts: Mapping[str, Sequence[str]]
) -> list[ContextChunk]:
    """Return the last edits, the newest first; ``texts`` are the open documents' lines by URI."""
    found: list[ContextChunk] = []
    for age, region in enumerate(regions):
        lines = texts.get(region.uri)
        if lines is None or age >= _MAX_EDITS:
            continue
        first, text = region.text(lines)
        if text.strip():
            found.append(
                ContextChunk(
                    path=region.path,
                    text=text.rstrip("\n"),
                    key=f"edit:{region.path}:{region.number}",
                    first_line=first,
                    reason="edit",
                    detail=f"edited {age + 1} places ago" if age else "edited last",
                    score=0.85 - 0.1 * age,
                )
            )
    return found


def _compared_lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if len(line) >= _LEAST_LINE]
