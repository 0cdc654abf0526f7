"""``speclsp models``: chooses, downloads and removes models by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from speclsp.backends.memory import Memory, find_memory
from speclsp.cli.options import (
    SettingsCommand,
    given_settings,
    hf_token_option,
    json_option,
    print_json,
    repository_name,
)
from speclsp.model_title import model_title
from speclsp.models import cache
from speclsp.models.choice import Choice, choice_of, named, preset_rows
from speclsp.models.presets import PRESETS, recommend, recommend_for_edits
from speclsp.settings import Settings


@click.group()
def models() -> None:
    """Choose, download and remove models by name.

    NAME is a preset of `speclsp models list`, `auto`, or OWNER/NAME[:QUANTIZATION] on Hugging Face.
    Files are in Hugging Face's cache, which other programs share.
    """


@models.command("recommend")
@json_option
def recommend_model(*, as_json: bool) -> None:
    """Name the best preset for this machine's GPU or CPU."""
    memory = find_memory()
    rows = {row["name"]: row for row in preset_rows(memory)}
    best = rows[recommend(memory)]
    target, edit_model = recommend_for_edits(memory)
    if as_json:
        print_json(
            {
                "memory": msgspec.to_builtins(memory),
                "recommended": best,
                "for_edits": {"model": target, "edit_model": edit_model} if target else None,
            }
        )
        return
    name = best["name"]
    click.echo(f"{memory_text(memory)}: {name}")
    click.echo(f"{best['title']}, {decimal(best['size_bytes'])}, {best['licence']}. {best['why']}")
    if best["downloaded"]:
        click.echo(f"It is downloaded: set `model` to {name}.")
    else:
        click.echo(f"Next: speclsp models pull {name}")
    if target:
        own = f" and `edit_model` to {edit_model}" if edit_model != target else ""
        click.echo(f"With next edits, untried: set `model` to {target}{own}.")


@models.command("list")
@json_option
def list_models(*, as_json: bool) -> None:
    """Show the presets, what fits this machine, and what is downloaded."""
    memory = find_memory()
    rows = preset_rows(memory)
    own = {path for row in rows if row["downloaded"] for path in _files(named(row["name"]))}
    others = [
        {"repository": repository, "title": model_title(path.name), "path": str(path)}
        for repository, path in cache.cached_models()
        if path not in own
    ]
    if as_json:
        data = {"memory": msgspec.to_builtins(memory), "recommended": recommend(memory)}
        print_json({**data, "presets": rows, "others": others})
        return
    console = Console(markup=False, highlight=False)
    table = Table(box=SIMPLE_HEAD, title=memory_text(memory), title_justify="left")
    table.add_column("preset", no_wrap=True)
    for header in ("size", "for", "here"):
        table.add_column(header)
    for row in rows:
        marks = "downloaded" if row["downloaded"] else row["why_not"].partition(":")[0]
        received, size = row["received_bytes"] / 1e6, row["size_bytes"] / 1e6
        is_partly = received and not row["downloaded"]
        part = f"partly downloaded, {received:,.0f} of {size:,.0f} MB" if is_partly else ""
        mark = "recommended" if row["name"] == recommend(memory) else ""
        edits = "next edits" if row["edits"] else ""
        untried = "untried" if row["untried"] else ""
        here = ", ".join(filter(None, (mark, edits, untried, marks, part)))
        table.add_row(row["name"], decimal(row["size_bytes"]), row["memory"], here)
    console.print(table)
    for other in others:
        console.print(f"also downloaded: {other['title']} ({other['repository']})")


@models.command(params=[hf_token_option()])
@click.argument("name", default="")
@click.option("--hf-repo", "-hf", "repository", default="", metavar="REPO", help="Same as NAME.")
@click.option("--hf-file", "-hff", default="", metavar="FILE", help="A file of the repository.")
@click.option(
    "--spec-draft-hf", "--hf-repo-draft", "-hfd", "draft", default="", metavar="REPO",
    help="Download this draft model, too.",
)  # fmt: skip
@json_option
def pull(name: str, repository: str, hf_file: str, draft: str, *, as_json: bool) -> None:
    """Download a model, or a target and a draft model; an interrupted download is resumed."""
    # Imported here: the other commands open no connection.
    from speclsp.models import download  # noqa: PLC0415

    if name and repository:
        raise click.UsageError("Give one of NAME and -hf.")
    target = repository_name(repository, hf_file) if repository else name
    choice = choice_of(Settings(model=target, spec_draft_model=draft))
    if choice is None:
        raise click.UsageError("Name a model: NAME, -hf REPO or -hfd REPO.")
    wanted = download.plan(choice.references)
    console = Console(stderr=True)
    columns = (
        TextColumn(choice.title),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    size = decimal(wanted.missing_bytes)
    if not console.is_terminal:
        click.echo(f"Downloading {choice.title}: {size}", err=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("")
        download.pull(
            wanted,
            report=lambda done, total: progress.update(task, completed=done, total=total),
        )
    paths = [str(parts[0]) for parts in choice.files().values()]
    if as_json:
        print_json({"name": choice.name, "title": choice.title, "paths": paths})
        return
    for path in paths:
        click.echo(path)
    click.echo(f"Next: speclsp serve {choice.serve_options}, or set it in your editor.", err=True)


@models.command(cls=SettingsCommand)
@click.argument("name", default="")
def check(name: str, **options: Any) -> None:
    """Check that a model completes, takes tokens back and speculates as it should.

    NAME is as in `speclsp models`, or a file; without it the settings' model is checked. Send what
    is printed with a report about a model.
    """
    # Imported here: the other commands load no model.
    from speclsp.cli.doctor import print_findings  # noqa: PLC0415
    from speclsp.cli.model_check import check_model, verdict  # noqa: PLC0415

    settings = given_settings({**options, **({"model": name} if name else {})})
    if settings.engine_url:
        raise click.UsageError(
            "`speclsp models check` loads a model here, and a remote engine has one of its own; "
            "`speclsp doctor --engine-url URL` asks it."
        )
    problems = print_findings(check_model(settings, _show_places))
    click.echo(verdict(problems))
    sys.exit(1 if problems else 0)


def _show_places(n_done: int, n_all: int) -> None:
    """Show on a terminal how far the check is; the next finding overwrites that."""
    if sys.stderr.isatty():
        click.echo(f"place {n_done + 1} of at most {n_all} …\r", nl=False, err=True)


@models.command()
@click.argument("name")
@json_option
def path(name: str, *, as_json: bool) -> None:
    """Print where the files of a downloaded model lie, the target's before the draft model's."""
    paths = [str(found) for found in _files(named(name))]
    if as_json:
        print_json({"paths": paths})
    else:
        click.echo("\n".join(paths))


@models.command()
@click.argument("name")
@json_option
def remove(name: str, *, as_json: bool) -> None:
    """Remove a model's files from the cache; other programs lose them too.

    A preset's draft model that is a preset of its own stays: other presets may draft with it.
    """
    choice = named(name)
    own = next((one for one, row in PRESETS.items() if row.target.reference == choice.draft), None)
    if own is not None:
        choice = replace(choice, draft=None)
    paths = [found for one in choice.references for found in cache.interrupted(one)]
    if choice.is_downloaded or not paths:
        paths += _files(choice)
    freed = cache.remove(paths)
    if own is not None and named(own).is_downloaded:
        click.echo(f"Kept the draft model: `speclsp models remove {own}` removes it.", err=True)
    if as_json:
        print_json({"paths": [str(found) for found in paths], "freed_bytes": freed})
    else:
        click.echo(f"Removed {len(paths)} files, {decimal(freed)}.")


def memory_text(memory: Memory) -> str:
    """Return a memory in words."""
    if memory.kind == "CPU":
        return f"{memory.name}, no GPU that this llama.cpp can use"
    gib = 1 << 30
    total, free = memory.total_bytes / gib, memory.free_bytes / gib
    return f"{memory.name}, {total:.0f} GB, {free:.1f} GB free"


def _files(choice: Choice) -> list[Path]:
    """Return all parts of all models of a choice.  Raises ModelNotFoundError."""
    return [part for parts in choice.files().values() for part in parts]
