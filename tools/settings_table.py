"""The pages of settings, written from the one table.

``python tools/settings_table.py docs`` (``make docs``) writes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from speclsp import settings
from speclsp.cli.options import default_text, is_switch, long_option, metavar

BEGIN: Final = "<!-- written by `make docs` -->"
_PAGES: Final = ("settings.md", "settings-advanced.md")
_HEADER: Final = """\
| setting | command line | default | meaning | change |
|---|---|---|---|---|"""
_OPTIONS: Final = """\
`drafter_options` holds them by drafter and name, for example `{"ngram-simple": {"size_n": 8}}`."""
_EFFECT: Final = {
    "live": "at once",
    "engine": "reloads the models",
    "restart": "after a restart",
}


def with_settings(page: str, text: str) -> str:
    """Return a page's text (Markdown) with everything behind its mark written anew.

    ``page`` is the file's name: one has the settings that most people set, the other one the rest,
    a table for each group.
    """
    groups: dict[str, list[str]] = {}
    if page == "settings.md":
        groups["Most used"] = list(settings.MOST_SET)
    else:
        for name in settings.SHOWN:
            if name not in settings.MOST_SET:
                groups.setdefault(settings.info(name).group.capitalize(), []).append(name)
    parts = [text[: text.index(BEGIN)] + BEGIN]
    for title, names in groups.items():
        parts.append(f"## {title}\n\n" + "\n".join((_HEADER, *map(_row, names))))
    if page != "settings.md":
        parts.append(f"## Drafters' options\n\n{_OPTIONS}\n\n" + "\n".join(_option_rows()))
    return "\n\n".join(parts) + "\n"


def _option_rows() -> Iterator[str]:
    yield _HEADER.replace("| setting |", "| drafter, option |")
    for drafter, options in settings.DRAFTER_OPTIONS.items():
        for option, name in options.items():
            yield _row(name, shown=f"`{drafter}`, `{option}`")


def _row(name: str, shown: str = "") -> str:
    row = settings.info(name)
    option = f"{long_option(name)} {metavar(name)}"
    if is_switch(name):
        option = f"{long_option(name)}, --no-{long_option(name).removeprefix('--')}"
    spellings = [option, *([row.short] if row.short else [])]
    spellings += [long_option(alias) for alias in row.aliases]
    language = " By language." if row.per_language else ""
    cells = (
        shown or f"`{name}`",
        ", ".join(f"`{_cell(spelling)}`" for spelling in spellings),
        f"`{_cell(default_text(name))}`",
        _cell(row.help.partition(": ")[2] if shown else row.help) + language,
        _EFFECT[row.scope],
    )
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def write(folder: Path) -> None:
    """Write the pages of settings into FOLDER."""
    for name in _PAGES:
        page = folder / name
        page.write_text(with_settings(name, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
