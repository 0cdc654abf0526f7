"""``python -m benchmarks peers``: beside what a user would pick instead.

Typed sessions come first, then decoding alone; what is measured is printed as it grows, and written
however it ends.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from benchmarks.cases import EditCase, load_cases
from benchmarks.decoding import (
    TASKS,
    DecodedTask,
    DecodePlace,
    Decoder,
    DecodeRun,
    DecodeSide,
    Task,
    decode_all,
    decode_runs_of,
    decoded_figures,
    decoded_ratio_table,
    decoded_table,
    in_rounds,
)
from benchmarks.figures import Figures, why_not_lines
from benchmarks.machine import loaded_models, machine_lines, remarks
from benchmarks.peers.contract import Peer, PeerOptions
from benchmarks.peers.decoding import OwnDecoders, PlaceFinder, server_side
from benchmarks.peers.llama_server import NAME as LLAMA_SERVER
from benchmarks.peers.llama_server import LlamaServerPeer, llama_server_peers
from benchmarks.peers.own import OURS, OURS_PLAIN, HttpPeer, our_peers, own_settings
from benchmarks.peers.report import place_lines, typed_figures, typed_ratio_table, typed_table
from benchmarks.peers.typed_rounds import (
    Rounds,
    case_lines,
    n_chars_of,
    type_with_progress,
    typed_rounds,
    typed_runs_of,
)
from benchmarks.progress import RunProgress
from benchmarks.report import as_json, ended_by_signals, reason, without_folders, write_text
from benchmarks.tables import Table
from speclsp.backends.llama.library import route_log
from speclsp.backends.llama.vocabulary import load_vocabulary, vocabulary_difference
from speclsp.backends.params import n_threads
from speclsp.backends.weights import Tokenizer, Weights
from speclsp.embedded import model_files
from speclsp.errors import ModelLoadError, SpecLspError, StoreError
from speclsp.ngrams.files import open_statistics
from speclsp.ngrams.own_layout import MAGIC
from speclsp.ngrams.reading import read_bytes
from speclsp.prompt.families import family_for
from speclsp.settings import Settings

_LEAST_PROMPT: Final = 512
"""Tokens of a prompt beside which the decoded ones have to fit."""


ServerPeer = LlamaServerPeer | HttpPeer
"""A side that is asked over HTTP."""


class UnknownPeerError(SpecLspError):
    """A name that no side of the comparison has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is compared, and how much of it."""

    cases_path: Path
    llama_server: Path | None = None
    statistics_file: Path | None = None
    peer_names: str = ""
    n_rounds: int
    n_cases: int
    n_keys: int
    n_places: int
    """Places of each kind and round at which decoding is compared."""
    n_decoded: int
    """Tokens that are decoded at each."""
    replay_seed: int = 0

    def check(self, n_context: int) -> None:
        """Raise UsageError where it cannot be done with a context of so many tokens."""
        if not self.n_cases and not self.n_places:
            raise click.UsageError("--n-cases 0 and --places 0 leave nothing to compare.")
        if self.n_places and n_context and self.n_decoded + _LEAST_PROMPT > n_context:
            raise click.BadParameter(
                f"{self.n_decoded} tokens behind prompts of {_LEAST_PROMPT} do not fit a context "
                f"of {n_context} (--ctx-size).",
                param_hint="--decode-tokens",
            )


def run(
    settings: Settings,
    *,
    json_path: Path | None,
    record_folder: Path | None,
    **options: Any,
) -> None:
    """Compare with llama-server behind llama.vim; the other options are those of :class:`Plan`."""
    plan = Plan(**options)
    plan.check(settings.ctx_size)
    cases = load_cases(plan.cases_path)
    names = [name.strip() for name in plan.peer_names.split(",") if name.strip()]
    ours, servers = our_peers(settings), chosen_servers(names, settings)
    with TemporaryDirectory() as folder, ended_by_signals():
        given = peer_options(settings, plan.llama_server, plan.statistics_file, Path(folder))
        comparison = Comparison(
            settings=own_settings(settings, given), options=given, cases=cases, plan=plan
        )
        check_files(comparison)
        rounds = typed_rounds(
            cases,
            n_rounds=plan.n_rounds,
            n_cases=plan.n_cases,
            n_keys=plan.n_keys,
            seed=plan.replay_seed,
        )
        comparison.remark([*remarks(settings), *case_lines(rounds, plan.n_cases, plan.n_keys)])
        to = Destinations(figures=json_path, folder=record_folder)
        with comparison.written_in_the_end(to):
            if rounds:
                comparison.type_to([*ours, *without_kinds(servers, names)], rounds)
            comparison.decode(servers)


def peer_options(
    settings: Settings, llama_server: Path | None, statistics_file: Path | None, folder: Path
) -> PeerOptions:
    """Return what all sides are given; our own server runs in another folder than this."""
    files = model_files(settings)
    layers = settings.n_gpu_layers
    return PeerOptions(
        model=files.target.absolute(),
        draft_model=files.draft and files.draft.absolute(),
        statistics_file=statistics_file and statistics_file.absolute(),
        llama_server=llama_server and llama_server.absolute(),
        n_threads=n_threads(settings, files.target.stat().st_size)[0],
        n_gpu_layers=layers if isinstance(layers, int) else -1,
        n_context=settings.ctx_size,
        n_predict=settings.n_predict,
        folder=folder,
    )


def chosen_servers(names: Sequence[str], settings: Settings) -> list[ServerPeer]:
    """Return the servers of these names, beside our sides over stdio, which always run.

    All where no names are given.  Raises :class:`UnknownPeerError`.
    """
    servers: list[ServerPeer] = [HttpPeer(settings), *llama_server_peers()]
    known = [peer.name for peer in (*our_peers(Settings()), *servers)]
    for name in names:
        if name not in known:
            raise UnknownPeerError(
                f"{name!r} cannot be compared with.", remedy=f"Known: {', '.join(known)}."
            )
    return [peer for peer in servers if not names or peer.name in names]


def without_kinds(servers: Sequence[ServerPeer], asked_for: Collection[str]) -> list[ServerPeer]:
    """Return the servers but for llama-server's kinds of speculation that were not asked for.

    The kinds hardly change what a key waits: most of that is the prompt.
    """
    return [
        peer
        for peer in servers
        if isinstance(peer, HttpPeer) or peer.name == LLAMA_SERVER or peer.name in asked_for
    ]


ENDED_EARLY: Final = "The comparison ended early: what is missing was not measured."
_TYPED_CAPTION: Final = (
    "Each side lays out prompts, stops and cuts by its own rules: speclsp by its settings, "
    "llama.vim by its defaults."
)
_DECODED_CAPTION: Final = (
    "All sides continue the same prompt tokens, in the KV cache already, greedily and up to the "
    "same number of tokens; only the model's end token ends a text."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Where a comparison is written; None for nowhere."""

    figures: Path | None
    folder: Path | None
    """For what was printed, too."""


@dataclass(slots=True, kw_only=True)
class Comparison:
    """What is compared, how much of it, and what was measured so far."""

    settings: Settings
    options: PeerOptions
    cases: Sequence[EditCase]
    plan: Plan
    remarks: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """All that was printed."""
    typed: list[Figures] = field(default_factory=list)
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
    def written_in_the_end(self, to: Destinations) -> Iterator[None]:
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
                self._end(to, "" if is_whole else "-partial")

    def type_to(self, peers: Sequence[Peer], rounds: Rounds) -> None:
        """Type the cases, to each side as its users have it."""
        runs = typed_runs_of(peers, self.options)
        try:
            type_with_progress(runs, peers, self.options, rounds, self.plan.replay_seed)
        finally:
            if any(run.rounds for run in runs):
                self._add_typed(typed_figures(runs), rounds)
            else:
                self.remark(why_not_lines(typed_figures(runs)))

    def _add_typed(self, figures: list[Figures], rounds: Rounds) -> None:
        self.typed = figures
        done = rounds[: max(side.n_rounds for side in figures)]
        n_cases = len({case.id for cases in done for case in cases})
        what = f"{n_cases} cases, {sum(map(n_chars_of, done))} characters in {len(done)} rounds"
        self.say(typed_table(f"Typed: {what}", figures))
        self.say(typed_ratio_table("speclsp / the others", figures))
        if len(done) < len(rounds):
            whole = f"{len(done)} of {len(rounds)} rounds are whole"
            self.remark([f"Typing was cut short: {whole}."])
        for line in why_not_lines(figures):
            self.say(line)
        self.say(_TYPED_CAPTION)

    def decode(self, servers: Sequence[ServerPeer]) -> None:
        """Load our models, and compare decoding where there are places for it."""
        runs: dict[Task, list[DecodeRun]] = {}
        with loaded_models(self.settings) as (tokenizer, weights):
            self.layers = weights.layers
            self.remark([f"{OURS}: {reason(problem)}" for problem in weights.problems])
            if not self.plan.n_places:
                return
            places = decode_places(self, tokenizer)
            self.remark(place_lines(places, self.plan.n_places * self.plan.n_rounds))
            try:
                with RunProgress() as progress:
                    task = progress.add_task("Decoding", total=None)

                    def advance(label: str, n_turns: int) -> None:
                        progress.update(task, description=label, total=n_turns, advance=1)

                    decode_tasks(runs, places, self, servers, tokenizer, weights, advance)
            finally:
                self._add_decoded(runs)

    def _add_decoded(self, runs: dict[Task, list[DecodeRun]]) -> None:
        for kind, found in runs.items():
            n_whole = max(len(run.rounds) for run in found)
            if n_whole:
                decoded = decoded_figures(kind, found)
                self.decoded.append(decoded)
                self.say(decoded_table(decoded))
                self.say(decoded_ratio_table(decoded, OURS))
                for line in why_not_lines(decoded.sides):
                    self.say(line)
            if n_whole < self.plan.n_rounds:
                whole = f"{n_whole} of {self.plan.n_rounds} rounds are whole"
                self.remark([f"Decoding {TASKS[kind]} was cut short: {whole}."])
        if self.decoded:
            self.say(_DECODED_CAPTION)

    def _end(self, to: Destinations, suffix: str) -> None:
        """Print a description of the machine, and write all files.

        ``suffix`` sets the record of a part apart from one of the whole.
        """
        machine = machine_lines(self.layers, self.options.n_threads, self.options.llama_server)
        for name, value in machine:
            self.say(f"{name}: {value}")
        figures = as_json(
            {
                "options": _without_folders(
                    {**dataclasses.asdict(self.plan), **dataclasses.asdict(self.options)}
                ),
                "machine": dict(machine),
                "remarks": self.remarks,
                "typed": self.typed,
                "decoding": self.decoded,
            }
        )
        files = [] if to.figures is None else [(to.figures, figures)]
        if to.folder is not None:
            to.folder.mkdir(parents=True, exist_ok=True)
            day = dt.datetime.now(tz=dt.UTC).date().isoformat()
            stem = f"peers-{day}-{self.options.model.stem}{suffix}"
            files.append((to.folder / f"{stem}.txt", "\n".join([*self.said, ""])))
            files.append((to.folder / f"{stem}.json", figures))
        write_all(files)


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
        difference = vocabulary_difference(vocabulary, load_vocabulary(draft))
        if difference:
            raise ModelLoadError(
                f"The draft model's vocabulary differs from the target model's: {difference}.",
                remedy="Choose one of the target model's family, which llama-server takes, too.",
            )
    if statistics is not None:
        if read_bytes(statistics).startswith(MAGIC):
            raise StoreError(
                f"{statistics} is not in llama.cpp's layout, which llama-server reads.",
                remedy="Build it with `speclsp ngram build --order 2 --format llama.cpp`.",
            )
        open_statistics(statistics, vocabulary, "static")


def decode_places(comparison: Comparison, tokenizer: Tokenizer) -> dict[Task, list[DecodePlace]]:
    """Return the places at which decoding is compared, of each kind as many as there are."""
    finder = PlaceFinder(comparison.settings, tokenizer.vocabulary.tokenize)
    n_places = comparison.plan.n_places * comparison.plan.n_rounds
    seed = comparison.plan.replay_seed
    return {
        "cases": finder.of_cases(comparison.cases, n_places, seed),
        "edits": finder.of_edits(comparison.cases, n_places, seed),
    }


def decode_tasks(
    runs: dict[Task, list[DecodeRun]],
    places: Mapping[Task, Sequence[DecodePlace]],
    comparison: Comparison,
    servers: Sequence[ServerPeer],
    tokenizer: Tokenizer,
    weights: Weights,
    progress: Callable[[str, int], None],
) -> None:
    """Let all sides decode at the places of all kinds.

    ``runs`` hold the whole rounds at any time; a kind without places is not among them.
    ``progress`` is told who is next, and how many turns there are in all.
    """
    decoder = Decoder(comparison.settings, tokenizer, weights)
    own = OwnDecoders(decoder)
    with ExitStack() as stack:
        sides, missing = _sides(stack, comparison.options, servers)
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
                in_rounds(chosen, comparison.plan.n_rounds),
                decoder.context,
                plain=OURS_PLAIN,
                n_predict=comparison.plan.n_decoded,
                progress=lambda label: progress(label, n_turns),
            )


def _sides(
    stack: ExitStack, options: PeerOptions, servers: Sequence[ServerPeer]
) -> tuple[list[DecodeSide], list[DecodeRun]]:
    """Start the servers; those that cannot run say why."""
    sides: list[DecodeSide] = []
    missing: list[DecodeRun] = []
    for peer in servers:
        why_not = peer.why_not(options)
        if why_not is None:
            try:
                sides.append(server_side(peer.name, stack.enter_context(peer.open(options))))
                continue
            except SpecLspError as error:
                why_not = reason(error)
        missing.append(DecodeRun(peer.name, why_not=without_folders(why_not)))
    return sides, missing


def _without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a record has them: files by their names."""
    return {
        name: value.name if isinstance(value, Path) else value for name, value in options.items()
    }


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
