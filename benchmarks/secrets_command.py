"""Planted secrets that are masked, whole and while they are typed, and ordinary code that is."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.tables import Table
from speclsp.secrets.masked_text import PLACEHOLDER, masked
from tests.support.held_out_forms import HELD_OUT
from tests.support.secret_forms import FORMS, Form
from tests.support.secret_prefixes import AFTER, BEFORE, leaks, n_shown, shows

_TESTS: Final = re.compile(r"(?i)(?:^|[/_.])(?:tests?|testdata|examples?)(?:[/_.]|$)")
_SUFFIXES: Final = frozenset((".py", ".ts", ".js", ".go"))
_LONGEST_LINE: Final = 200


def n_missed(forms: Sequence[Form], n_seeds: int) -> dict[str, tuple[int, int]]:
    """Return, for each kind, how many of the planted secrets are left, and how many there are."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for form in forms:
        for seed in range(n_seeds):
            line, secret = form.drawn(seed)
            counts[form.kind][0] += shows(secret, masked(BEFORE + line + AFTER, form.name))
            counts[form.kind][1] += 1
    return {kind: (missed, planted) for kind, (missed, planted) in counts.items()}


def shown_while_typed(forms: Sequence[Form], n_seeds: int) -> list[int]:
    """Return how much is shown of each secret that shows too much at some point of being typed."""
    most = []
    for form in forms:
        for seed in range(n_seeds):
            _, secret = form.drawn(seed)
            texts = leaks(form, seed)
            if texts:
                most.append(max(n_shown(secret, masked(text, form.name)) for text in texts))
    return most


def code_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the code in a folder, but for its tests."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES and not _TESTS.search(str(path)) and path.is_file():
            yield path.name, path.read_text(encoding="utf-8", errors="replace")


def n_masked(folder: Path) -> tuple[int, int, int]:
    """Return files, lines and masked places of the code in a folder."""
    n_files = n_lines = n_places = 0
    for name, text in code_files(folder):
        n_files, n_lines = n_files + 1, n_lines + text.count("\n")
        n_places += masked(text, name).count(PLACEHOLDER)
    return n_files, n_lines, n_places


def n_masked_while_typed(folder: Path, n_lines: int, seed: int = 1) -> int:
    """Return how many of the lines drawn from a folder are masked at any point of being typed.

    Lines that are masked whole do not count here.
    """
    lines = [
        (name, above + "\n", line)
        for name, text in code_files(folder)
        for above, line in zip(("", *text.split("\n")), text.split("\n"), strict=False)
        if line.strip() and max(len(line), len(above)) < _LONGEST_LINE
    ]
    rng = random.Random(seed)  # noqa: S311 - a sample
    n_found = 0
    for name, above, line in rng.sample(lines, min(n_lines, len(lines))):
        if PLACEHOLDER not in masked(above + line + "\n", name):
            typed = (masked(above + line[:n], name) for n in range(1, len(line)))
            n_found += any(PLACEHOLDER in text for text in typed)
    return n_found


@click.command("secrets")
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seeds", default=60, show_default=True, help="Secrets to plant of each form.")
@click.option(
    "--lines", default=20_000, show_default=True, help="Lines of each folder to type key by key."
)
def secrets_command(folders: tuple[Path, ...], seeds: int, lines: int) -> None:
    """Plant secrets of every kind, and mask the code in FOLDERS, which should hold none."""
    table = Table("Planted secrets", ("kind", "planted", "missed"))
    for forms, of in ((FORMS, "known forms"), (HELD_OUT, "forms without a rule")):
        counts = n_missed(forms, seeds)
        for kind, (missed, planted) in sorted(counts.items()):
            table.add(f"{kind}, {of}" if forms is HELD_OUT else kind, f"{planted:,}", f"{missed:,}")
        table.add(f"all {of}", *(f"{sum(c[i] for c in counts.values()):,}" for i in (1, 0)))
    click.echo(table)
    typed = Table(
        "Secrets shown while they are typed", ("forms", "typed", "shown", "most characters")
    )
    n_seeds = max(1, seeds // 6)
    passwords = [form for form in FORMS if form.is_password]
    keys = [form for form in FORMS if not form.is_password]
    for forms, name in ((passwords, "passwords"), (keys, "keys")):
        shown = shown_while_typed(forms, n_seeds)
        n_most = f"{max(shown, default=0)}"
        typed.add(name, f"{len(forms) * n_seeds:,}", f"{len(shown):,}", n_most)
    click.echo(typed)
    columns = ("folder", "files", "lines", "masked", "per 20,000 lines", "while typed")
    code = Table("Ordinary code", columns)
    for folder in folders:
        n_files, n_lines, n_places = n_masked(folder)
        rate = 20_000 * n_places / max(1, n_lines)
        n_typed = n_masked_while_typed(folder, lines)
        row = (f"{n_files:,}", f"{n_lines:,}", f"{n_places:,}", f"{rate:.2f}")
        code.add(folder.name, *row, f"{n_typed:,} of {lines:,}")
    if folders:
        click.echo(code)
