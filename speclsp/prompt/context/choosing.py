"""Candidates of each kind for one cursor.  Deterministic: ties go by path and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.prompt.context.declarations import declaration_text, declarations
from speclsp.prompt.context.edits import EditedRegion
from speclsp.prompt.context.imports import imported_paths
from speclsp.prompt.context.outline import ProjectOutline
from speclsp.prompt.context.ranking import Candidate
from speclsp.prompt.context.similarity import best_window, codes_of, names_in

_NEAR_BEFORE: Final = 30
_NEAR_AFTER: Final = 8
"""Lines around the cursor whose names count."""
_MAX_DECLARATIONS: Final = 12
_MAX_ELSEWHERE: Final = 2
"""A name that more files declare is ambiguous, and is left out."""
_MAX_SIMILAR: Final = 4
_MAX_SIMILAR_FILES: Final = 8
_MAX_EDITS: Final = 6
_MAX_VIEWED: Final = 2
_VIEWED_LINES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPlace:
    """A cursor in a document: the whole text before it, and after it."""

    uri: str
    path: str
    prefix: str
    suffix: str

    @property
    def near(self) -> str:
        """Return the lines around the cursor."""
        before = self.prefix.split("\n")[-_NEAR_BEFORE:]
        return "\n".join(before) + "\n".join(self.suffix.split("\n", _NEAR_AFTER)[:_NEAR_AFTER])


@dataclass(frozen=True, slots=True)
class ViewedText:
    """A document that was looked at, and the line where the cursor was last."""

    uri: str
    path: str
    text: str
    line: int


def declared_candidates(place: CursorPlace, project: ProjectOutline) -> list[Candidate]:
    """Return declarations of the names around the cursor: of imported files, else if unique."""
    whole = place.prefix + place.suffix
    own = {declared.name for declared in declarations(whole, place.path)}
    imported = imported_paths(whole, place.path, project.paths)
    names = [name for name in _nearest_first(place) if name not in own]
    found: list[Candidate] = []
    for nearness, name in enumerate(names):
        for path, is_imported in _declaring(name, place.path, imported, project):
            base = 1.0 if is_imported else 0.7
            why = "imported" if is_imported else "in the project"
            for candidate in _declaration(project, path, name):
                score = base - 0.5 * nearness / (len(names) or 1)
                found.append(_declared(name, candidate, f"{name} is declared here, {why}", score))
    found.sort(key=lambda c: (-c.score, c.path, c.first_line))
    return found[:_MAX_DECLARATIONS]


def similar_candidates(place: CursorPlace, project: ProjectOutline) -> list[Candidate]:
    """Return the windows of other files that share most names with the cursor's lines."""
    query = codes_of(names_in(place.near))
    found: list[Candidate] = []
    for file_idx, _ in project.names.best_files(query, _MAX_SIMILAR_FILES + 1):
        path = project.files[file_idx]
        text = None if path == place.path else project.text(path)
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
                    detail=f"{window.similarity:.2f} of the names are those at the cursor",
                    score=min(0.9, 0.3 + window.similarity),
                )
            )
    found.sort(key=lambda c: (-c.score, c.path, c.first_line))
    return found[:_MAX_SIMILAR]


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
        score = 0.85 - 0.1 * age
        if text.strip():
            found.append(
                Candidate(
                    path=region.path,
                    first_line=first,
                    text=text,
                    reason="edit",
                    detail=f"edited {_ago(age)}",
                    score=score,
                    name=f"edit {region.number}",
                )
            )
        diff = region.diff(lines) if region.replaces else ""
        if diff:
            found.append(
                Candidate(
                    path=region.path + ".diff",
                    first_line=region.first_line,
                    text=diff,
                    reason="diff",
                    detail=f"how it was edited {_ago(age)}",
                    score=score - 0.15,
                    name=f"edit {region.number}",
                )
            )
    return found


def viewed_candidates(viewed: Sequence[ViewedText]) -> list[Candidate]:
    """Return what stands around the last cursors in other documents, the newest first."""
    found: list[Candidate] = []
    for age, document in enumerate(viewed[:_MAX_VIEWED]):
        lines = document.text.split("\n")
        first = max(0, min(document.line, len(lines) - 1) - _VIEWED_LINES)
        text = "\n".join(lines[first : first + 2 * _VIEWED_LINES]).strip("\n") + "\n"
        if text.strip():
            found.append(
                Candidate(
                    path=document.path,
                    first_line=first,
                    text=text,
                    reason="viewed",
                    detail=f"looked at {_ago(age)}",
                    score=0.35 - 0.1 * age,
                )
            )
    return found


def _nearest_first(place: CursorPlace) -> list[str]:
    """Return the names around the cursor: those before it by their last mention, then the rest."""
    before = "\n".join(place.prefix.split("\n")[-_NEAR_BEFORE:])
    backwards = "\n".join(
        " ".join(reversed(names_in(line))) for line in reversed(before.split("\n"))
    )
    return names_in(backwards + "\n" + place.near)


def _declaring(
    name: str, path: str, imported: Sequence[str], project: ProjectOutline
) -> Iterator[tuple[str, bool]]:
    files = [file for file in project.declaring(name) if file != path]
    from_imports = [file for file in files if file in imported]
    if from_imports:
        yield from ((file, True) for file in from_imports[:_MAX_ELSEWHERE])
    elif len(files) <= _MAX_ELSEWHERE:
        yield from ((file, False) for file in files)


def _declaration(project: ProjectOutline, path: str, name: str) -> Iterator[tuple[str, int, str]]:
    text = project.text(path)
    if text is None:
        return
    lines = text.split("\n")
    all_declared = project.declared(path)
    for declared in all_declared:
        if declared.name == name and declared.line < len(lines):
            yield path, declared.line, declaration_text(lines, declared, all_declared)
            return


def _declared(name: str, found: tuple[str, int, str], detail: str, score: float) -> Candidate:
    path, line, text = found
    return Candidate(
        path=path,
        first_line=line,
        text=text,
        reason="declaration",
        detail=detail,
        score=score,
        name=name,
    )


def _ago(age: int) -> str:
    return "last" if age == 0 else f"{age + 1} places ago"
