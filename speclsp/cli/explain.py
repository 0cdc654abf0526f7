"""``speclsp explain``: the prompt at a place in a file, and the reason for each part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from speclsp.cli.options import SettingsCommand, given_settings
from speclsp.cli.without_editor import running
from speclsp.completer.explaining import PromptExplanation
from speclsp.completer.local import LocalCompleter
from speclsp.errors import SpecLspError
from speclsp.printable import printable
from speclsp.project.repository import find_repository, repository_name
from speclsp.request import CompletionRequest, Document, WorkspaceFolder
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings


@click.command(cls=SettingsCommand)
@click.argument("place", metavar="FILE:LINE:COL")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder; without it the file's repository, or the file's folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def explain(place: str, project: Path | None, *, as_json: bool, **options: Any) -> None:
    """Print the prompt for a cursor: its parts, each chunk of context with its reason and tokens.

    Also prints how much the KV cache reuses of the prompt of one keystroke earlier. LINE and COL
    count from 1; COL 1 is before the first character.
    """
    file, prefix, suffix = _split_at(place)
    folder = Path(os.path.abspath(project)) if project else _folder_of(file)  # noqa: PTH100
    resolved = given_settings(options)
    if resolved.engine_listens:
        raise SpecLspError(
            f"The engine at {resolved.engine_host} makes the prompt, on the other machine.",
            remedy="Run `speclsp explain` there, or without engine_url.",
        )
    explanation = _explain(resolved, folder, file, prefix, suffix)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(explanation), indent=2))
    else:
        _print(Console(highlight=False, markup=False), place, explanation)


def _split_at(place: str) -> tuple[Path, str, str]:
    """Return the file of ``FILE:LINE:COL``, absolute, and the text before and after the cursor."""
    name, line_text, column_text = ([*place.rsplit(":", 2), "", ""])[:3]
    if not (name and line_text.isdecimal() and column_text.isdecimal()):
        raise click.BadParameter(f"{place!r} is not FILE:LINE:COL, for example shop/cart.py:12:5.")
    file = Path(os.path.abspath(name))  # noqa: PTH100  .. goes, links stay
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise click.BadParameter(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{name} is not UTF-8 text.") from error
    lines = text.split("\n")
    line_idx, column = int(line_text) - 1, int(column_text) - 1
    if not 0 <= line_idx < len(lines):
        raise click.BadParameter(f"{name} has the lines 1 to {len(lines)}, not {line_text}.")
    if not 0 <= column <= len(lines[line_idx]):
        n_columns = len(lines[line_idx]) + 1
        raise click.BadParameter(
            f"line {line_text} of {name} has the columns 1 to {n_columns}, not {column_text}."
        )
    offset = sum(len(line) + 1 for line in lines[:line_idx]) + column
    return file, text[:offset], text[offset:]


def _folder_of(file: Path) -> Path:
    repository = find_repository(file.parent)
    return file.parent if repository is None else repository.work_tree


def _explain(
    resolved: Settings, folder: Path, file: Path, prefix: str, suffix: str
) -> PromptExplanation:
    inside = file.is_relative_to(folder)
    document = Document(
        uri=file.as_uri(),
        path=file.relative_to(folder).as_posix() if inside else file.name,
        repo_name=repository_name(folder),
        language_id="",
        version=1,
        text=prefix + suffix,
        file=str(file),
    )
    cursor = CompletionRequest(
        uri=document.uri,
        version=document.version,
        offset=len(prefix),
        origin="program",
        wait_for_model=True,
    )
    project = WorkspaceFolder(root=str(folder), name=document.repo_name)
    with running(resolved, "warning", project) as window:
        window.open_document(document)
        request = window.masked_request(cursor)
        if not isinstance(request, CompletionRequest):
            is_secret = is_secret_path(document.path)
            what = "file looks as if it held secrets" if is_secret else "line holds a secret"
            return PromptExplanation(refused=f"the {what}")
        assert isinstance(window.completer, LocalCompleter)
        return window.completer.explain(request).result()


def _print(console: Console, place: str, explained: PromptExplanation) -> None:
    if explained.refused:
        console.print(
            f"No completion is requested at {place}: {explained.refused}.", soft_wrap=True
        )
        return
    console.print(
        f"{place}: {explained.n_tokens} of at most {explained.n_tokens_max} prompt tokens, "
        f"layout {explained.layout}, family {explained.family}.",
        soft_wrap=True,
    )
    held_back = repr(explained.held_back) if explained.held_back else "nothing"
    console.print(
        f"The middle begins at line {explained.anchor_line}, column {explained.anchor_column}; "
        f"the healing prefix, which the model generates again, is {held_back}.",
        soft_wrap=True,
    )
    if explained.reuse is not None:
        console.print(
            f"One keystroke after the previous prompt, it is {explained.reuse.layout}: the KV "
            f"cache holds {explained.reuse.n_reused} of its tokens, and "
            f"{explained.reuse.n_evaluated} must be evaluated.",
            soft_wrap=True,
        )
    console.print(_parts_table(explained))
    if explained.chunks:
        console.print(_chunk_table(explained))
    else:
        console.print("No context from other files was found.\n")
    if explained.request:
        console.print("The remote engine would be sent:\n")
    shown = printable(explained.request or explained.text, keep="\t\n")
    console.print(Text(shown), soft_wrap=True)


def _parts_table(explained: PromptExplanation) -> Table:
    table = Table(title="Parts", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("part")
    table.add_column("tokens", justify="right")
    table.add_column("characters", justify="right")
    table.add_column("lines", justify="right")
    n_chunk_tokens = sum(chunk.n_tokens for chunk in explained.chunks)
    table.add_row("special tokens, names", str(explained.n_frame), "", "")
    table.add_row("other files", str(n_chunk_tokens), "", "")
    for window in explained.windows:
        lines = f"{window.first_line}-{window.last_line}" if window.n_chars else ""
        table.add_row(window.name, str(window.n_tokens), str(window.n_chars), lines)
    return table


def _chunk_table(explained: PromptExplanation) -> Table:
    title = f"Context from other files, at most {explained.n_chunk_tokens_max} tokens"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("where", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("why", overflow="fold")
    for chunk in explained.chunks:
        last = f"-{chunk.last_line}" if chunk.last_line > chunk.first_line else ""
        table.add_row(
            f"{printable(chunk.path)}:{chunk.first_line}{last}",
            str(chunk.n_tokens) if chunk.in_prompt else "left out",
            chunk.detail,
        )
    return table
