"""What a benchmark prints and writes."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from benchmarks.machine import remarks
from benchmarks.tables import Table
from speclsp.atomic_write import UMASKED, write_atomically
from speclsp.errors import SpecLspError
from speclsp.settings import Settings

ENDED_EARLY: Final = "The run ended early: what is missing was not measured."
_TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found."""

    parts: Sequence[Table | str]
    """Printed in this order."""
    figures: Any
    """Written by ``--json``: dataclasses, lists and mappings of plain data."""


def publish(
    report: Report, settings: Settings, options: Mapping[str, Any], json_path: Path | None
) -> None:
    """Print a report behind remarks on the models, and write its figures with the options."""
    said = remarks(settings)
    for part in (*said, *report.parts):
        click.echo(part)
    if json_path is not None:
        found = {"options": options, "remarks": said, "figures": report.figures}
        write_text(json_path, as_json(found))


@contextmanager
def printed_if_ended_early(parts: Callable[[], Sequence[Table | str]]) -> Iterator[None]:
    """Print what was measured so far, if anything, where the block does not come to its end."""
    with ended_by_signals():
        try:
            yield
        except BaseException:
            found = parts()
            if found:
                click.echo(ENDED_EARLY)
            for part in found:
                click.echo(part)
            raise


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the block on SIGTERM, and what it started, as Ctrl-C does."""
    former = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def as_json(data: Any) -> str:
    """Return data as JSON; what is no number is null, and a path is its text."""
    encoded = msgspec.json.encode(data, enc_hook=str)
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a text atomically: the old file stays until the new one is complete.

    Devices and pipes are written to directly.  Raises SpecLspError, for example if the disk is
    full.
    """
    try:
        if path.exists() and (not path.is_file() or _is_open_elsewhere(path)):
            path.write_text(text, encoding="utf-8")
            return
        with write_atomically(path, f".{path.name}.", UMASKED) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecLspError(
            f"{path} cannot be written: {error.strerror or error}.",
            remedy="Name a file in a folder that may be written to and has enough space.",
        ) from error


def _is_open_elsewhere(path: Path) -> bool:
    """Whether a path names a file that is open already, such as /dev/stdout."""
    return path.is_absolute() and path.parts[1] in ("dev", "proc")


_FOLDERS: Final = re.compile(r"(?<![\w/:.])/(?:[^\s/:'\"]+/)+(?=[^\s/:'\"])")


def reason(error: SpecLspError) -> str:
    """Return an error and its remedy, as a record has it."""
    return without_folders(str(error))


def without_folders(text: str) -> str:
    """Return ``text`` with the names of files alone, without where they lie."""
    return _FOLDERS.sub("", text)
