"""Planted secrets that are masked, and ordinary code that is."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import click

from benchmarks.secret_forms import FORMS
from benchmarks.tables import Table
from speclsp.secrets.masked_text import PLACEHOLDER, masked

_BEFORE, _AFTER = "x = 1\n", "\ny = 2\n"


def n_missed(n_seeds: int) -> dict[str, tuple[int, int]]:
    """Return, for each kind, how many of the planted secrets are left, and how many there are."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for form in FORMS:
        for seed in range(n_seeds):
            line, secret = form.drawn(seed)
            left = masked(_BEFORE + line + _AFTER, form.name)
            counts[form.kind][0] += PLACEHOLDER not in left or secret in left
            counts[form.kind][1] += 1
    return {kind: (missed, planted) for kind, (missed, planted) in counts.items()}


def n_masked(folder: Path) -> tuple[int, int, int]:
    """Return files, lines and masked places of the code in a folder, but for its tests."""
    n_files = n_lines = n_places = 0
    for path in sorted(folder.rglob("*")):
        is_test = re.search(r"(?i)(?:^|[/_.])(?:tests?|testdata|examples?)(?:[/_.]|$)", str(path))
        if is_test or path.suffix not in {".py", ".ts", ".js", ".go"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        n_files, n_lines = n_files + 1, n_lines + text.count("\n")
        n_places += masked(text, path.name).count(PLACEHOLDER)
    return n_files, n_lines, n_places


@click.command("secrets")
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seeds", default=60, show_default=True, help="Secrets to plant of each form.")
def secrets_command(folders: tuple[Path, ...], seeds: int) -> None:
    """Plant secrets of every kind, and mask the code in FOLDERS, which should hold none."""
    table = Table("Planted secrets", ("kind", "planted", "missed"))
    counts = n_missed(seeds)
    for kind, (missed, planted) in sorted(counts.items()):
        table.add(kind, f"{planted:,}", f"{missed:,}")
    table.add("all", *(f"{sum(c[i] for c in counts.values()):,}" for i in (1, 0)))
    click.echo(table)
    code = Table("Ordinary code", ("folder", "files", "lines", "masked", "per 20,000 lines"))
    for folder in folders:
        n_files, n_lines, n_places = n_masked(folder)
        rate = 20_000 * n_places / max(1, n_lines)
        code.add(folder.name, f"{n_files:,}", f"{n_lines:,}", f"{n_places:,}", f"{rate:.2f}")
    if folders:
        click.echo(code)
