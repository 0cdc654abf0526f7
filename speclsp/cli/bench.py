"""``speclsp bench PROJECT``: lines of a project typed without and with speculation."""

from __future__ import annotations

import functools
import itertools
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speclsp.cli.ngram_build import found_files
from speclsp.cli.options import SettingsCommand, given_settings, show_timings_option
from speclsp.cli.without_editor import running, shown_timings
from speclsp.completer.local import LocalCompleter
from speclsp.embedded import TARGET_FILE_NAME, model_files
from speclsp.errors import SpecLspError
from speclsp.project.repository import repository_name
from speclsp.project.source_text import SourceText, read_source
from speclsp.reporting.gain import tokens_per_pass
from speclsp.reporting.session import summed
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings
from speclsp.text.languages import LANGUAGES
from speclsp.window.window import Window

_STRIDE: Final = 4
"""Keys between two requests: the debounce skips requests of fast typing."""
_LINE: Final = re.compile(r"^[ \t]*(\S.{10,}\S)\s*$", re.MULTILINE)
"""A line that is long enough to be typed, without its indentation."""
_REST_S: Final = 20.0
_POLL_S: Final = 0.05
_FAST_MS: Final = 300.0
"""The 95th percentile below which suggestions are there when the fingers rest."""
_SLOW_MS: Final = 700.0
"""The 95th percentile above which suggestions come too late to be read while typing."""
_LEAST_LINES: Final = 4
"""With fewer lines a difference cannot be told from noise."""


@dataclass(frozen=True, slots=True)
class LinePlace:
    """A ``line`` that was removed from a ``document`` at ``offset``."""

    document: Document
    offset: int
    line: str


@dataclass(slots=True)
class Side:
    """The sums of the requests with or without speculation, of those that reached the model."""

    stats: RequestStats = field(default_factory=RequestStats)
    ms: list[float] = field(default_factory=list)
    """From the key to its suggestion, of each request."""

    def tokens_per_s(self) -> float:
        """Return tokens per second of evaluating what was typed and of generating."""
        ms = self.stats.ms_prompt + self.stats.ms_predict
        return 1000 * self.stats.n_predicted / ms if ms else 0.0


Sides = dict[bool, Side]
"""By whether speculation is on."""


def _existing_folder(_ctx: click.Context, _parameter: click.Parameter, project: Path) -> Path:
    if not project.exists():
        message = f"there is no folder {project}."
        if len(project.parts) == 1:
            message += (
                " Benchmarks of speclsp itself are run in a checkout: "
                f"`python -m benchmarks {project}`."
            )
        raise click.BadParameter(message)
    return project


@click.command(cls=SettingsCommand)
@click.argument(
    "project", type=click.Path(file_okay=False, path_type=Path), callback=_existing_folder
)
@click.option(
    "--lines", "n_lines", type=click.IntRange(min=1), default=20, show_default=True,
    help="Lines to type.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.IntRange(min=1), default=120, show_default=True,
    help="Start no further line after this time.",
)  # fmt: skip
@show_timings_option
def bench(project: Path, n_lines: int, seconds: int, show_timings: bool, **options: Any) -> None:
    """Type lines of PROJECT with speculation off and on, and compare the two.

    Each line is taken out of its file and typed twice, in alternating order. Nothing was learned
    before and nothing is kept on disk. Suggestions are not remembered: each request asks the model.
    """
    resolved = _settings(options)
    root = project.resolve()
    places = _places(root, resolved, n_lines)
    lines: list[Sides] = []
    is_interrupted = False
    console = Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    click.echo(f"Loading the model and indexing {root.name}", err=True)
    try:
        folder = WorkspaceFolder(root=str(root), name=repository_name(root))
        with bar, running(resolved, "warning", folder) as window:
            while window.completer.statistics().index.building:
                time.sleep(_POLL_S)
            end = time.monotonic() + seconds
            for place in bar.track(places, description="Typing"):
                lines.append(_typed(window, resolved, place, len(lines) % 2 == 1))
                if not console.is_terminal:
                    click.echo(f"{len(lines)} of {len(places)} lines typed", err=True)
                if time.monotonic() > end:
                    break
    except KeyboardInterrupt:
        is_interrupted = True
    if lines:
        _print(model_files(resolved).target.name, root.name, lines)
    if show_timings:
        for is_on in (False, True):
            stats = _sum([line[is_on] for line in lines]).stats
            title = f"speculation {'on' if is_on else 'off'}:"
            click.echo(f"{title}\n{shown_timings(stats)}", err=True)
    if is_interrupted:
        click.echo("Interrupted.", err=True)
        sys.exit(130)


def _settings(options: Mapping[str, Any]) -> Settings:
    """Return the settings of both sides.  Raises UsageError where they name a remote engine."""
    given = {
        "persist": False,
        "suggestion_memory": False,
        "idle_work": "prompts",
        "speculation": True,
    }
    resolved = given_settings({**options, **given})
    if resolved.engine_url:
        raise click.UsageError(
            "`speclsp bench` compares drafts, and a remote engine takes none; `speclsp doctor "
            "--engine-url URL` measures how long it takes to answer."
        )
    return resolved


def _places(root: Path, resolved: Settings, n_lines: int) -> list[LinePlace]:
    """Draw lines of the project's source files.  Raises SpecLspError where there are none."""
    generator = random.Random(1)  # noqa: S311 - no secret
    found, _ = found_files([root], resolved)
    files = [file for file in found if Path(file.path).suffix.lower() in LANGUAGES]
    generator.shuffle(files)
    n_each = 1 + 2 * n_lines // max(1, len(files))
    drawn: list[LinePlace] = []
    for file in files:
        if len(drawn) >= n_lines:
            break
        source = read_source(file.path)
        if not isinstance(source, SourceText):
            continue
        lines = list(_LINE.finditer(source.text))
        for line in generator.sample(lines, min(n_each, len(lines))):
            document = Document(
                uri=Path(file.path).as_uri(),
                path=file.relative,
                file=file.path,
                repo_name=repository_name(root),
                language_id=LANGUAGES[Path(file.path).suffix.lower()],
                version=0,
                text=source.text[: line.start(1)] + source.text[line.end(1) :],
            )
            drawn.append(LinePlace(document, line.start(1), line[1]))
    if not drawn:
        raise SpecLspError(
            f"{root} holds no source file that speclsp indexes.",
            remedy="Name the folder of a project with source code.",
        )
    return drawn[:n_lines]


def _typed(window: Window, resolved: Settings, place: LinePlace, on_first: bool) -> Sides:
    """Type a line with and without speculation.  Raises SpecLspError where a request fails.

    The first request, which evaluates the prompt, is counted on neither side.
    """
    window.open_document(place.document)
    versions = itertools.count(1)
    _ask(window, place, 0, next(versions), Side())
    sides = {on_first: Side(), not on_first: Side()}
    for is_on, side in sides.items():
        window.apply_settings(replace(resolved, speculation=is_on))
        assert isinstance(window.completer, LocalCompleter)  # a remote engine is refused
        window.completer.wait_idle(_REST_S)
        for n_chars in range(0, len(place.line), _STRIDE):
            _ask(window, place, n_chars, next(versions), side)
    window.close_document(place.document.uri)
    return sides


def _ask(window: Window, place: LinePlace, n_chars: int, version: int, side: Side) -> None:
    """Type the first characters of the line, complete, and add what that took."""
    document, offset = place.document, place.offset
    text = document.text[:offset] + place.line[:n_chars] + document.text[offset:]
    request = CompletionRequest(
        uri=document.uri, version=version, offset=offset + n_chars, wait_for_model=True
    )
    started = time.perf_counter()
    window.change_document(document.uri, version, text)
    result = window.ask(request, CancellationToken()).result()
    if result.source == "model":
        side.stats = summed(side.stats, result.stats)
        side.ms.append(1000 * (time.perf_counter() - started))


def _print(model: str, project: str, lines: Sequence[Sides]) -> None:
    off, on = (_sum([line[is_on] for line in lines]) for is_on in (False, True))
    speed_ups = [
        line[True].tokens_per_s() / line[False].tokens_per_s()
        for line in lines
        if line[True].stats.n_predicted and line[False].stats.n_predicted
    ]
    acceptance = on.stats.n_accepted / on.stats.n_drafted if on.stats.n_drafted else 0.0
    title = f"{len(lines)} lines of {project} typed with {model}"
    table = Table("", title=title, title_justify="left", box=SIMPLE_HEAD)
    for header in ("speculation off", "on"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_row("tokens per second", f"{off.tokens_per_s():.1f}", f"{on.tokens_per_s():.1f}")
    if speed_ups:
        speed_up = on.tokens_per_s() / off.tokens_per_s()
        table.add_row("speed-up", "", f"{speed_up:.2f}×")
        table.add_row("… of single lines", "", f"{min(speed_ups):.2f} … {max(speed_ups):.2f}×")
    table.add_row("acceptance rate", "", f"{acceptance:.0%}")
    table.add_row("tokens per pass", *(f"{tokens_per_pass(one.stats):.2f}" for one in (off, on)))
    for share in (50, 95):
        times = (f"{np.percentile(one.ms or [0.0], share):.0f} ms" for one in (off, on))
        table.add_row(f"from key to suggestion, p{share}", *times)
    table.add_row("requests", *(str(len(one.ms)) for one in (off, on)))
    console = Console(highlight=False)
    console.print(table)
    off_ms, on_ms = (float(np.percentile(one.ms or [0.0], 95)) for one in (off, on))
    for sentence in _verdict(model, speed_ups, off_ms, on_ms):
        console.print(sentence)


def _sum(sides: Sequence[Side]) -> Side:
    stats = functools.reduce(summed, (side.stats for side in sides), RequestStats())
    return Side(stats, [ms for side in sides for ms in side.ms])


def _verdict(
    model: str, speed_ups: Sequence[float], off_ms: float, on_ms: float
) -> tuple[str, str, str]:
    """Return what the figures mean for typing and of speculation, and the next step.

    ``off_ms`` and ``on_ms`` are the 95th percentiles from key to suggestion.
    """
    logs = np.log(speed_ups)
    # Two standard errors of the mean are about its 95 % interval.
    is_clear = len(logs) >= _LEAST_LINES and (
        abs(logs.mean()) >= 2 * logs.std(ddof=1) / len(logs) ** 0.5
    )
    costs = is_clear and logs.mean() < 0
    p95_ms = off_ms if costs else on_ms
    if not is_clear:
        speculation = "no clear difference in these lines."
    elif costs:
        speculation = "costs time with this model and project."
    else:
        speculation = "pays with this model and project: leave it on."
    if p95_ms > _SLOW_MS:
        speed = "too slow"
    elif p95_ms > _FAST_MS:
        speed = "usable, with waits"
    else:
        speed = "fast enough"
    if model == TARGET_FILE_NAME:
        step = "`speclsp models recommend` names a real model; try it by --model NAME."
    elif p95_ms > _SLOW_MS:
        step = "take a smaller model, or put more layers on a GPU (--n-gpu-layers)."
    elif costs:
        step = "switch speculation off (--no-speculation)."
    elif not is_clear:
        step = "type more lines (--lines, --seconds), or set this model in your editor."
    else:
        step = "set this model in your editor."
    return (
        f"Typing: {speed}; 19 of 20 suggestions came within {p95_ms:.0f} ms of the key.",
        f"Speculation: {speculation}",
        f"Next: {step}",
    )
