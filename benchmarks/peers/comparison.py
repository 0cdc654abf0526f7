"""A whole comparison with peers: typed sessions, then decoding alone, printed as it grows."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.cases import EditCase
from benchmarks.machine import machine_lines
from benchmarks.output_file import write_text
from benchmarks.peers.contract import Peer, PeerOptions, TokenPeerSession, reason, without_folders
from benchmarks.peers.decoding import (
    DecodePlace,
    DecodeRun,
    DecodeSide,
    OwnDecoders,
    PlaceFinder,
    Task,
    decode_all,
    decode_runs_of,
    in_rounds,
    token_side,
)
from benchmarks.peers.figures import Figures, typed_figures, typing_lines
from benchmarks.peers.llama_server import NAME as LLAMA_SERVER
from benchmarks.peers.llama_server import llama_server_peers
from benchmarks.peers.lookup_peer import lookup_peer
from benchmarks.peers.own import OURS, OURS_PLAIN, our_peers
from benchmarks.peers.report import (
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
from benchmarks.peers.typed_rounds import TypingPlan, type_to_all, typed_runs_of
from benchmarks.progress import RunProgress
from benchmarks.tables import Table
from speclsp.engine.llama.library import route_log
from speclsp.engine.llama.vocabulary import check_vocabularies, load_vocabulary
from speclsp.engine.models import LlamaLoader, Tokenizer, Weights
from speclsp.errors import SpecLspError, StoreError
from speclsp.ngrams.files import open_statistics
from speclsp.ngrams.own_layout import MAGIC
from speclsp.ngrams.reading import read_bytes
from speclsp.prompt.families import family_for
from speclsp.settings import Settings

LEAST_ROUNDS: Final = 3
"""Fewer say nothing of the spread."""


class UnknownPeerError(SpecLspError):
    """A name that no side of the comparison has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared, and how much of it."""

    settings: Settings
    options: PeerOptions
    cases: Sequence[EditCase]
    n_rounds: int
    seed: int
    n_places: int
    """Places of each kind and round at which decoding is compared."""
    n_decoded: int
    """Tokens that are decoded at each."""


def all_peers(settings: Settings) -> list[Peer]:
    """Return all sides: ours first, then llama-server's configurations, then llama-cpp-python."""
    return [*our_peers(settings), *llama_server_peers(), lookup_peer()]


def chosen_peers(settings: Settings, names: Sequence[str]) -> list[Peer]:
    """Return the sides of these names and ours, which everything is compared with.

    All where no names are given.  Raises :class:`UnknownPeerError`.
    """
    peers = all_peers(settings)
    known = [peer.name for peer in peers]
    for name in names:
        if name not in known:
            raise UnknownPeerError(
                f"{name!r} cannot be compared with.", remedy=f"Known: {', '.join(known)}."
            )
    always = {OURS, OURS_PLAIN}
    return [peer for peer in peers if not names or peer.name in always.union(names)]


def without_kinds(peers: Sequence[Peer], asked_for: Collection[str]) -> list[Peer]:
    """Return all sides but llama-server's kinds of speculation that were not asked for.

    They hardly change what a key waits: most of that is the prompt.
    """
    return [
        peer
        for peer in peers
        if peer.name in asked_for or not peer.name.startswith(f"{LLAMA_SERVER} ")
    ]


def check_files(comparison: Comparison) -> None:
    """Check the files that a comparison reads late, so that it does not fail after an hour.

    Raises :class:`~speclsp.errors.SpecLspError` for a model that cannot fill in, for a draft model
    with other tokens, and for statistics that are not the model's or that llama-server cannot read.
    """
    route_log(lambda _level, _line: None)
    draft, statistics = comparison.options.draft_model, comparison.options.statistics_file
    vocabulary = load_vocabulary(comparison.options.model)
    family_for(vocabulary, comparison.settings.fim_template)
    if draft is not None:
        check_vocabularies(vocabulary, load_vocabulary(draft))
    if statistics is not None:
        if read_bytes(statistics).startswith(MAGIC):
            raise StoreError(
                f"{statistics} is not in llama.cpp's layout, which llama-server reads.",
                remedy="Build it with `speclsp ngram build --order 2 --format llama.cpp`.",
            )
        open_statistics(statistics, vocabulary, "static")


@contextmanager
def loaded_models(settings: Settings) -> Iterator[tuple[Tokenizer, Weights]]:
    """Load our models into this process, and free them in the end."""
    loader = LlamaLoader(lambda _level, _line: None)
    tokenizer = loader.tokenizer(settings)
    weights = loader.weights(settings, tokenizer, lambda _share: True, lambda _level, _line: None)
    try:
        yield tokenizer, weights
    finally:
        weights.close()


def decode_places(comparison: Comparison, tokenizer: Tokenizer) -> dict[Task, list[DecodePlace]]:
    """Return the places at which decoding is compared, of each kind as many as there are."""
    finder = PlaceFinder(comparison.settings, tokenizer.vocabulary.tokenize)
    n_places = comparison.n_places * comparison.n_rounds
    return {
        "cases": finder.of_cases(comparison.cases, n_places, comparison.seed),
        "edits": finder.of_edits(comparison.cases, n_places, comparison.seed),
    }


def decode_tasks(
    runs: dict[Task, list[DecodeRun]],
    places: Mapping[Task, Sequence[DecodePlace]],
    comparison: Comparison,
    peers: Sequence[Peer],
    tokenizer: Tokenizer,
    weights: Weights,
    progress: Callable[[str, int], None],
) -> None:
    """Let all sides decode at the places of all kinds.

    ``runs`` hold the whole rounds at any time; a kind without places is not among them.
    ``progress`` is told who is next, and how many turns there are in all.
    """
    own = OwnDecoders(comparison.settings, tokenizer, weights)
    with ExitStack() as stack:
        sides, missing = _sides(stack, comparison.options, peers)
        n_turns = sum(
            len(chosen) * (len(own.sides(task)) + len(sides)) for task, chosen in places.items()
        )
        for task, chosen in places.items():
            if not chosen:
                continue
            all_sides = [*own.sides(task), *sides]
            found = decode_runs_of(all_sides)
            runs[task] = [*found, *missing]
            decode_all(
                found,
                all_sides,
                in_rounds(chosen, comparison.n_rounds),
                own.context,
                n_predict=comparison.n_decoded,
                progress=lambda label: progress(label, n_turns),
            )


def _sides(
    stack: ExitStack, options: PeerOptions, peers: Sequence[Peer]
) -> tuple[list[DecodeSide], list[DecodeRun]]:
    """Start the peers that continue tokens; the others say why they do not."""
    sides: list[DecodeSide] = []
    missing: list[DecodeRun] = []
    for peer in peers:
        if peer.name in (OURS, OURS_PLAIN):
            continue
        why_not = peer.why_not(options)
        if why_not is None:
            try:
                session = stack.enter_context(peer.open(options))
                if isinstance(session, TokenPeerSession):
                    sides.append(token_side(peer.name, session))
                    continue
                why_not = "it cannot be given a prompt of tokens."
            except SpecLspError as error:
                why_not = reason(error)
        missing.append(DecodeRun(peer.name, why_not=without_folders(why_not)))
    return sides, missing


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Where a comparison is written; None for nowhere."""

    figures: Path | None
    chart: Path | None
    folder: Path | None
    """For all of it."""


@dataclass(slots=True)
class ComparisonRecord:
    """The figures measured so far."""

    comparison: Comparison
    remarks: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """All that was printed."""
    typed: dict[str, list[Figures]] = field(default_factory=dict)
    decoded: list[DecodedTask] = field(default_factory=list)
    layers: dict[str, int] = field(default_factory=dict)
    """Of the target model, per device, once it is loaded."""

    def say(self, what: Table | str) -> None:
        """Print it, and keep it for the record."""
        self.said.append(str(what))
        click.echo(what)

    def remark(self, lines: Sequence[str]) -> None:
        """Print lines that belong to the figures wherever they are shown."""
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
                with RunProgress() as progress:
                    task = progress.add_task("Decoding", total=None)

                    def advance(label: str, n_turns: int) -> None:
                        progress.update(task, description=label, total=n_turns, advance=1)

                    decode_tasks(runs, places, self.comparison, peers, words, weights, advance)
            finally:
                self._add_decoded(runs)

    def _type(
        self, comparison: Comparison, peers: Sequence[Peer], plan: TypingPlan, title: str
    ) -> None:
        runs = typed_runs_of(peers, comparison.options)
        total = sum(plan.n_chars) * len(peers)
        try:
            with RunProgress() as progress:
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
        """Print a description of the machine, and write all files.

        ``suffix`` sets the record of a part apart from one of the whole.
        """
        typed = self.typed.get(_WITH, [])
        given = self.comparison.options
        machine = machine_lines(self.layers, given.n_threads, given.llama_server)
        for name, value in machine:
            self.say(f"{name}: {value}")
        found = comparison_object(options, machine, self.remarks, self.typed, self.decoded)
        figures = json.dumps(found, indent=1) + "\n"
        chart = comparison_chart(typed, self.decoded, self.remarks)
        files = [(to.figures, figures), (to.chart, chart)]
        if to.folder is not None:
            to.folder.mkdir(parents=True, exist_ok=True)
            day = dt.datetime.now(tz=dt.UTC).date().isoformat()
            stem = f"peers-{day}-{given.model.stem}{suffix}"
            contents = {"txt": "\n".join([*self.said, ""]), "json": figures, "svg": chart}
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
