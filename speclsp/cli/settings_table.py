"""The README's table of settings, written from the one table.

``python -m speclsp.cli.settings_table README.md`` (``make docs``) writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from speclsp import settings
from speclsp.cli.options import default_text, is_switch, long_option, metavar

BEGIN = "<!-- settings: written by `make docs` -->"
END = "<!-- end of settings -->"

_HEADER = ("| setting | command line | default | meaning | change |", "|---|---|---|---|---|")
_EFFECT = {"live": "at once", "engine": "reloads the models", "restart": "after a restart"}


def settings_table() -> str:
    """Return the tables in Markdown, one for each group."""
    groups: dict[str, list[str]] = {}
    for name in settings.FIELDS:
        groups.setdefault(settings.info(name).group, []).append(name)
    parts: list[str] = []
    for group, names in groups.items():
        parts += [f"### Settings: {group}", ""]
        parts += _HEADER
        parts += [_row(name) for name in names]
        parts.append("")
    return "\n".join(parts)


def with_settings_table(text: str) -> str:
    """Return a document with the table between its two markers written anew."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n\n{settings_table()}\n{END}", text)


def _row(name: str) -> str:
    row = settings.info(name)
    option = f"{long_option(name)} {metavar(name)}"
    if is_switch(name):
        option = f"{long_option(name)}, --no-{long_option(name).removeprefix('--')}"
    spellings = [option, *([row.short] if row.short else [])]
    spellings += [long_option(alias) for alias in row.aliases]
    language = " By language." if row.per_language else ""
    cells = (
        f"`{name}`",
        ", ".join(f"`{_cell(spelling)}`" for spelling in spellings),
        f"`{_cell(default_text(name))}`",
        _cell(row.help) + language,
        _EFFECT[row.scope],
    )
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@click.command()
@click.argument("document", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def write(document: Path) -> None:
    """Write the table of settings between the markers of DOCUMENT."""
    text = document.read_text(encoding="utf-8")
    document.write_text(with_settings_table(text), encoding="utf-8")


if __name__ == "__main__":
    write()
