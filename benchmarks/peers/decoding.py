"""Where decoding alone is compared, and the sides that decode there."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import click

from benchmarks.askers import Answer
from benchmarks.cases import EditCase
from benchmarks.decoding import DecodePlace, Decoder, DecodeSide, Task, greedy
from benchmarks.peers.llama_server import LlamaServerSession
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.replay_project import ReplayCursor, ReplayError, ReplayProject, Tokenize
from speclsp.completer.loaded_models import make_proposer
from speclsp.decoding.sampling import LogitRow, Sampler
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext
from speclsp.settings import Settings

_T = TypeVar("_T")

_BEGUN: Final = 3
"""Of a block that is typed again one part in so many stands there already: a model that is asked
before anything was typed cannot know that it shall repeat the block."""


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


class OwnDecoders:
    """Our own sides, in this process, with the loaded models."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._proposer, self._proposer_of_human = (
            # Each learns how often drafts are right of its own text.
            make_proposer(
                decoder.settings,
                decoder.weights,
                AcceptanceTable(),
                functools.partial(click.echo, err=True),
            )
            for _ in range(2)
        )

    def sides(self, task: Task) -> list[DecodeSide]:
        """Return ours, ours without speculation, and for edits ours with the human's text."""
        sides = [DecodeSide(OURS, self._speculating), DecodeSide(OURS_PLAIN, self._plain)]
        if task == "edits":
            sides.append(DecodeSide(OURS_HUMAN, self._human, says_own_text=False))
        return sides

    def _speculating(self, _place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        return self._decoder.complete(context, n_predict, self._proposer, greedy())

    def _plain(self, _place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        return self._decoder.complete(context, n_predict, None, greedy())

    def _human(self, place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        tokens = self._decoder.tokenizer.vocabulary.tokenize(place.cursor.truth)
        truth = tokens[:n_predict].tolist()
        sampler = _GivenTokens(truth, greedy())
        return self._decoder.complete(context, len(truth), self._proposer_of_human, sampler)


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
