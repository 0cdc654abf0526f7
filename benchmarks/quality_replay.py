"""Replays cases to judge what is suggested: the same places are asked at, whatever came before.

A case is typed as the human typed it, and every ``stride``-th key is followed by a request, so
that two ways of completing are compared at the same places.  Which suggestions the human would
have taken follows from the answers: going along the text, the first one that fits is taken, and
what lies inside it counts for no further take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from benchmarks.asking import Answer, Asker
from benchmarks.cases import EditCase
from benchmarks.defects import DefectKind, find_defects
from benchmarks.typist import Suggestion, keys


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPlace:
    """One request and what its answer is worth."""

    n_typed: int
    answer: Answer
    has_line: bool
    """Whether something of the cursor's line was still to be written."""
    is_exact: bool
    """Whether the line becomes what the human made of it."""
    similarity: float
    """Of the text to as many lines of the human's, 0 to 1; 0 where nothing is shown."""
    n_chars_saved: int
    """Characters that a take here saved, its own key taken off."""
    defects: frozenset[DefectKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCase:
    """One case's places."""

    case: EditCase
    places: tuple[JudgedPlace, ...]


def replay_quality(
    cases: Sequence[EditCase],
    asker: Asker,
    *,
    stride: int,
    progress: Callable[[], None] = lambda: None,
) -> list[JudgedCase]:
    """Ask along every case; ``progress`` is called after each.

    Raises :class:`~speclsp.errors.SpecLspError` where a request fails.
    """
    judged: list[JudgedCase] = []
    for case in cases:
        asker.enter(case)
        judged.append(JudgedCase(case=case, places=tuple(_along(case, asker, stride))))
        asker.leave(case)
        progress()
    return judged


def asked_places(typed: str, stride: int) -> list[int]:
    """Return how many characters are typed at each request.

    That is at the start, where a line's text begins, and at every ``stride``-th key between.
    """
    places: list[int] = []
    n_typed = n_keys = 0
    for key in keys(typed):
        if n_keys % stride == 0:
            places.append(n_typed)
        n_typed += len(key)
        n_keys = 0 if key[0] in "\r\n" else n_keys + 1
    return places


def _along(case: EditCase, asker: Asker, stride: int) -> list[JudgedPlace]:
    places: list[JudgedPlace] = []
    free_from = 0
    for n_typed in asked_places(case.typed, stride):
        answer = asker.ask(case, n_typed)
        rest = case.typed[n_typed:]
        n_taken = 0
        if answer.text and n_typed >= free_from:
            asker.shown(answer)
            suggestion = Suggestion(text=answer.text, n_replaced=answer.n_replaced)
            n_taken = suggestion.taken(rest, case.suffix)
            if n_taken:
                asker.taken(answer, min(n_taken, len(answer.text)))
                free_from = n_typed + n_taken
        asker.rest()
        places.append(judged_place(case, n_typed, answer, n_taken))
    return places


def judged_place(case: EditCase, n_typed: int, answer: Answer, n_taken: int) -> JudgedPlace:
    """Judge one answer."""
    rest = case.typed[n_typed:]
    before = case.prefix + case.typed[:n_typed]
    line = _first_line(answer.text + case.suffix[answer.n_replaced :])
    defects = find_defects(before, answer.text, answer.n_replaced, case.suffix, case.language_id)
    return JudgedPlace(
        n_typed=n_typed,
        answer=answer,
        has_line=bool(_first_line(rest).strip()),
        is_exact=bool(answer.text) and line.rstrip() == _first_line(rest + case.suffix).rstrip(),
        similarity=_similarity(answer.text, rest),
        n_chars_saved=max(0, n_taken - 1),
        defects=frozenset(defect.kind for defect in defects),
    )


def _similarity(text: str, rest: str) -> float:
    """2 M / T of the texts' matching characters M and all characters T (Ratcliff and Obershelp)."""
    if not text:
        return 0.0
    n_lines = len(text.splitlines())
    human = "".join(rest.splitlines(keepends=True)[:n_lines])
    return SequenceMatcher(None, text.rstrip(), human.rstrip(), autojunk=False).ratio()


def _first_line(text: str) -> str:
    return text.replace("\r", "\n").partition("\n")[0]
