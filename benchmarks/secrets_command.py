"""Planted secrets that are masked, whole and while they are typed, and ordinary code that is."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.tables import Table
from speclsp.secrets.kinds import ISSUED, LED
from speclsp.secrets.masked_text import PLACEHOLDER, masked
from speclsp.secrets.paths import is_secret_path
from tests.support.secret_forms import FORMS, HELD_OUT, ORDINARY_LINES, Form
from tests.support.secret_prefixes import AFTER, BEFORE, leaks, n_shown, shows

_TESTS: Final = re.compile(
    r"(?i:(?:^|[/_.])(?:tests?|specs?|testdata|examples?)(?:[/_.]|$))|Tests?[/.]"
)
_SUFFIXES: Final = re.compile(
    r"\.(?:c|cpp|cs|css|go|h|html|java|js|json|kt|lua|md|php|py|rb|rs|sh|sql|tf|toml|tsx?|ya?ml)"
)
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
        if not _SUFFIXES.fullmatch(path.suffix) or _TESTS.search(str(path.relative_to(folder))):
            continue
        if path.is_file() and not path.is_symlink() and not is_secret_path(path.name):
            yield path.name, path.read_text(encoding="utf-8", errors="replace")


def masked_lines(folder: Path) -> tuple[int, int, list[str]]:
    """Return how many files and lines of code a folder has, and those that are masked, masked."""
    n_files = n_lines = 0
    found: list[str] = []
    for name, text in code_files(folder):
        n_files, n_lines = n_files + 1, n_lines + text.count("\n")
        lines = masked(text, name).split("\n")
        found += (f"{name}: {line.strip()}" for line in lines if PLACEHOLDER in line)
    return n_files, n_lines, found


def masked_ordinary_lines() -> list[tuple[str, str]]:
    """Return the lines written by hand that are masked, and should not be."""
    return [o for o in ORDINARY_LINES if PLACEHOLDER in masked(BEFORE + o[1] + AFTER, o[0])]


def n_masked_while_typed(folder: Path, n_lines: int) -> int:
    """Return how many of the lines drawn from a folder are masked at any point of being typed.

    Lines that are masked whole do not count here.
    """
    lines = [
        (name, above + "\n", line)
        for name, text in code_files(folder)
        for above, line in zip(("", *text.split("\n")), text.split("\n"), strict=False)
        if line.strip() and max(len(line), len(above)) < _LONGEST_LINE
    ]
    rng = random.Random(1)  # noqa: S311 - a sample
    n_found = 0
    for name, above, line in rng.sample(lines, min(n_lines, len(lines))):
        if PLACEHOLDER not in masked(above + line + "\n", name):
            typed = (masked(above + line[:n], name) for n in range(1, len(line)))
            n_found += any(PLACEHOLDER in text for text in typed)
    return n_found


def _by_what_tells(kinds: Iterable[str]) -> dict[str, list[str]]:
    """Return kinds of secrets by what tells of them."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    issued, led = {kind.name for kind in ISSUED}, {kind.name for kind in LED}
    for kind in kinds:
        is_issued = kind in issued or kind.startswith("issuers")
        tells = "what announces it" if kind in led else "its name, or a URL"
        groups["its own form" if is_issued else tells].append(kind)
    return groups


@click.command("secrets")
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seeds", default=60, show_default=True, help="Secrets to plant of each form.")
@click.option("--show", is_flag=True, help="Print the lines of FOLDERS that are masked.")
@click.option(
    "--lines", default=20_000, show_default=True, help="Lines of each folder to type key by key."
)
def secrets_command(folders: tuple[Path, ...], seeds: int, show: bool, lines: int) -> None:
    """Plant secrets of every kind, and mask the code in FOLDERS, which should hold none."""
    table = Table("Planted secrets", ("kind", "planted", "missed"))
    groups = Table("Planted secrets by what tells of them", ("told by", "planted", "missed"))
    for forms, of in ((FORMS, "known forms"), (HELD_OUT, "forms without a rule")):
        counts = n_missed(forms, seeds)
        for group, kinds in _by_what_tells(counts).items():
            sums = [sum(counts[kind][i] for kind in kinds) for i in (1, 0)]
            groups.add(group if forms is FORMS else of, *(f"{n:,}" for n in sums))
        for kind, (missed, planted) in sorted(counts.items()):
            table.add(f"{kind}, {of}" if forms is HELD_OUT else kind, f"{planted:,}", f"{missed:,}")
        table.add(f"all {of}", *(f"{sum(c[i] for c in counts.values()):,}" for i in (1, 0)))
    click.echo(table)
    click.echo(groups)
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
    n_wrong = len(masked_ordinary_lines())
    code.add("written by hand", "", f"{len(ORDINARY_LINES):,}", f"{n_wrong:,}", "", "")
    for folder in folders:
        n_files, n_lines, found = masked_lines(folder)
        click.echo("".join(f"{line[:_LONGEST_LINE]}\n" for line in found if show), nl=False)
        rate = 20_000 * len(found) / max(1, n_lines)
        n_typed = n_masked_while_typed(folder, lines)
        row = (f"{n_files:,}", f"{n_lines:,}", f"{len(found):,}", f"{rate:.2f}")
        code.add(folder.name, *row, f"{n_typed:,} of {lines:,}")
    click.echo(code)
