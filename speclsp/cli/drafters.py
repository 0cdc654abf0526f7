"""``speclsp drafters``: the names that the setting ``drafters`` accepts, and their packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click
import msgspec

from speclsp import settings
from speclsp.drafting.registry import GROUP, drafter_names, load_drafter
from speclsp.errors import DrafterError
from speclsp.settings import DRAFT_MODEL, Settings


@click.command()
def drafters() -> None:
    """List the drafters that are installed, those in use by default first.

    Below each are its options in the setting `drafter_options`, with default and bounds.
    """
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    in_use = [
        name
        for name in drafter_names(settings.default("drafters"))
        if name == DRAFT_MODEL or name in entries
    ]
    others = sorted(set(entries) - set(in_use))
    for name in (*in_use, *others):
        use = "on " if name in in_use else "off"
        origin = "speclsp: the draft model" if name == DRAFT_MODEL else _origin(entries[name])
        click.echo(f"{use}  {name:<16}  {origin}")
        for option, setting in settings.DRAFTER_OPTIONS.get(name, {}).items():
            bounds = "".join(f", {bound}" for bound in _bounds(setting))
            help_text = settings.info(setting).help.partition(": ")[2]
            click.echo(f"       {option:<15}  {settings.default(setting)}{bounds}: {help_text}")


def _bounds(setting: str) -> list[str]:
    schema = msgspec.json.schema(settings.TYPES[setting])
    words = {"minimum": "at least", "maximum": "at most"}
    return [
        f"{word} {schema[key]:g}"
        for key, word in words.items()
        if key in schema and schema[key] < settings.MAX_INT
    ]


def _origin(entry: EntryPoint) -> str:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown package"
    try:
        load_drafter(entry.name, Settings())
    except DrafterError as error:
        return f"{package}: {entry.value}: {error}"
    return f"{package}: {entry.value}"
