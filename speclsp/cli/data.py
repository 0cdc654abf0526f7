"""``speclsp data``: shows and removes what is kept on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from speclsp.errors import StoreError
from speclsp.storage.accepted_store import AcceptedStore, AcceptedUse
from speclsp.storage.database import aside_files_of, files_of
from speclsp.storage.learned_store import LearnedStore, LearnedUse
from speclsp.storage.locations import (
    acceptance_store_path,
    accepted_store_path,
    calibration_store_path,
    learned_store_path,
    token_store_path,
    workspace_id,
)
from speclsp.storage.token_store import TokenStore, TokenUse


@dataclass(frozen=True, slots=True)
class Stores:
    """The user's stores, None for those that do not exist yet."""

    tokens: TokenStore | None
    accepted: AcceptedStore | None
    learned: LearnedStore | None
    """Belongs to models, not to workspaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed from the stores."""

    n_files: int
    n_texts: int
    n_ngrams: int


@click.group()
def data() -> None:
    """Show or remove what is kept on disk between sessions.

    Kept are the project files' tokens and their index, so that a restart builds neither again,
    the completions that you accepted and the n-grams counted in them, and for each model how often
    drafts were right. Workspace folders are known by a hash of their path.
    """


@data.command("list")
def list_data() -> None:
    """Show what is kept on disk, where, and how much, for each workspace folder."""
    console = Console(markup=False)
    with _stores() as stores:
        token_uses = stores.tokens.uses() if stores.tokens else []
        accepted_uses = stores.accepted.uses() if stores.accepted else []
        learned_uses = stores.learned.uses() if stores.learned else []
    console.print(_file_table())
    if token_uses or accepted_uses or learned_uses:
        console.print(_workspace_table(token_uses, accepted_uses, learned_uses))
    else:
        console.print("Nothing is kept.")


@data.command()
@click.option(
    "--workspace",
    "workspace",
    metavar="DIR",
    help="Remove what is kept for this workspace folder; an id as `list` shows it does too.",
)
@click.option("--all", "everything", is_flag=True, help="Remove everything.")
def forget(workspace: str | None, *, everything: bool) -> None:
    """Remove what is kept on disk for one workspace folder, or for all."""
    if (workspace is None) == (not everything):
        raise click.UsageError("Say what to remove: --workspace DIR, or --all.")
    if workspace is None:
        removed = _forget_all()
    else:
        with _stores() as stores:
            chosen = _chosen(workspace, stores)
            removed = Removed(
                n_files=stores.tokens.forget(chosen) if stores.tokens else 0,
                n_texts=stores.accepted.forget(chosen) if stores.accepted else 0,
                n_ngrams=stores.learned.forget(chosen) if stores.learned else 0,
            )
    click.echo(
        f"Removed the tokens of {removed.n_files} files, {removed.n_texts} accepted completions, "
        f"and {removed.n_ngrams} n-grams."
    )


def _forget_all() -> Removed:
    with _stores() as stores:
        removed = Removed(
            n_files=stores.tokens.forget_all() if stores.tokens else 0,
            n_texts=stores.accepted.forget_all() if stores.accepted else 0,
            n_ngrams=stores.learned.forget_all() if stores.learned else 0,
        )
    # Written by the first version, read by none since.
    formers = (acceptance_store_path(), calibration_store_path())
    asides = [file for _, path in _databases() for file in aside_files_of(path)]
    for file in (
        *asides,
        *(file for former in formers for file in (*files_of(former), *aside_files_of(former))),
    ):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{file} cannot be removed: {error}.") from error
    return removed


@contextmanager
def _stores() -> Iterator[Stores]:
    """Open the existing stores; errors and replaced files are reported on stderr."""

    def report(error: StoreError) -> None:
        click.echo(str(error), err=True)

    with ExitStack() as stack:
        tokens = accepted = learned = None
        if token_store_path().exists():
            tokens = TokenStore.open(report)
            stack.callback(tokens.close)
        if accepted_store_path().exists():
            accepted = AcceptedStore.open(report)
            stack.callback(accepted.close)
        if learned_store_path().exists():
            learned = LearnedStore.open(report)
            stack.callback(learned.close)
        yield Stores(tokens, accepted, learned)


def _databases() -> tuple[tuple[str, Path], ...]:
    """Return the contents and the path of each database."""
    return (
        ("project files' tokens", token_store_path()),
        ("accepted completions", accepted_store_path()),
        ("accepted n-grams", learned_store_path()),
    )


def _chosen(text: str, stores: Stores) -> bytes:
    """Return the id of the workspace with this folder, or whose id begins with this text."""
    known = {use.workspace for use in (stores.accepted.uses() if stores.accepted else ())}
    known |= {
        use.workspace
        for use in (stores.tokens.uses() if stores.tokens else ())
        if use.workspace is not None
    }
    known |= {use.workspace for use in (stores.learned.uses() if stores.learned else ())}
    by_path = workspace_id(text)
    if by_path in known:
        return by_path
    matching = [workspace for workspace in known if workspace.hex().startswith(text.lower())]
    if len(matching) == 1:
        return matching[0]
    raise click.UsageError(f"Nothing is kept for {text!r}; `speclsp data list` shows what is.")


def _file_table() -> Table:
    table = Table(title="Kept on disk", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("what")
    table.add_column("where", overflow="fold")
    table.add_column("size", justify="right")
    for name, path in _databases():
        table.add_row(name, _short(path), _size(files_of(path)))
        aside = aside_files_of(path)
        if aside:
            table.add_row(f"{name}, damaged", _short(aside[0]), _size(aside))
    return table


def _workspace_table(
    token_uses: list[TokenUse],
    accepted_uses: list[AcceptedUse],
    learned_uses: list[LearnedUse],
) -> Table:
    """Return a row per workspace; only the current folder and its parents can be named."""
    places = (Path.cwd(), *Path.cwd().parents)
    here: dict[bytes | None, str] = {workspace_id(str(place)): str(place) for place in places}
    tokens = {use.workspace: use for use in token_uses}
    accepted: dict[bytes | None, AcceptedUse] = {use.workspace: use for use in accepted_uses}
    learned: dict[bytes | None, LearnedUse] = {use.workspace: use for use in learned_uses}
    table = Table(title="By workspace folder", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("workspace", no_wrap=True)
    for header in ("files", "tokens", "accepted", "n-grams", "size"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("folder", overflow="fold")
    for workspace in dict.fromkeys([*tokens, *accepted, *learned]):
        token_use = tokens.get(workspace, TokenUse(workspace, 0, 0, 0))
        accepted_use = accepted.get(workspace)
        learned_use = learned.get(workspace)
        table.add_row(
            "(none any more)" if workspace is None else workspace.hex()[:12],
            f"{token_use.n_files:,}",
            f"{token_use.n_tokens:,}",
            f"{accepted_use.n_texts if accepted_use else 0:,}",
            f"{learned_use.n_ngrams if learned_use else 0:,}",
            decimal(
                token_use.n_bytes
                + (accepted_use.n_bytes if accepted_use else 0)
                + (learned_use.n_bytes if learned_use else 0)
            ),
            here.get(workspace, "(elsewhere)"),
        )
    return table


def _short(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def _size(files: list[Path]) -> str:
    return decimal(sum(file.stat().st_size for file in files))
