"""``speclsp data``: shows and removes what is kept on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from speclsp.errors import StoreError
from speclsp.settings import named_path
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.database import WorkspaceStore, WorkspaceUse, aside_files_of, files_of
from speclsp.storage.locations import (
    accepted_store_path,
    cache_dir,
    state_dir,
    token_store_path,
    workspace_id,
)
from speclsp.storage.token_store import TokenStore

_N_ID_DIGITS = 12
"""Digits of a workspace's id that `list` shows and `forget` needs."""

FILES, TEXTS = "project files' tokens", "accepted completions"

Stores = Mapping[str, WorkspaceStore]
"""The existing stores by what they hold."""


@click.group()
def data() -> None:
    """Show or remove what is kept on disk between sessions.

    speclsp keeps the tokens of the project's files, so that a restart need not make them again, and
    the completions that you accepted. Workspace folders are stored by a hash of their path.
    """


@data.command("list")
def list_data() -> None:
    """Show what is kept on disk, where, and how much, for each workspace folder."""
    console = Console(markup=False)
    with _stores() as stores:
        uses = _uses(stores)
    console.print(_file_table())
    if any(uses.values()):
        console.print(_workspace_table(uses))
    else:
        console.print("Nothing is kept.")


@data.command()
@click.option(
    "--workspace",
    "workspace",
    metavar="DIR",
    help="Remove what is kept for this folder; the 12 digits of an id in `list` name one, too.",
)
@click.option("--all", "everything", is_flag=True, help="Remove everything.")
def forget(workspace: str | None, *, everything: bool) -> None:
    """Remove what is kept on disk for one workspace folder, or for all."""
    if (workspace is None) == (not everything):
        raise click.UsageError("Say what to remove: --workspace DIR, or --all.")
    if everything:
        _remove_links()
    with _stores() as stores:
        if workspace is None:
            n_removed = {what: store.forget_all() for what, store in stores.items()}
        else:
            chosen = _chosen(workspace, stores)
            n_removed = {what: store.forget(chosen) for what, store in stores.items()}
    _remove_damaged_stores()
    click.echo(
        f"Removed the tokens of {n_removed.get(FILES, 0)} files and {n_removed.get(TEXTS, 0)} "
        "accepted completions."
    )


def _remove_links() -> None:
    """Remove symbolic links in place of speclsp's folders and files; their targets stay."""
    for folder in (cache_dir(), state_dir()):
        entries = [] if folder.is_symlink() or not folder.is_dir() else folder.iterdir()
        for path in (folder, *entries):
            if path.is_symlink():
                _remove(path)
                click.echo(f"Removed the symbolic link {path}; its target was left alone.")


def _remove_damaged_stores() -> None:
    """Remove the databases that were set aside: which folders' data they hold is unknown."""
    for path in _paths().values():
        if files := _without_linked(aside_files_of(path)):
            for file in files:
                _remove(file)
            click.echo(f"Removed {files[0]}, a damaged database with data of any folder.")


def _without_linked(files: list[Path]) -> list[Path]:
    """Return the files whose folder is no symbolic link; the others are left alone."""
    return [file for file in files if not file.parent.is_symlink()]


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{file} cannot be removed: {error}.") from error


@contextmanager
def _stores() -> Iterator[Stores]:
    """Open the existing stores; errors and replaced files are reported on stderr."""

    def report(error: StoreError) -> None:
        click.echo(str(error), err=True)

    types: dict[str, type[TokenStore | AcceptedStore]]
    types = {FILES: TokenStore, TEXTS: AcceptedStore}
    with ExitStack() as stack:
        stores: dict[str, WorkspaceStore] = {}
        for what, path in _paths().items():
            if path.exists():
                stores[what] = store = types[what](path, report=report)
                stack.callback(store.close)
        yield stores


def _uses(stores: Stores) -> dict[str, list[WorkspaceUse]]:
    return {what: store.uses() for what, store in stores.items()}


def _paths() -> dict[str, Path]:
    """Return the path of each database by what it holds."""
    return {FILES: token_store_path(), TEXTS: accepted_store_path()}


def _chosen(text: str, stores: Stores) -> bytes:
    """Return the id of the workspace with this folder, or whose id begins with 12 digits or more.

    Damaged stores may hold data of a folder that no other store knows, so that it counts as kept,
    but only if it exists: the wrong name must remove nothing.  Raises click.UsageError.
    """
    known = {use.workspace for uses in _uses(stores).values() for use in uses if use.workspace}
    by_path = workspace_id(os.path.abspath(text))  # noqa: PTH100  .. goes, links stay
    has_damaged = any(_without_linked(aside_files_of(path)) for path in _paths().values())
    if by_path in known or (has_damaged and os.path.isdir(text)):  # noqa: PTH112  never raises
        return by_path
    matching = [workspace for workspace in known if workspace.hex().startswith(text.lower())]
    # A few letters may be the name of another folder, of which nothing is kept.
    if len(matching) == 1 and len(text) >= _N_ID_DIGITS:
        return matching[0]
    reason = f"Nothing is kept for a folder {text!r};"
    if matching:
        remedy = f"an id needs its {_N_ID_DIGITS} digits, as `speclsp data list` shows them."
    elif has_damaged:
        remedy = "damaged databases, which may hold data of any folder, are removed by --all alone."
    else:
        remedy = "`speclsp data list` shows what is."
    raise click.UsageError(f"{reason} {remedy}")


def _file_table() -> Table:
    table = Table(title="Kept on disk", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("what")
    table.add_column("where", overflow="fold")
    table.add_column("size", justify="right")
    for name, path in _paths().items():
        table.add_row(name, _short(path), _size(files_of(path)))
        aside = aside_files_of(path)
        if aside:
            table.add_row(f"{name}, damaged", _short(aside[0]), _size(aside))
    return table


def _workspace_table(uses: Mapping[str, list[WorkspaceUse]]) -> Table:
    """Return a row per workspace; only the current folder and its parents can be named."""
    places = (Path.cwd(), *Path.cwd().parents)
    here: dict[bytes | None, str] = {workspace_id(str(place)): str(place) for place in places}
    found = {(what, use.workspace): use for what in uses for use in uses[what]}
    table = Table(title="By workspace folder", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("workspace", no_wrap=True)
    for header in ("files", "tokens", "accepted", "size"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("folder", overflow="fold")
    for workspace in dict.fromkeys(workspace for _, workspace in found):
        files, texts = (
            found.get((what, workspace), WorkspaceUse(workspace, 0, 0)) for what in (FILES, TEXTS)
        )
        table.add_row(
            "(none any more)" if workspace is None else workspace.hex()[:_N_ID_DIGITS],
            f"{files.n_items:,}",
            f"{files.n_tokens:,}",
            f"{texts.n_items:,}",
            decimal(files.n_bytes + texts.n_bytes),
            here.get(workspace, "(elsewhere)"),
        )
    return table


def _short(path: Path) -> str:
    home = named_path("~")
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _size(files: list[Path]) -> str:
    return decimal(sum(file.stat().st_size for file in files))
