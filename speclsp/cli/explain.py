"""``speclsp explain``: the suggestion at a place in a file, and the prompt behind it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import click
import msgspec
from msgspec import structs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from speclsp.cli.options import SettingsCommand, given_settings, print_json
from speclsp.cli.without_editor import (
    NO_DEADLINE_MS,
    document_at,
    edit_of,
    folder_of,
    read_text,
    refusal_of,
    running,
    split_at,
    suggested,
)
from speclsp.completer.explaining import EditExplanation, PromptExplanation
from speclsp.completer.local import LocalCompleter
from speclsp.errors import SpecLspError
from speclsp.printable import printable
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.seam.edit import EditRequest, EditResult
from speclsp.settings import Settings


@click.command(cls=SettingsCommand)
@click.argument("place", metavar="FILE:LINE:COL")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder; without it the file's repository, or the file's folder.",
)
@click.option("--next-edit", is_flag=True, help="Show the next edit and its prompt instead.")
@click.option(
    "--before",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file as it was before your latest change, for --next-edit; the oldest first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def explain(
    place: str,
    project: Path | None,
    before: tuple[Path, ...],
    *,
    next_edit: bool,
    as_json: bool,
    **options: Any,
) -> None:
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
    document = document_at(folder, file, text)
    if next_edit:
        former = [read_text(path) for path in before]
        edit, result = _explain_edit(resolved, document, offset, folder, former)
        if as_json:
            found = None
            if result is not None:
                found = {**structs.asdict(result), "edit": edit_of(result, document.text)}
            _print_explained(edit, result=found)
        else:
            _print_edit(Console(highlight=False, markup=False), place, document.text, edit, result)
        return
    if before:
        raise click.UsageError("--before belongs to --next-edit.")
    prompt, suggestion, why_not = _explain(resolved, document, offset, folder)
    if as_json:
        _print_explained(prompt, suggestion=suggestion, why_not=why_not)
    else:
        _print(Console(highlight=False, markup=False), place, prompt, suggestion, why_not)


def _print_explained(explained: PromptExplanation | EditExplanation, **found: object) -> None:
    """Print the prompt at a place, and what the model makes of it, as one object."""
    print_json({**msgspec.to_builtins(explained), **found})


def _explain(
    resolved: Settings, document: Document, offset: int, folder: Path
) -> tuple[PromptExplanation, str, str]:
    """Return the prompt at a place, the suggestion, and why none is shown while you type."""
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
            return PromptExplanation(refused=refusal_of(document)), "", ""
        assert isinstance(window.completer, LocalCompleter)
        explained = window.completer.explain(request).result()
        if explained.refused or resolved.engine_url:
            asks = "a remote engine is not asked here: `speclsp complete FILE:LINE:COL` asks it"
            return explained, "", asks
        return explained, *suggested(window, resolved, cursor)


def _explain_edit(
    resolved: Settings, document: Document, offset: int, folder: Path, before: list[str]
) -> tuple[EditExplanation, EditResult | None]:
    """Return the prompt for the next edit at a place, and the edit; None if it is not asked for."""
    texts = [*before, document.text]
    request = EditRequest(
        uri=document.uri,
        version=len(texts),
        offset=offset,
        origin="program",
        wait_for_model=True,
        settings={"deadline_ms": NO_DEADLINE_MS},
    )
    project = WorkspaceFolder(root=str(folder), name=document.repo_name)
    with running(resolved, "warning", project) as window:
        window.open_document(dataclasses.replace(document, text=texts[0]))
        for version, text in enumerate(texts[1:], 2):
            window.change_document(document.uri, version, text)
        masked = window.next_edits.masked_request(request)
        if not isinstance(masked, EditRequest):
            return EditExplanation(refused=refusal_of(document)), None
        assert isinstance(window.completer, LocalCompleter)
        explained = window.completer.explain_edit(masked).result()
        if explained.refused:
            return explained, None
        return explained, asyncio.run(window.next_edits.next_edit(request, CancellationToken()))


_WITHHELD: Final = {
    "unchanged": "the model changes nothing",
    "control-tokens": "it holds marks of the prompt",
    "broken": "it holds bytes that are no characters",
    "length-limit": "the model did not end it within twice the length of these lines",
    "blanks": "it changes spaces and blank lines only",
    "above-cursor": "it inserts lines above the cursor's",
    "undoes": "it takes back one of your latest changes",
    "declined": "it was declined here",
    "secret": "it touches a line with a masked secret",
    "refused": "the model gets no prompt of this text; the log says why",
    "uncertain": "the model is not sure of one of its tokens",
}
"""Why an edit is withheld, by :class:`~speclsp.seam.edit.EditResult`'s reason."""


def _print_edit(
    console: Console, place: str, text: str, explained: EditExplanation, result: EditResult | None
) -> None:
    lines = [f"No next edit is requested at {place}: {explained.refused}"]
    if result is not None:
        lines = [*_edit_lines(place, text, result), *_edit_prompt_lines(explained, result)]
    for line in lines:
        console.print(printable(line, keep="\t\n"), soft_wrap=True)


def _edit_lines(place: str, text: str, result: EditResult) -> Iterator[str]:
    """Yield the edit, or why there is none."""
    if not result.hunks:
        why = _WITHHELD.get(result.withheld, f"the model's answer ended by {result.finish_reason}")
        yield f"{place}: no next edit is shown: {why} ({result.withheld or result.finish_reason})."
        return
    yield f"{place}: the next edit is\n"
    for hunk in result.hunks:
        yield f"    line {text.count(chr(10), 0, hunk.start) + 1}:"
        yield from (f"    - {line}" for line in text[hunk.start : hunk.end].splitlines())
        yield from (f"    + {line}" for line in hunk.text.splitlines())


def _edit_prompt_lines(explained: EditExplanation, result: EditResult) -> Iterator[str]:
    """Yield what the prompt is made of, and where the answer departs from the text."""
    yield (
        f"\nThe model reads a prompt of {explained.n_tokens} tokens, of at most "
        f"{explained.n_tokens_max} with its answer (format {explained.edit_format}, "
        f"{explained.model}): your latest changes, the text around the cursor, and the lines "
        f"{explained.first_line} to {explained.last_line}, which it writes anew."
    )
    for change in explained.changes:
        said = " (an accepted suggestion)" if change.is_accepted else ""
        n_old, n_new = (part.count("\n") for part in (change.old, change.new))
        where = f"{change.path}:{change.line + 1}"
        yield f"Change at {where}{said}: {n_old} lines removed, {n_new} added."
    if not explained.changes:
        yield "It knows of no earlier changes: --before names the file as it was."
    for path in dict.fromkeys(explained.files):
        yield f"It is shown definitions of {path}."
    for one in result.divergences:
        yield f"It departs from the text with probability {one.probability:.2f}: {one.line!r}"
    yield f"\nThe prompt:\n\n{explained.text}"


def _print(
    console: Console, place: str, explained: PromptExplanation, suggestion: str, why_not: str
) -> None:
    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    if explained.refused:
        say(f"No completion is requested at {place}: {explained.refused}.")
        return
    if not suggestion:
        say(f"{place}: there is no suggestion: {why_not}.\n")
    elif why_not:
        say(f"{place}: no suggestion is shown while you type: {why_not}. By hand:\n")
    else:
        say(f"{place}: the suggestion is\n")
    if suggestion:
        shown = printable(suggestion, keep="\t\n")
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
    for excerpt in explained.excerpts:
        lines = f"{excerpt.first_line}-{excerpt.last_line}" if excerpt.n_chars else ""
        table.add_row(excerpt.name, str(excerpt.n_tokens), str(excerpt.n_chars), lines)
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
