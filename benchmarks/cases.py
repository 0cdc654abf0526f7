"""Cases: text that a human typed at a place in a file, stored as JSON lines.

``benchmarks/cases.md`` has the format.
A case names the file as it was before the edit, and where the text was inserted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from speclsp.errors import SpecLspError
from speclsp.printable import printable

_REMEDY: Final = (
    "benchmarks/cases.md describes the format; `python -m benchmarks cases FILE` checks a file."
)
_N_PROBLEMS_SHOWN: Final = 20


class CasesError(SpecLspError):
    """A file of cases cannot be read or is not valid: a line for each problem."""

    def __init__(self, *problems: str, remedy: str = "") -> None:
        super().__init__("", remedy=remedy)
        self.message = "\n".join(map(printable, problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCase:
    """One edit: ``typed`` was written between ``prefix`` and ``suffix``."""

    id: str
    project: Path | None
    """The folder that the file lies in, as it was before the edit; None for none."""
    path: str
    """Of the file within the project, with slashes."""
    language_id: str
    prefix: str
    typed: str
    suffix: str
    replaced: str = ""
    """What stood there before, and was deleted first."""
    kind: str = ""
    """The kind of edit; tables group by it."""

    @property
    def before(self) -> str:
        """The file's text before the edit."""
        return self.prefix + self.replaced + self.suffix

    @property
    def project_name(self) -> str:
        """The project folder's name, empty where there is none."""
        return self.project.name if self.project is not None else ""


class CaseLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A line of a file of cases.

    Either ``prefix`` and ``suffix`` are given, or ``start`` and ``end``: the characters (code
    points) of the project's file that ``typed`` replaces.
    """

    id: str = ""
    project: str = ""
    """A folder, relative to the file of cases."""
    path: str
    language_id: str = ""
    kind: str = ""
    start: int | None = None
    end: int | None = None
    typed: str
    prefix: str | None = None
    suffix: str | None = None


def load_cases(path: Path) -> list[EditCase]:
    """Read a file of cases.

    Raises :class:`CasesError` with line and field of each problem, 20 at most.
    """
    cases: list[EditCase] = []
    problems: list[str] = []
    texts: dict[Path, str] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            cases.append(_case(msgspec.json.decode(line, type=CaseLine), number, path, texts))
        except (msgspec.DecodeError, _LineError, UnicodeDecodeError) as error:
            problems.append(f"{path}, line {number}: {error}.")
    seen: dict[str, int] = {}
    for case in cases:
        seen[case.id] = seen.get(case.id, 0) + 1
    problems += [f"{path}: {n} cases have the `id` {name!r}." for name, n in seen.items() if n > 1]
    if problems:
        n_more = len(problems) - _N_PROBLEMS_SHOWN
        more = [f"and {n_more} more."] if n_more > 0 else []
        raise CasesError(*problems[:_N_PROBLEMS_SHOWN], *more, remedy=_REMEDY)
    if not cases:
        raise CasesError(f"{path} holds no cases.", remedy=_REMEDY)
    return cases


def drawn_cases(cases: Sequence[EditCase], n_cases: int, seed: int) -> list[EditCase]:
    """Return ``n_cases`` of the cases in their order, drawn evenly; all where there are no more."""
    if n_cases >= len(cases):
        return list(cases)
    generator = random.Random(f"cases {seed}")  # noqa: S311 - no secret
    return [cases[idx] for idx in sorted(generator.sample(range(len(cases)), n_cases))]


class _LineError(Exception):
    """An invalid line."""


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise CasesError(f"cannot read {path}: {error.strerror}.", remedy=_REMEDY) from error


def _case(line: CaseLine, number: int, source: Path, texts: dict[Path, str]) -> EditCase:
    if not line.typed:
        raise _LineError("`typed` is empty")
    inner = PurePosixPath(line.path)
    if not line.path or inner.is_absolute() or ".." in inner.parts:
        raise _LineError(f"`path` must lie inside the project, and {line.path!r} does not")
    project = source.parent / line.project if line.project else None
    if project is not None and not project.is_dir():
        raise _LineError(f"`project`: there is no folder {project}")
    prefix, replaced, suffix = _around(line, project, texts)
    return EditCase(
        id=line.id or f"line {number}",
        project=project,
        path=line.path,
        language_id=line.language_id,
        prefix=prefix,
        typed=line.typed,
        suffix=suffix,
        replaced=replaced,
        kind=line.kind,
    )


def _around(line: CaseLine, project: Path | None, texts: dict[Path, str]) -> tuple[str, str, str]:
    """Return the text before what was typed, what that replaced, and the text after it."""
    if line.prefix is not None and line.suffix is not None:
        if line.start is not None or line.end is not None:
            raise _LineError("`start` and `end` stand beside `prefix` and `suffix`; give one pair")
        return line.prefix, "", line.suffix
    if line.prefix is not None or line.suffix is not None:
        missing = "suffix" if line.suffix is None else "prefix"
        raise _LineError(f"`{missing}` is missing")
    if line.start is None or line.end is None:
        missing = "start" if line.start is None else "end"
        raise _LineError(f"`{missing}` is missing, and so are `prefix` and `suffix`")
    if project is None:
        raise _LineError("`start` and `end` need a `project` whose file they are places of")
    file = project / line.path
    if file not in texts:
        texts[file] = _text(file)
    text = texts[file]
    if not 0 <= line.start <= line.end <= len(text):
        raise _LineError(
            f"`start` and `end` are {line.start} and {line.end}, and {file} has {len(text)} "
            "characters"
        )
    return text[: line.start], text[line.start : line.end], text[line.end :]


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        raise _LineError(f"`path`: cannot read {file}: {error.strerror}") from error
