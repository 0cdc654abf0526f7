"""``python -m benchmarks cases`` and ``python -m benchmarks make-cases``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.case_making import make_cases, write_cases
from benchmarks.cases import EditCase, load_cases

CASES = click.argument(
    "cases_path", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="CASES"
)
REPLAY_SEED = click.option(
    "--replay-seed", type=int, default=0, show_default=True, help="Draws what is replayed."
)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("cases")
@CASES
def cases_command(cases_path: Path) -> None:
    """Check a file of CASES, and show what it holds."""
    cases = load_cases(cases_path)
    console = Console()
    console.print(_table("project", Counter(case.project_name for case in cases)))
    console.print(_table("language", Counter(case.language_id for case in cases)))
    console.print(_table("kind", Counter(case.kind for case in cases)))
    console.print(f"{len(cases)} cases, {_n_chars(cases)} characters typed", highlight=False)


@click.command("make-cases")
@click.argument("old", type=_FOLDER)
@click.argument("new", type=_FOLDER)
@click.option(
    "-o", "--output", "output", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="Folder for cases.jsonl and the project's files.",
)  # fmt: skip
@click.option("--name", help="The project's name; that of NEW where it is left out.")
@click.option(
    "--n-cases", type=click.IntRange(min=1), default=20, show_default=True, help="Most cases."
)
@click.option(
    "--file-chars", type=click.IntRange(min=1), default=100_000, show_default=True,
    help="Longer files are left out.",
)  # fmt: skip
@click.option(
    "--project-chars", type=click.IntRange(min=0), default=400_000, show_default=True,
    help="Characters of other files that come along.",
)  # fmt: skip
@REPLAY_SEED
def make_cases_command(
    old: Path,
    new: Path,
    output: Path,
    name: str | None,
    n_cases: int,
    file_chars: int,
    project_chars: int,
    replay_seed: int,
) -> None:
    """Make cases of what was written between two versions of a project, the folders OLD and NEW."""
    console = Console()
    with console.status("Comparing"):
        made = make_cases(
            old,
            new,
            name=name or new.resolve().name,
            n_cases=n_cases,
            seed=replay_seed,
            n_file_chars=file_chars,
            n_project_chars=project_chars,
        )
        target = write_cases(made, output)
    console.print(f"{len(made.lines)} cases of {made.name}: {target}", highlight=False)


def _table(header: str, numbers: Counter[str]) -> Table:
    table = Table(header, "cases")
    for name, n_cases in numbers.most_common():
        table.add_row(name or "–", str(n_cases))
    return table


def _n_chars(cases: list[EditCase]) -> int:
    return sum(len(case.typed) for case in cases)
