"""``speclsp explain``: the suggestion at a place in a file, and the prompt behind it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from speclsp.cli.options import SettingsCommand, given_settings
from speclsp.cli.without_editor import (
    document_at,
    folder_of,
    refusal_of,
    running,
    split_at,
    suggested,
)
from speclsp.completer.explaining import PromptExplanation
from speclsp.completer.local import LocalCompleter
from speclsp.errors import SpecLspError
from speclsp.printable import printable
from speclsp.request import CompletionRequest, Document, WorkspaceFolder
from speclsp.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceExplanation(PromptExplanation):
    """The prompt at a place, and what the model makes of it."""

    suggestion: str = ""
    why_not: str = ""
    """Why no suggestion is shown while you type; empty where one is."""


@click.command(cls=SettingsCommand)
@click.argument("place", metavar="FILE:LINE:COL")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder; without it the file's repository, or the file's folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def explain(place: str, project: Path | None, *, as_json: bool, **options: Any) -> None:
    """Show the suggestion at a place in a file, or why there is none, and the prompt behind it.

    The prompt is shown with its parts, each piece of another file with its reason, and how much of
    it is kept from one key to the next. LINE and COL count from 1; COL 1 is before the first
    character. `speclsp complete FILE:LINE:COL` prints the suggestion alone.
    """
    file, text, offset = split_at(place)
    folder = Path(os.path.abspath(project)) if project else folder_of(file)  # noqa: PTH100
    resolved = given_settings(options)
    if resolved.engine_listens:
        raise SpecLspError(
            f"The engine at {resolved.engine_host} makes the prompt, on the other machine.",
            remedy="Run `speclsp explain` there, or without engine_url.",
        )
    explanation = _explain(resolved, document_at(folder, file, text), offset, folder)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(explanation), indent=2))
    else:
        _print(Console(highlight=False, markup=False), place, explanation)


def _explain(resolved: Settings, document: Document, offset: int, folder: Path) -> PlaceExplanation:
    cursor = CompletionRequest(
        uri=document.uri,
        version=document.version,
        offset=offset,
        origin="program",
        wait_for_model=True,
    )
    project = WorkspaceFolder(root=str(folder), name=document.repo_name)
    with running(resolved, "warning", project) as window:
        window.open_document(document)
        request = window.masked_request(cursor)
        if not isinstance(request, CompletionRequest):
            return PlaceExplanation(refused=refusal_of(document))
        assert isinstance(window.completer, LocalCompleter)
        explained = window.completer.explain(request).result()
        suggestion, why_not = (
            "",
            "a remote engine is not asked here: `speclsp complete FILE:LINE:COL` asks it",
        )
        if not (explained.refused or resolved.engine_url):
            suggestion, why_not = suggested(window, resolved, cursor)
        fields = {
            each.name: getattr(explained, each.name) for each in dataclasses.fields(explained)
        }
        return PlaceExplanation(**fields, suggestion=suggestion, why_not=why_not)


def _print(console: Console, place: str, explained: PlaceExplanation) -> None:
    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    if explained.refused:
        say(f"No completion is requested at {place}: {explained.refused}.")
        return
    if not explained.suggestion:
        say(f"{place}: there is no suggestion: {explained.why_not}.\n")
    elif explained.why_not:
        say(f"{place}: no suggestion is shown while you type: {explained.why_not}. By hand:\n")
    else:
        say(f"{place}: the suggestion is\n")
    if explained.suggestion:
        shown = printable(explained.suggestion, keep="\t\n")
        console.print(Text(f"{indent(shown, '    ')}\n"), soft_wrap=True)
    say(
        f"The model reads a prompt of {explained.n_tokens} tokens, of at most "
        f"{explained.n_tokens_max}: the file around the cursor, and pieces of other files "
        f"(family {explained.family}, layout {explained.layout})."
    )
    say(
        f"It continues the file from line {explained.anchor_line}, column "
        f"{explained.anchor_column}: what is before that place and after the cursor comes first."
    )
    if explained.held_back:
        say(
            f"The last characters before the cursor, {explained.held_back!r}, are left out and "
            "generated again, so that no token is cut in two."
        )
    if explained.reuse is not None:
        say(
            f"One key earlier most of it was known already: {explained.reuse.n_reused} tokens are "
            f"kept in the KV cache, and {explained.reuse.n_evaluated} are evaluated "
            f"({explained.reuse.layout})."
        )
    console.print(_parts_table(explained))
    if explained.chunks:
        console.print(_chunk_table(explained))
    else:
        console.print("No context from other files was found.\n")
    console.print("The remote engine would be sent:\n" if explained.request else "The prompt:\n")
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
