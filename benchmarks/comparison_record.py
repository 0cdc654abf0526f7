"""What a comparison with peers prints and writes, as it grows, however it ends."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.machine import machine_lines, offloads
from benchmarks.peers.contract import Peer
from benchmarks.peers.reasons import reason
from benchmarks.peers_aims import ON_CPU, ON_GPU, aim_lines
from benchmarks.peers_decoding import DecodeRun
from benchmarks.peers_figures import Figures
from benchmarks.peers_places import Task
from benchmarks.peers_report import (
    TASKS,
    DecodedTask,
    comparison_chart,
    comparison_object,
    decoded_figures,
    decoded_ratio_table,
    decoded_table,
    place_lines,
    typed_ratio_table,
    typed_table,
    why_not_lines,
)
from benchmarks.peers_run import Comparison, decode_places, decode_tasks, loaded_models
from benchmarks.peers_typed_figures import typed_figures, typing_lines
from benchmarks.peers_typing import TypingPlan, runs_of, type_to_all
from speclsp.cli.options import write_text
from speclsp.errors import SpecLspError

_WIDTH: Final = 240
"""Of what is no terminal: a ratio with its spread takes some 20 columns."""
_SPEED_OVER_S: Final = 1800.0
"""The sides differ in speed, so that the time that is left is told by all that was done."""
_WITH: Final = "each side as its users have it"
_WITHOUT: Final = "no side remembers suggestions or asks ahead, and all end a text with its line"
ENDED_EARLY: Final = "The comparison ended early: what is missing was not measured."
_TYPED_CAPTIONS: Final = {
    _WITH: "Each side lays out prompts, stops and cuts by its own rules: speclsp by its settings, "
    "llama.vim by its defaults, llama-cpp-python with llama.vim's prompt.",
    _WITHOUT: "Each side lays out prompts by its own rules; a text ends with its line, with the "
    "model's end token or after the same number of tokens.",
}
_DECODED_CAPTION: Final = (
    "All sides continue the same prompt tokens, in the KV cache already, greedily and up to the "
    "same number of tokens; only the model's end token ends a text."
)


def _wide_console() -> Console:
    """Return the terminal; what is no terminal has room for the tables' columns."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, _WIDTH))


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Where a comparison is written; None for nowhere."""

    figures: Path | None
    chart: Path | None
    folder: Path | None
    """For all of it."""


@dataclass(slots=True)
class ComparisonRecord:
    """What was measured so far."""

    comparison: Comparison
    remarks: list[str] = field(default_factory=list)
    console: Console = field(default_factory=_wide_console)
    copy: Console = field(
        default_factory=lambda: Console(file=io.StringIO(), record=True, width=_WIDTH)
    )
    typed: dict[str, list[Figures]] = field(default_factory=dict)
    decoded: list[DecodedTask] = field(default_factory=list)
    layers: dict[str, int] = field(default_factory=dict)
    """Of the target model, per device, once it is loaded."""

    def say(self, what: RenderableType) -> None:
        """Print it now, and keep it for the record.  Brackets in a text are no markup."""
        for console in (self.console, self.copy):
            console.print(what, highlight=False, markup=False, soft_wrap=isinstance(what, str))

    def remark(self, lines: Sequence[str]) -> None:
        """Say lines that belong to the figures wherever they are shown."""
        self.remarks.extend(lines)
        for line in lines:
            self.say(line)

    @contextmanager
    def written_in_the_end(self, options: dict[str, Any], to: Destinations) -> Iterator[None]:
        """Write what was measured when the block ends, however it does.

        Hours may have gone into it.  Raises :class:`~speclsp.errors.SpecLspError` where something
        cannot be written, once the rest is.
        """
        is_whole = False
        try:
            yield
            is_whole = True
        except BaseException:
            self.remark([ENDED_EARLY])
            raise
        finally:
            if self.layers or self.typed or self.decoded:
                self._end(options, to, "" if is_whole else "-partial")

    def type_all(self, peers: Sequence[Peer], plan: TypingPlan, *, forgetting: bool) -> None:
        """Type the cases, and half of them once more with no side remembering, and one rule."""
        if plan.rounds:
            self._type(self.comparison, peers, plan, _WITH)
        if plan.rounds and forgetting:
            without = dataclasses.replace(self.comparison.options, with_cache=False, one_line=True)
            forgetful = dataclasses.replace(self.comparison, options=without)
            half = [cases[: (len(cases) + 1) // 2] for cases in plan.rounds]
            self._type(forgetful, peers, dataclasses.replace(plan, rounds=half), _WITHOUT)

    def decode(self, peers: Sequence[Peer]) -> None:
        """Load our models, and compare decoding where there are places for it."""
        runs: dict[Task, list[DecodeRun]] = {}
        with loaded_models(self.comparison.settings) as (words, weights):
            self.layers = weights.layers
            self.remark([f"speclsp: {reason(problem)}" for problem in weights.problems])
            if not self.comparison.n_places:
                return
            places = decode_places(self.comparison, words)
            self.remark(place_lines(places, self.comparison.n_places * self.comparison.n_rounds))
            try:
                with _progress(self.console) as progress:
                    task = progress.add_task("Decoding", total=None)

                    def advance(label: str, n_turns: int) -> None:
                        progress.update(task, description=label, total=n_turns, advance=1)

                    decode_tasks(runs, places, self.comparison, peers, words, weights, advance)
            finally:
                self._add_decoded(runs)

    def _type(
        self, comparison: Comparison, peers: Sequence[Peer], plan: TypingPlan, title: str
    ) -> None:
        runs = runs_of(peers, comparison.options)
        total = sum(plan.n_chars) * len(peers)
        try:
            with _progress(self.console) as progress:
                task = progress.add_task("Typing", total=total)

                def advance(label: str, n_chars: int) -> None:
                    progress.update(task, description=label, advance=n_chars)

                type_to_all(runs, peers, comparison.options, plan, advance)
        finally:
            if any(run.rounds for run in runs):
                self._add_typed(title, typed_figures(runs), plan)
            else:
                self.remark(
                    [f"{run.name} did not run: {run.why_not}" for run in runs if run.why_not]
                )

    def _add_typed(self, title: str, figures: list[Figures], plan: TypingPlan) -> None:
        self.typed[title] = figures
        n_done = max(side.n_rounds for side in figures)
        n_cases = len({case.id for cases in plan.rounds[:n_done] for case in cases})
        what = f"{n_cases} cases, {sum(plan.n_chars[:n_done])} characters in {n_done} rounds"
        self.say(typed_table(f"Typed, {title}: {what}", figures))
        self.say(typed_ratio_table("speclsp / the others", figures))
        self.remark(typing_lines(title, figures, plan))
        for line in why_not_lines(figures):
            self.say(line)
        self.say(_TYPED_CAPTIONS[title])

    def _add_decoded(self, runs: dict[Task, list[DecodeRun]]) -> None:
        for kind, found in runs.items():
            n_whole, n_rounds = max(len(run.rounds) for run in found), self.comparison.n_rounds
            if n_whole:
                decoded = decoded_figures(kind, found)
                self.decoded.append(decoded)
                self.say(decoded_table(decoded))
                self.say(decoded_ratio_table(decoded))
                for line in why_not_lines(decoded.sides):
                    self.say(line)
            if n_whole < n_rounds:
                where = f"Decoding {TASKS[kind]}"
                self.remark([f"{where} was cut short: {n_whole} of {n_rounds} rounds are whole."])
        if self.decoded:
            self.say(_DECODED_CAPTION)

    def _end(self, options: dict[str, Any], to: Destinations, suffix: str) -> None:
        """Say what the aims came to and what the machine is, and write all of it.

        ``suffix`` sets the record of a part apart from one of the whole.  Before our model was
        loaded nobody knows whether a GPU's aims hold, and none are told.
        """
        aims = ON_GPU if offloads(self.layers) else ON_CPU
        typed = self.typed.get(_WITH, [])
        reached = aim_lines(aims, typed, self.decoded) if self.layers else []
        given = self.comparison.options
        machine = machine_lines(self.layers, given.n_threads, given.llama_server)
        for line in [*reached, *(f"{name}: {value}" for name, value in machine)]:
            self.say(line)
        found = comparison_object(options, machine, self.remarks, self.typed, self.decoded, reached)
        figures = json.dumps(found, indent=1) + "\n"
        chart = comparison_chart(typed, self.decoded, self.remarks)
        files = [(to.figures, figures), (to.chart, chart)]
        if to.folder is not None:
            day = dt.datetime.now(tz=dt.UTC).date().isoformat()
            stem = f"peers-{day}-{given.model.stem}{suffix}"
            contents = {"txt": self.copy.export_text(), "json": figures, "svg": chart}
            files += [(to.folder / f"{stem}.{kind}", text) for kind, text in contents.items()]
        write_all([(path, text) for path, text in files if path is not None])


def write_all(files: Sequence[tuple[Path, str]]) -> None:
    """Write each file that can be written.  Raises SpecLspError for the first that cannot."""
    problems: list[SpecLspError] = []
    for path, text in files:
        try:
            write_text(path, text)
        except SpecLspError as error:
            problems.append(error)
    if problems:
        raise problems[0]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=_SPEED_OVER_S,
    )
