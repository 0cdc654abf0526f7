"""Places at which decoding is compared: where an edit begins, and where code is typed again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from benchmarks.cases import EditCase
from benchmarks.replay_project import ReplayCursor, ReplayError, ReplayProject, Tokenize
from speclsp.drafting.protocol import TokenCorpus
from speclsp.settings import Settings

_T = TypeVar("_T")

Task = Literal["cases", "edits"]

N_PROMPT: Final = 512
"""Most tokens of a prompt.  The embedded model, whose text a made model says, was trained with
few more; a prompt's length costs all sides the same."""
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
