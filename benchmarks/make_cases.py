"""``python -m benchmarks cases`` and ``make-cases``: cases of the differences of two versions.

Places are drawn by a seeded generator, one kind of edit after another and no file or text too
often, so that the cases differ.  Beside the files that were edited, those of the old version come
along that name what was typed, until a budget is used up.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import msgspec

from benchmarks.cases import CaseLine, CasesError, load_cases
from benchmarks.edit_finding import Edit, find_edits
from benchmarks.tables import Table
from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import ScanTally, scan
from speclsp.text.code_reader import read_code
from speclsp.text.languages import LANGUAGES, language_of

N_MOST_TYPED: Final = 480
"""Characters of a longer text are not all replayed by anybody; such edits are left out."""
N_MOST_LINES: Final = 12
N_LEAST_LETTERS: Final = 4
_N_PER_FILE: Final = 5
_PROSE_SHARE: Final = 0.12
"""Share of the cases that may be comments and documentation strings."""
_CASES_FILE: Final = "cases.jsonl"
_DULL: Final = re.compile(r"\b_?_?version_?_?\b|copyright", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z_]\w{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCases:
    """Cases of one project, and the files of the old version that they need, by path."""

    name: str
    lines: tuple[CaseLine, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    language_id: str
    edit: Edit
    is_prose: bool


def make_cases(
    old: Path,
    new: Path,
    *,
    name: str,
    n_cases: int,
    seed: int,
    n_file_chars: int = 100_000,
    n_project_chars: int = 400_000,
) -> ProjectCases:
    """Return up to ``n_cases`` cases of what was written between the folders ``old`` and ``new``.

    Files of more than ``n_file_chars`` characters are left out; ``n_project_chars`` are taken
    along beside the edited files.  Raises :class:`CasesError` where nothing was written.
    """
    before, after = _texts(old, n_file_chars), _texts(new, n_file_chars)
    found = [edit for path in sorted(before.keys() & after.keys())
             for edit in _edits(path, before[path], after[path])]  # fmt: skip
    chosen = _chosen(found, n_cases, random.Random(f"{name} {seed}"))  # noqa: S311 - no secret
    if not chosen:
        raise CasesError(
            f"between {old} and {new} nothing was written that cases could be made of.",
            remedy="Name two versions of one project, whose files have the same paths.",
        )
    lines = [
        CaseLine(
            id=f"{name}-{number:02d}",
            project=name,
            path=one.path,
            language_id=one.language_id,
            kind=one.edit.kind,
            start=one.edit.start,
            end=one.edit.end,
            typed=one.edit.typed,
        )
        for number, one in enumerate(chosen, 1)
    ]
    return ProjectCases(
        name=name, lines=tuple(lines), files=_files(before, chosen, n_project_chars)
    )


def write_cases(made: ProjectCases, folder: Path) -> Path:
    """Write a project's files below ``folder``, and its cases into the file of cases there.

    What was written for a project of that name before is replaced; the others stay.  Returns the
    file of cases.  Raises :class:`CasesError` where that cannot be written.
    """
    target = folder / _CASES_FILE
    root = folder / made.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = _lines_of_others(target, made.name)
        if root.exists():
            shutil.rmtree(root)
        for path, text in made.files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode("utf-8"))
        encoded = [msgspec.json.encode(line) for line in made.lines]
        target.write_bytes(b"".join(line + b"\n" for line in [*kept, *encoded]))
    except OSError as error:
        raise CasesError(f"cannot write {folder}: {error.strerror}.") from error
    return target


def _lines_of_others(target: Path, name: str) -> list[bytes]:
    if not target.is_file():
        return []
    try:
        lines = [line for line in target.read_bytes().splitlines() if line.strip()]
        return [line for line in lines if msgspec.json.decode(line, type=CaseLine).project != name]
    except msgspec.DecodeError as error:
        raise CasesError(
            f"{target} is no file of cases: {error}.", remedy="Name another folder."
        ) from error


def _texts(root: Path, n_file_chars: int) -> dict[str, str]:
    """The project's texts by path, with their line ends."""
    texts: dict[str, str] = {}
    for file in scan(root, IgnoreRules(root, ()), ScanTally()):
        suffix = Path(file.path).suffix.lower()
        if suffix in LANGUAGES and suffix != ".pyi":  # stubs have no bodies to type
            try:
                text = Path(file.path).read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if len(text) <= n_file_chars and "\0" not in text:
                texts[file.relative] = text
    return texts


def _edits(path: str, old: str, new: str) -> Iterator[_Found]:
    language_id = LANGUAGES[Path(path).suffix.lower()]
    for edit in find_edits(old, new):
        if not _is_worth_replaying(edit.typed, old[edit.start : edit.end]):
            continue
        half = old[: edit.start] + edit.typed[: (len(edit.typed) + 1) // 2]
        is_prose = read_code(language_of(language_id, path), half).scope != "code"
        yield _Found(path, language_id, edit, is_prose)


def _is_worth_replaying(typed: str, replaced: str) -> bool:
    """Return whether the edit is new text, short enough, and more than new indentation."""
    is_short = len(typed) <= N_MOST_TYPED and len(typed.strip().splitlines()) <= N_MOST_LINES
    n_letters = sum(char.isalpha() for char in typed)
    return (
        is_short
        and n_letters >= N_LEAST_LETTERS
        and _dense(typed) != _dense(replaced)
        and not _DULL.search(typed)
    )


def _dense(text: str) -> str:
    return "".join(text.split())


def _chosen(found: Sequence[_Found], n_cases: int, generator: random.Random) -> list[_Found]:
    """Draw from one kind of edit after another; return them in the files' order."""
    waiting: dict[str, list[_Found]] = {}
    for one in found:
        waiting.setdefault(one.edit.kind, []).append(one)
    for ones in waiting.values():
        generator.shuffle(ones)
    chosen: list[_Found] = []
    n_of_file: Counter[str] = Counter()
    texts: set[str] = set()
    n_prose = 0
    while len(chosen) < n_cases and any(waiting.values()):
        for kind in sorted(waiting):
            if not waiting[kind] or len(chosen) == n_cases:
                continue
            one = waiting[kind].pop()
            dense = _dense(one.edit.typed)
            is_too_much = n_of_file[one.path] >= _N_PER_FILE or dense in texts
            if is_too_much or (one.is_prose and n_prose >= _PROSE_SHARE * n_cases):
                continue
            n_prose += one.is_prose
            n_of_file[one.path] += 1
            texts.add(dense)
            chosen.append(one)
    return sorted(chosen, key=lambda one: (one.path, one.edit.start))


def _files(texts: Mapping[str, str], chosen: Sequence[_Found], n_chars: int) -> dict[str, str]:
    """Return the edited files, and those that share most names with the typed text."""
    files = {one.path: texts[one.path] for one in chosen}
    words = {word for one in chosen for word in _WORD.findall(one.edit.typed)}
    shared = {
        path: len(words.intersection(_WORD.findall(text)))
        for path, text in texts.items()
        if path not in files
    }
    for path in sorted(shared, key=lambda path: (-shared[path], path)):
        if shared[path] and len(texts[path]) <= n_chars:
            files[path] = texts[path]
            n_chars -= len(texts[path])
    return dict(sorted(files.items()))


def show_cases(cases_path: Path) -> None:
    """Check a file of cases, and print what it holds."""
    cases = load_cases(cases_path)
    for name, of in (
        ("project", lambda case: case.project_name),
        ("language", lambda case: case.language_id),
        ("kind", lambda case: case.kind),
    ):
        table = Table("", (name, "cases"))
        for value, n_cases in Counter(map(of, cases)).most_common():
            table.add(value or "–", str(n_cases))
        click.echo(table)
    n_chars = sum(len(case.typed) for case in cases)
    click.echo(f"{len(cases)} cases, {n_chars} characters typed")


def make_cases_file(
    old: Path, new: Path, *, output: Path, name: str | None, n_cases: int, replay_seed: int
) -> None:
    """Make cases of two versions of a project, and write them."""
    made = make_cases(old, new, name=name or new.resolve().name, n_cases=n_cases, seed=replay_seed)
    target = write_cases(made, output)
    click.echo(f"{len(made.lines)} cases of {made.name}: {target}")
