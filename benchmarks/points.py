"""``python -m benchmarks points``: functions typed again, and one request at some points in them.

Every function begins with a new editor, a new engine and the project's index complete, in a copy of
the project that lacks the function's body, so that its answers depend on no other function.
A request follows one a key earlier and a pause, as while typing.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import click
from msgspec import structs

from benchmarks.askers import Answer, changed_settings, local_asker
from benchmarks.cases import EditCase, load_cases
from benchmarks.generation_records import Records, recorded_generations
from benchmarks.pace import measured_pace
from benchmarks.peers.contract import PeerOptions
from benchmarks.peers.infill import PROBABILITIES, Infill, InfillAnswer, JsonObject
from benchmarks.peers.llama_server import LlamaServerPeer, llama_server
from benchmarks.peers.vim_asker import VimAsker
from benchmarks.point_records import (
    Header,
    Point,
    PointRecord,
    PointsError,
    RecordFile,
    cut_text,
    n_kept_tokens,
    read_records,
)
from benchmarks.point_tables import calibration_table, groups_table, sides_table, thresholds_table
from benchmarks.progress import RunProgress
from benchmarks.report import Report, printed_if_ended_early
from benchmarks.tables import Table
from benchmarks.typing_session import keys
from speclsp.backends.params import n_threads
from speclsp.embedded import model_files
from speclsp.settings import Settings

OURS: Final = "speclsp"
PLAIN: Final = "no speculation"
UNCUT: Final = "no thresholds"
VIM: Final = "llama.vim"
CUT_VIM: Final = "llama.vim cut at 0.7"
CLIENT_THRESHOLD: Final = 0.7
"""At which MizuchiLabs/tsugi.nvim ends a text."""

REPEATABLE: Final[Mapping[str, Any]] = {
    "deadline_ms": 600_000,
    "t_max_predict_ms": 0,
    "mode": "tree",
    "idle_work": "prompts",
    "suggestion_memory": False,
}
"""Settings by which texts and counts do not depend on how fast a machine is."""
_OWN_SIDES: Final[Mapping[str, Mapping[str, Any]]] = {
    OURS: {},
    PLAIN: {"speculation": False},
    UNCUT: {"min_probability": 0.0},
}
"""What each of our sides changes."""
_N_BEHIND: Final = 400
"""Characters behind the function that a text may go on to."""


# --- points --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionPoints:
    """A function that is typed again, and where a request is made: characters typed before it."""

    case: EditCase
    places: tuple[int, ...]

    def point(self, n_typed: int) -> Point:
        """Return one of the points."""
        case = self.case
        before = case.prefix + case.typed[:n_typed]
        return Point(
            case=case.id,
            n_typed=n_typed,
            project=case.project_name,
            language_id=case.language_id,
            path=case.path,
            line_before=before[before.rfind("\n") + 1 :],
            human=case.typed[n_typed:] + case.suffix[:_N_BEHIND],
        )


def drawn_points(
    cases: Sequence[EditCase], *, n_points: int, n_each: int, seed: int
) -> list[FunctionPoints]:
    """Draw ``n_each`` points in each of as many functions as ``n_points`` need.

    Functions are drawn evenly over the projects; fewer points where there are no more functions.
    The same functions have the same points, however many there are.
    """
    by_project: dict[str, list[EditCase]] = {}
    for case in cases:
        by_project.setdefault(case.project_name, []).append(case)
    for name, own in by_project.items():
        random.Random(f"functions {name} {seed}").shuffle(own)  # noqa: S311 - no secret
    in_turns = (case for row in zip_longest(*by_project.values()) for case in row if case)
    drawn: list[FunctionPoints] = []
    n_left = n_points
    for case in in_turns:
        places = _drawn_places(case, n_each, seed)[:n_left]
        if places:
            drawn.append(FunctionPoints(case=case, places=tuple(sorted(places))))
            n_left -= len(places)
        if not n_left:
            break
    return drawn


def _drawn_places(case: EditCase, n_each: int, seed: int) -> list[int]:
    """Draw as many places at the beginnings of lines as within lines."""
    ends = [*accumulate(map(len, keys(case.typed)))]
    generator = random.Random(f"points {case.id} {seed}")  # noqa: S311 - no secret
    starts, others = [
        generator.sample(own, len(own))
        for own in (
            [end for end in ends if _is_wanted(case, end) and is_start == _is_start(case, end)]
            for is_start in (True, False)
        )
    ]
    in_turns = (place for row in zip_longest(starts, others) for place in row if place)
    return [*islice(in_turns, n_each)]


def _is_start(case: EditCase, n_typed: int) -> bool:
    return not case.typed[:n_typed].rpartition("\n")[2].strip()


def _is_wanted(case: EditCase, n_typed: int) -> bool:
    """Whether there is something to write, at the beginning of a line on this line."""
    rest = case.typed[n_typed:]
    return bool((rest.partition("\n")[0] if _is_start(case, n_typed) else rest).strip())


@contextmanager
def without_body(case: EditCase) -> Iterator[EditCase]:
    """Yield the case in a copy of its project whose file lacks the function's body."""
    before = dataclasses.replace(case, replaced="")
    if case.project is None:
        yield before
        return
    with TemporaryDirectory() as folder:
        project = Path(folder) / case.project_name
        shutil.copytree(case.project, project)
        (project / case.path).write_bytes(before.before.encode("utf-8"))
        yield dataclasses.replace(before, project=project)


def _key_before(case: EditCase, n_typed: int) -> int:
    ends = [0, *accumulate(map(len, keys(case.typed)))]
    return next(before for before, end in pairwise(ends) if end == n_typed)


# --- sides ---------------------------------------------------------------------------------------


class Side(Protocol):
    """A way of completing."""

    @property
    def name(self) -> str:
        """As tables and ``--sides`` name it."""

    def opened(self) -> AbstractContextManager[AskFunction]:
        """Start what all functions need, and end it for sure."""


AskFunction = Callable[[FunctionPoints], list[PointRecord]]
"""Asks at all points of a function."""


@dataclass(frozen=True, slots=True)
class OwnSide:
    """speclsp in this process."""

    name: str
    settings: Settings

    @contextmanager
    def opened(self) -> Iterator[AskFunction]:
        """Start nothing: each function has its own engine."""
        with recorded_generations() as records:
            yield lambda function: self._asked(function, records)

    def _asked(self, function: FunctionPoints, records: Records) -> list[PointRecord]:
        found: list[PointRecord] = []
        with without_body(function.case) as case, local_asker(self.settings) as asker:
            asker.enter(case)
            for n_typed in function.places:
                asker.finish()
                asker.ask(case, _key_before(case, n_typed), {"n_predict": 1})
                asker.finish()
                records.clear()
                answer = asker.ask(case, n_typed)
                point = function.point(n_typed)
                found.append(own_record(self.name, point, answer, records))
            asker.leave(case)
        return found


def own_record(side: str, point: Point, answer: Answer, records: Records) -> PointRecord:
    """Return the record of an answer; ``records`` holds what was decoded for it, if anything."""
    made = _record(side, point, answer)
    generation = next(iter(records.values()), None)
    if generation is None:
        return made
    return structs.replace(
        made,
        text=generation.text,
        n_replaced=generation.n_replaced,
        pieces=tuple(map(_printed, generation.pieces)),
        logprobs=generation.logprobs,
        held_back=generation.held_back,
        finish_reason=generation.finish_reason,
        stopped_by=generation.stopped_by or "",
    )


@dataclass(frozen=True, slots=True)
class VimSide:
    """llama.vim's logic on a llama-server.

    With ``threshold`` above 0 its client ends a text where the tokens' joint probability falls
    below it, and what comes behind is not generated.
    """

    name: str
    options: PeerOptions
    threshold: float
    has_limits: bool
    """Whether the plugin's limits of time hold."""

    @contextmanager
    def opened(self) -> Iterator[AskFunction]:
        """Start the server.

        Raises :class:`~speclsp.errors.SpecLspError` where it does not start.
        """
        peer = LlamaServerPeer()
        why_not = peer.why_not(self.options)
        if why_not is not None:
            raise PointsError(f"{self.name}: {why_not}")
        log = self.options.folder / "llama-server.log"
        with llama_server(peer.command(self.options), log) as server:
            yield lambda function: self.asked(function, server.infill)

    def asked(self, function: FunctionPoints, infill: Infill) -> list[PointRecord]:
        """Ask at a function's points, in an editor that was just started."""
        answers: list[InfillAnswer] = []

        def ask(request: JsonObject) -> InfillAnswer:
            answers.append(infill(self._body(request)))
            return answers[-1]

        asker = VimAsker(ask, n_predict=self.options.n_predict)
        case = dataclasses.replace(function.case, replaced="")
        asker.enter(case)
        found: list[PointRecord] = []
        for n_typed in function.places:
            answer = asker.ask(case, n_typed)
            made = _record(self.name, function.point(n_typed), answer)
            if self.threshold and answer.source == "model":
                made = self._cut(made, answers[-1])
            found.append(made)
        asker.leave(case)
        return found

    def _body(self, request: JsonObject) -> JsonObject:
        body = dict(request)
        if not self.has_limits:
            body.pop("t_max_predict_ms")
            body.pop("t_max_prompt_ms")
        if self.threshold:
            body["n_probs"] = 1
            body["response_fields"] = [*body["response_fields"], PROBABILITIES]
        return body

    def _cut(self, record: PointRecord, answer: InfillAnswer) -> PointRecord:
        whole = structs.replace(
            record,
            pieces=tuple(_printed(piece) for piece, _ in answer.tokens),
            logprobs=tuple(logprob for _, logprob in answer.tokens),
        )
        cut = cut_text(whole, n_kept_tokens(whole.scores.logprobs, self.threshold))
        return structs.replace(whole, shown=cut.text, n_predicted=cut.n_tokens)


def _record(side: str, point: Point, answer: Answer) -> PointRecord:
    stats = answer.stats
    return PointRecord(
        side=side,
        point=point,
        shown=answer.text,
        text=answer.text,
        n_replaced=answer.n_replaced,
        source=answer.source,
        n_prompt=stats.n_prompt,
        n_prompt_evaluated=stats.n_prompt_evaluated,
        n_predicted=stats.n_predicted,
        n_passes=stats.n_target_passes,
        n_drafted=stats.n_drafted,
        n_accepted=stats.n_accepted,
        ms=answer.ms,
    )


def _printed(piece: bytes) -> str:
    return piece.decode("utf-8", "surrogateescape")


# --- the command ---------------------------------------------------------------------------------


def run(
    settings: Settings,
    *,
    points_path: Path,
    n_points: int,
    n_each: int,
    replay_seed: int,
    side_names: str,
    times: bool,
    llama_server: Path | None,
    record_path: Path | None,
    from_path: Path | None,
) -> Report:
    """Ask at points of the functions in a file, or make the tables of earlier records anew."""
    if from_path is not None:
        header, records = read_records(from_path)
        return points_report(header, records)
    functions = drawn_points(
        load_cases(points_path), n_points=n_points, n_each=n_each, seed=replay_seed
    )
    if not times:
        settings = dataclasses.replace(settings, **REPEATABLE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        sides = chosen_sides(settings, side_names, llama_server, folder, times=times)
        header = run_header(settings, functions, times=times)
        path = record_path or folder / "records.jsonl"
        file = RecordFile(path, header)
        missing = missing_functions(file.records, functions, sides)
        click.echo(_bound(settings, functions, missing))
        with printed_if_ended_early(lambda: partial_report(header, file.records)):
            ask_all(missing, file)
        return points_report(header, file.records)


def chosen_sides(
    settings: Settings, names: str, server: Path | None, folder: Path, *, times: bool
) -> list[Side]:
    """Return the sides of these names, separated by commas; all that can run for none.

    Raises :class:`PointsError` for a name that no side has.
    """
    files = model_files(settings)
    options = PeerOptions(
        model=files.target.absolute(),
        draft_model=None,
        statistics_file=None,
        llama_server=server and server.absolute(),
        n_threads=n_threads(settings, files.target.stat().st_size)[0],
        n_gpu_layers=settings.n_gpu_layers if isinstance(settings.n_gpu_layers, int) else -1,
        n_context=settings.ctx_size,
        n_predict=settings.n_predict,
        folder=folder,
    )
    known: list[Side] = [
        OwnSide(name, dataclasses.replace(settings, **changes))
        for name, changes in _OWN_SIDES.items()
    ]
    vim = ((VIM, 0.0), (CUT_VIM, CLIENT_THRESHOLD))
    known += [VimSide(name, options, threshold, times) for name, threshold in vim]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in {side.name for side in known}:
            raise PointsError(
                f"there is no side {name!r}.",
                remedy=f"Known: {', '.join(side.name for side in known)}.",
            )
    if not wanted:
        return [side for side in known if server is not None or isinstance(side, OwnSide)]
    return [side for side in known if side.name in wanted]


def run_header(settings: Settings, functions: Sequence[FunctionPoints], *, times: bool) -> Header:
    """Return what records must have in common to be of one run."""
    target = model_files(settings).target
    changed = changed_settings(settings)
    changed.pop("model", None)
    return Header(
        model=f"{target.name}, {target.stat().st_size} bytes",
        options={
            "points": [[one.case.id, list(one.places)] for one in functions],
            "times": times,
            "settings": changed,
        },
    )


Missing = list[tuple[Side, list[FunctionPoints]]]
"""What each side has still to be asked."""


def missing_functions(
    records: Sequence[PointRecord], functions: Sequence[FunctionPoints], sides: Sequence[Side]
) -> Missing:
    """Return the functions that are not in the records, by side: of a function all points are."""
    done = {(record.side, record.point.case) for record in records}
    return [
        (side, [one for one in functions if (side.name, one.case.id) not in done]) for side in sides
    ]


def _bound(settings: Settings, functions: Sequence[FunctionPoints], missing: Missing) -> str:
    n_prompts = sum(len(own) for _, own in missing)
    n_texts = sum(len(one.places) for _, own in missing for one in own)
    n_points = sum(len(one.places) for one in functions)
    if not n_texts:
        return f"{n_points} points, all of them recorded."
    pace = measured_pace(settings).bound(n_prompts, n_texts)
    return (
        f"{n_points} points in {len(functions)} functions, {len(missing)} sides; {n_texts} answers "
        f"to get: {pace}."
    )


def ask_all(missing: Missing, file: RecordFile) -> None:
    """Ask each side what is missing, and keep each function's answers when it is done."""
    with RunProgress() as progress:
        for side, functions in missing:
            if not functions:
                continue
            task = progress.add_task(side.name, total=sum(len(one.places) for one in functions))
            with side.opened() as asked:
                for function in functions:
                    file.add(asked(function))
                    progress.advance(task, len(function.places))


def partial_report(header: Header, records: Sequence[PointRecord]) -> Sequence[Table | str]:
    """Return the tables of what there is; none for nothing."""
    return points_report(header, records).parts if records else ()


def points_report(header: Header, records: Sequence[PointRecord]) -> Report:
    """Return all tables of some records."""
    sides = list(dict.fromkeys(record.side for record in records))
    by_side = {name: [one for one in records if one.side == name] for name in sides}
    parts: list[Table | str] = [
        f"Model: {header.model}",
        sides_table(by_side, times=bool(header.options["times"])),
        groups_table(by_side, "place", lambda point: point.place),
        groups_table(by_side, "language", lambda point: point.language_id),
    ]
    uncut = by_side.get(UNCUT) or by_side.get(OURS)
    if uncut is not None and any(one.logprobs for one in uncut):
        parts += [thresholds_table(uncut), calibration_table(uncut)]
    return Report(parts, {"header": header, "records": records})
