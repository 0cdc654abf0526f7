"""Cases replayed to judge what is suggested, and the scores of what was judged.

A case is typed as the human typed it, and every ``stride``-th key is followed by a request, so
that two ways of completing are compared at the same places.  Which suggestions the human would
have taken follows from the answers: going along the text, the first one that fits is taken, and
what lies inside it counts for no further take.

Every score is a ratio of sums over cases.  Its interval is the percentile bootstrap's: cases are
drawn with replacement, 1,000 times (Efron, "Bootstrap methods: another look at the jackknife",
1979).  Two ways of completing are compared on the same draws, since the cases are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.askers import Answer, Asker
from benchmarks.cases import EditCase
from benchmarks.defects import DefectKind, find_defects
from benchmarks.typing_session import Suggestion, keys


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPlace:
    """One request and the score of its answer."""

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


def replay_quality(case: EditCase, asker: Asker, *, stride: int) -> JudgedCase:
    """Ask along a case.  Raises :class:`~speclsp.errors.SpecLspError` where a request fails."""
    asker.enter(case)
    judged = JudgedCase(case=case, places=tuple(_along(case, asker, stride)))
    asker.leave(case)
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


Parts = tuple[float, float]
"""A score's numerator and denominator."""


@dataclass(frozen=True, slots=True)
class ScoreKind:
    """A ratio of sums over cases."""

    label: str
    parts: Callable[[JudgedCase], Parts]
    """Of one case."""
    factor: float = 1.0
    """What tables multiply it by: 100 for what they show in per cent."""

    def text(self, value: float) -> str:
        """Return a value as tables show it."""
        return "–" if math.isnan(value) else f"{self.factor * value:.1f}"


def _share(places: Sequence[JudgedPlace], holds: Callable[[JudgedPlace], bool]) -> Parts:
    return sum(map(holds, places)), len(places)


def _shown(judged: JudgedCase) -> list[JudgedPlace]:
    return [place for place in judged.places if place.answer.text]


def _with_line(judged: JudgedCase) -> list[JudgedPlace]:
    """Return the places with something of the line to write."""
    return [place for place in judged.places if place.has_line]


def _similarity_parts(judged: JudgedCase) -> Parts:
    shown = _shown(judged)
    return sum(place.similarity for place in shown), len(shown)


def _saved(judged: JudgedCase) -> Parts:
    return sum(place.n_chars_saved for place in judged.places), len(judged.case.typed)


def _defects(judged: JudgedCase) -> Parts:
    n_bad, n_shown = _share(_shown(judged), lambda place: bool(place.defects))
    return 100.0 * n_bad, n_shown


SCORES: Final[Mapping[str, ScoreKind]] = {
    "exact": ScoreKind(
        "first line exact, %", lambda one: _share(_with_line(one), lambda p: p.is_exact), 100.0
    ),
    "exact_at_start": ScoreKind(
        "… with nothing typed yet, %",
        lambda one: _share(_with_line(one)[:1], lambda p: p.is_exact),
        100.0,
    ),
    "similarity": ScoreKind("edit similarity of what is shown", _similarity_parts),
    "saved": ScoreKind("characters saved, %", _saved, 100.0),
    "defects": ScoreKind("with a defect, per 100 shown", _defects),
    "shown": ScoreKind(
        "requests with a suggestion, %", lambda one: (len(_shown(one)), len(one.places)), 100.0
    ),
}
N_DRAWS: Final = 1000
_LEVEL: Final = 95.0

Sums = NDArray[np.float64]
"""Shape [n_cases, n_scores, 2]: numerator and denominator of each case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def score_sums(judged: Sequence[JudgedCase]) -> Sums:
    """Return each case's numerator and denominator of every score."""
    return np.array(
        [[kind.parts(case) for kind in SCORES.values()] for case in judged], dtype=float
    )


def score_values(judged: Sequence[JudgedCase]) -> dict[str, float]:
    """Return every score without its interval; NaN where the denominator is 0."""
    return dict(zip(SCORES, _ratios(score_sums(judged).sum(axis=0)).tolist(), strict=True))


def estimates(sums: Sums, seed: int) -> dict[str, Estimate]:
    """Return every score with its interval."""
    drawn = _drawn(sums, seed)
    whole = _ratios(sums.sum(axis=0))
    return {score: _estimate(float(whole[idx]), drawn[:, idx]) for idx, score in enumerate(SCORES)}


def comparison(ours: Sums, baseline: Sums, seed: int) -> dict[str, Estimate]:
    """Return ours over the baseline's for every score, of the same cases."""
    above, below = _drawn(ours, seed), _drawn(baseline, seed)
    whole = _quotient(_ratios(ours.sum(axis=0)), _ratios(baseline.sum(axis=0)))
    drawn = _quotient(above, below)
    return {score: _estimate(float(whole[idx]), drawn[:, idx]) for idx, score in enumerate(SCORES)}


def defect_counts(judged: Sequence[JudgedCase]) -> dict[DefectKind, int]:
    """Return how many suggestions shown had each defect."""
    kinds: tuple[DefectKind, ...] = get_args(DefectKind)
    places = [place for case in judged for place in case.places]
    return {kind: sum(kind in place.defects for place in places) for kind in kinds}


def _drawn(sums: Sums, seed: int) -> NDArray[np.float64]:
    """The scores of ``N_DRAWS`` draws of cases, shape [n_draws, n_scores]."""
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, len(sums), size=(N_DRAWS, len(sums)))
    return np.stack([_ratios(sums[row].sum(axis=0)) for row in chosen])


def _ratios(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return _quotient(sums[:, 0], sums[:, 1])


def _quotient(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quotients; NaN where the denominator is 0."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _estimate(value: float, drawn: NDArray[np.float64]) -> Estimate:
    known = drawn[~np.isnan(drawn)]
    if not known.size:
        return Estimate(value=value, low=value, high=value)
    margin = (100.0 - _LEVEL) / 2
    low, high = np.percentile(known, [margin, 100.0 - margin]).tolist()
    return Estimate(value=value, low=low, high=high)
