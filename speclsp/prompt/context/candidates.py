"""Context candidates: ranked pieces of other files that may help at the cursor.

The result depends on the arguments only; ties are broken by path and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.definitions import (
    NAME,
    DefinitionTable,
    definitions_in,
    language_of,
    shown_definition,
)
from speclsp.prompt.context.edited_regions import EditedRegion
from speclsp.seam.request import AnyPlaced

MAX_CHUNKS: Final = 24
_KNOWN_SHARE: Final = 0.6
"""A candidate is left out if this share of its lines is elsewhere in the prompt."""
_LEAST_LINE: Final = 4
"""Shorter lines, such as lone brackets, are not compared."""

_NEAR_BEFORE: Final = 30
_NEAR_AFTER: Final = 8
"""Lines around the cursor whose names count."""
_MAX_DEFINITIONS: Final = 16
_BEST_DEFINITION: Final = 0.3
"""A score below that of any edit: where both compete for the room, edits save more."""
_MAX_FILES: Final = 3
"""A name that more files define is left out, unless it is imported from one of them."""
_LEAST_COMMON: Final = 6
"""So are shorter names of lower case letters, as ``next``."""
_IMPORT: Final = re.compile(
    r"\s*(?:(?:(?:pub )?use|import|from|#\s*include|export .* from)\b|.*\brequire\()"
)
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


def definition_candidates(
    request: AnyPlaced,
    table: DefinitionTable,
    read: Callable[[str], str | None],
    visible: str,
) -> list[ContextChunk]:
    """Return the definitions of the names near the cursor, the imported ones first.

    ``read`` returns the text of a file of ``table``, or None if it can no longer be read.
    ``visible`` is the part of the document that the prompt may show.
    """
    before = request.prefix.split("\n")
    after = request.suffix.split("\n", _NEAR_AFTER)[:_NEAR_AFTER]
    imports = "\n".join(line for line in before if _IMPORT.match(line))
    imported = frozenset(NAME.findall(imports))
    near = [*before[: -_NEAR_BEFORE - 1 : -1], *after]
    names = dict.fromkeys(name for line in near for name in NAME.findall(line))
    lines = request.text.split("\n")
    own = {one.name: lines[one.line] for one in definitions_in(request.path, lines)}
    seen = frozenset(visible.split("\n"))
    texts: dict[str, list[str]] = {}
    found: list[ContextChunk] = []
    for name in sorted(names, key=lambda one: one not in imported):
        if own.get(name) in seen:
            continue
        is_own = name in own and name not in imported
        path = None if is_own else _defined_in(name, request.path, imported, table)
        if path is None and name not in own:
            continue
        path = path or request.path
        if path not in texts:
            text = request.text if path == request.path else read(path)
            texts[path] = [] if text is None else text.split("\n")
        chunk = _definition(name, path, texts[path], len(found))
        if chunk is not None:
            found.append(chunk)
        if len(found) == _MAX_DEFINITIONS:
            break
    return found


def _defined_in(
    name: str, path: str, imported: frozenset[str], table: DefinitionTable
) -> str | None:
    """Return the file that defines a name, another one than ``path``, where it can be told."""
    language = language_of(path)
    files = [one for one in table.files_of(name) if language_of(one) == language and one != path]
    by_import = next((one for one in files if PurePosixPath(one).stem in imported), None)
    if by_import is not None:
        return by_import
    is_common = len(name) < _LEAST_COMMON and name.islower()
    return None if is_common or not 0 < len(files) <= _MAX_FILES else files[0]


def _definition(name: str, path: str, lines: Sequence[str], rank: int) -> ContextChunk | None:
    """Return what is shown of the first definition of a name in a file."""
    found = next((one for one in definitions_in(path, lines) if one.name == name), None)
    if found is None:
        return None
    return ContextChunk(
        path=path,
        text="\n".join(shown_definition(path, lines, found)),
        key=f"definition:{path}:{name}",
        first_line=found.line,
        reason="definition",
        detail=f"defines {name}",
        score=_BEST_DEFINITION - rank / 1000,
    )


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
