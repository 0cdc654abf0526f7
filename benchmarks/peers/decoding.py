"""Decoding alone: every side continues the same tokens greedily, with no rule that ends a text.

The prompt is in every side's KV cache beforehand, so that the target has the same work to do, and
the texts must be the same.  What differs is who drafts what, and what the host adds.
A place is asked at once, since some servers remember what they generated and would draft that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, Literal, TypeVar

import click

from benchmarks.askers import Answer
from benchmarks.cases import EditCase
from benchmarks.drafter_replay import complete, draft_context, greedy, rotated
from benchmarks.peers.contract import reason
from benchmarks.peers.llama_server import LlamaServerSession
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.replay_project import ReplayCursor, ReplayError, ReplayProject, Tokenize
from speclsp.completer.models import make_proposer
from speclsp.decoding.sampling import LogitRow, Sampler
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import DraftContext, TokenCorpus
from speclsp.engine.models import Tokenizer, Weights
from speclsp.errors import SpecLspError
from speclsp.request import RequestStats
from speclsp.settings import Settings

_T = TypeVar("_T")

Task = Literal["cases", "edits"]

_BEGUN: Final = 3
"""Of a block that is typed again one part in so many stands there already: a model that is asked
before anything was typed cannot know that it shall repeat the block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePlace:
    """A place in a file of a project."""

    task: Task
    cursor: ReplayCursor
    repo_name: str
    corpora: tuple[TokenCorpus, ...]
    """The project, without the file."""


class PlaceFinder:
    """Finds places in the projects of cases; each project is read once."""

    def __init__(self, settings: Settings, tokenize: Tokenize) -> None:
        self._settings = settings
        self._tokenize = tokenize
        self._projects: dict[Path, ReplayProject | None] = {}

    def of_cases(self, cases: Sequence[EditCase], n_places: int, seed: int) -> list[DecodePlace]:
        """Return the beginnings of cases that are drawn evenly."""
        chosen = _drawn(cases, n_places, f"decoded cases {seed}")
        return [self._of_case(case) for case in chosen]

    def of_edits(self, cases: Sequence[EditCase], n_places: int, seed: int) -> list[DecodePlace]:
        """Return places in the cases' projects where a changed copy of a block is begun.

        Fewer than ``n_places`` where the projects have too few blocks that can be copied.
        """
        roots = sorted({case.project for case in cases if case.project is not None})
        projects = [found for root in roots if (found := self._project(root)) is not None]
        if not projects:
            return []
        n_each = -(-n_places // len(projects))
        drawn = [(one, cursor) for one in projects for cursor in one.edits(n_each, seed)]
        return [
            DecodePlace(
                task="edits",
                cursor=_begun(cursor),
                repo_name=project.name,
                corpora=(project.corpus_without(cursor),),
            )
            for project, cursor in _drawn(drawn, n_places, f"decoded edits {seed}")
        ]

    def _of_case(self, case: EditCase) -> DecodePlace:
        cursor = ReplayCursor(
            path=case.path, prefix=case.prefix, truth=case.typed, suffix=case.suffix
        )
        project = self._project(case.project) if case.project is not None else None
        corpora = (project.corpus_without(cursor),) if project is not None else ()
        return DecodePlace(
            task="cases", cursor=cursor, repo_name=case.project_name, corpora=corpora
        )

    def _project(self, root: Path) -> ReplayProject | None:
        """Return a project; None where it has no file that is long enough to be replayed."""
        if root not in self._projects:
            try:
                self._projects[root] = ReplayProject(root, self._settings, self._tokenize)
            except ReplayError:
                self._projects[root] = None
        return self._projects[root]


def in_rounds(places: Sequence[DecodePlace], n_rounds: int) -> list[list[DecodePlace]]:
    """Deal places out to rounds: each place once, so that nobody can remember its answer."""
    return [list(places[idx::n_rounds]) for idx in range(n_rounds)]


def _begun(cursor: ReplayCursor) -> ReplayCursor:
    lines = cursor.truth.splitlines(keepends=True)
    n_there = len(lines) // _BEGUN
    return ReplayCursor(
        path=cursor.path,
        prefix=cursor.prefix + "".join(lines[:n_there]),
        truth="".join(lines[n_there:]),
        suffix=cursor.suffix,
    )


def _drawn(items: Sequence[_T], n_items: int, seed: str) -> list[_T]:
    generator = random.Random(seed)  # noqa: S311 - no secret
    return generator.sample(list(items), min(n_items, len(items)))


OURS_HUMAN: Final = "speclsp, the human's text"
"""Ours with the tokens that the human wrote, as of a model that writes just them."""

_N_WARM_UP: Final = 4
"""Tokens that are decoded before, so that the models' KV caches hold the prompt: a draft model may
see it with the first draft only."""

Decode = Callable[[DecodePlace, DraftContext, int], Answer]
"""Continues a place's prompt by so many tokens.  Raises SpecLspError."""


@dataclass(frozen=True, slots=True)
class DecodeSide:
    """One side of the comparison."""

    name: str
    decode: Decode
    says_own_text: bool = True
    """Whether the text is the model's, so that it must be the same as the others'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One side's answer at a place."""

    stats: RequestStats
    is_same: bool
    """Whether its text is that of ours without speculation."""


@dataclass(slots=True)
class DecodeRun:
    """A side over all rounds: the answers at each round's places."""

    name: str
    says_own_text: bool = True
    rounds: list[list[Decoded]] = field(default_factory=list)
    """Those that all sides have ended."""
    why_not: str = ""


class OwnDecoders:
    """Our own sides, in this process, with the loaded models."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer, weights: Weights) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._weights = weights
        self._proposer, self._proposer_of_human = (
            # Each learns how often drafts are right of its own text.
            make_proposer(settings, weights, AcceptanceTable(), partial(click.echo, err=True))
            for _ in range(2)
        )

    def sides(self, task: Task) -> list[DecodeSide]:
        """Return ours, ours without speculation, and for edits ours with the human's text."""
        sides = [DecodeSide(OURS, self._speculating), DecodeSide(OURS_PLAIN, self._plain)]
        if task == "edits":
            sides.append(DecodeSide(OURS_HUMAN, self._human, says_own_text=False))
        return sides

    def context(self, place: DecodePlace, n_predict: int) -> DraftContext:
        """Return a place's prompt, and what our drafts may come from."""
        return draft_context(
            place.cursor,
            place.repo_name,
            place.corpora,
            self._settings,
            self._tokenizer,
            n_prompt=min(
                self._settings.n_prompt or self._weights.max_prompt,
                self._weights.target.n_ctx - n_predict,
            ),
        )

    def _speculating(self, _place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        return self._complete(context, n_predict, self._proposer, greedy())

    def _plain(self, _place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        return self._complete(context, n_predict, None, greedy())

    def _human(self, place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        truth = self._tokenizer.vocabulary.tokenize(place.cursor.truth)[:n_predict].tolist()
        sampler = _GivenTokens(truth, greedy())
        return self._complete(context, len(truth), self._proposer_of_human, sampler)

    def _complete(
        self, context: DraftContext, n_predict: int, proposer: Proposer | None, sampler: Sampler
    ) -> Answer:
        started = perf_counter()
        generation = complete(
            context, self._tokenizer, self._weights, proposer, sampler, n_predict, TokenScores()
        )
        ms = 1000 * (perf_counter() - started)
        ends = self._tokenizer.family.end_tokens
        pieces = (self._tokenizer.vocabulary.piece(t) for t in generation.tokens if t not in ends)
        return Answer(
            text=b"".join(pieces).decode("utf-8", "replace"), ms=ms, stats=generation.stats
        )


@dataclass(slots=True)
class _GivenTokens:
    """A sampler that chooses what is given, one after the other, whatever the logits say.

    It reads them all the same, since a sampler that need not would be faster than any real one.
    """

    tokens: Sequence[int]
    greedy: Sampler
    n_given: int = 0

    def sample(self, row: LogitRow) -> int:
        """Return the next token."""
        self.greedy.sample(row)
        self.n_given += 1
        return self.tokens[self.n_given - 1]


def server_side(name: str, session: LlamaServerSession) -> DecodeSide:
    """Return a llama-server as a side."""
    return DecodeSide(
        name, lambda _place, context, n_predict: session.complete(context.prompt, n_predict)
    )


def decode_runs_of(sides: Sequence[DecodeSide]) -> list[DecodeRun]:
    """Return empty runs for :func:`decode_all`."""
    return [DecodeRun(side.name, side.says_own_text) for side in sides]


def decode_all(
    runs: Sequence[DecodeRun],
    sides: Sequence[DecodeSide],
    rounds: Sequence[Sequence[DecodePlace]],
    context_of: Callable[[DecodePlace, int], DraftContext],
    *,
    n_predict: int,
    progress: Callable[[str], None],
) -> None:
    """Have all sides continue all places, in an order that changes; a side that fails says why.

    ``runs`` are those of ``sides``, and get each round when it is whole, so that they hold what can
    be compared whenever this is interrupted.  Ours without speculation must be among them.
    ``progress`` is told at each place who is next.
    """
    n_done = 0
    for places in rounds:
        found: list[list[Decoded]] = [[] for _ in runs]
        for place in places:
            context = context_of(place, n_predict)
            answers: dict[str, Answer] = {}
            for idx in rotated(len(sides), n_done):
                progress(f"{place.task}: {sides[idx].name}")
                if runs[idx].why_not:
                    continue
                try:
                    sides[idx].decode(place, context, _N_WARM_UP)
                    answers[sides[idx].name] = sides[idx].decode(place, context, n_predict)
                except SpecLspError as error:
                    runs[idx].why_not = reason(error)
            said = answers[OURS_PLAIN].text if OURS_PLAIN in answers else None
            for run, decoded in zip(runs, found, strict=True):
                if run.name in answers:
                    decoded.append(_decoded(answers[run.name], said))
            n_done += 1
        for run, decoded in zip(runs, found, strict=True):
            run.rounds.append(decoded)


def _decoded(answer: Answer, said: str | None) -> Decoded:
    is_same = said is not None and same_text(said, answer.text)
    return Decoded(stats=answer.stats, is_same=is_same)


def same_text(left: str, right: str) -> bool:
    """Return whether two texts are equal up to a character that the last token left unfinished."""
    return left.rstrip("\ufffd") == right.rstrip("\ufffd")
