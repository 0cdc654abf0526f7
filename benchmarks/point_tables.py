"""Tables of records of points: the sides, languages, thresholds, and how far probabilities hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from benchmarks.point_records import Judged, Point, PointRecord, cut_text, judged, n_kept_tokens
from benchmarks.tables import Table

THRESHOLDS: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_BINS: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_QUALITY: Final = ("shown, %", "right, %", "first line right, %", "saved", "wrong")
_CAPTION: Final = (
    "Right: of what is shown, the human's text begins with it. Saved: characters a point, whole or "
    "by words up to the first difference. Wrong: the other characters shown, a point."
)


def quality_cells(found: Sequence[Judged]) -> list[str]:
    """Return the cells of ``_QUALITY``."""
    n_points, n_shown = len(found), sum(one.is_shown for one in found)
    return [
        _percent(n_shown, n_points),
        _percent(sum(one.is_right for one in found), n_shown),
        _percent(sum(one.has_right_line for one in found), n_shown),
        _mean(sum(one.n_saved for one in found), n_points),
        _mean(sum(one.n_wrong for one in found), n_points),
    ]


def sides_table(by_side: Mapping[str, Sequence[PointRecord]], *, times: bool) -> Table:
    """Return a row for each side: quality and cost a point, and with ``times`` milliseconds."""
    n_points = max(map(len, by_side.values()), default=0)
    headers = ["side", "points", *_QUALITY, "tokens", "passes", "prompt", "evaluated", "same text"]
    if times:
        headers += ["ms p50", "p95"]
    table = Table(
        f"Answers at {n_points} points, while typing",
        headers,
        caption=f"{_CAPTION} Tokens, passes and the prompt's tokens, in all and evaluated, are a "
        "point's. Same text: as the first side shows there.",
    )
    first = {one.point.key: one.shown for one in next(iter(by_side.values()), ())}
    for name, records in by_side.items():
        n_same = sum(first.get(one.point.key) == one.shown for one in records)
        row = [
            name,
            str(len(records)),
            *quality_cells([judged(one.shown, one.point) for one in records]),
            *(
                _mean(sum(getattr(one, count) for one in records), len(records))
                for count in ("n_predicted", "n_passes", "n_prompt", "n_prompt_evaluated")
            ),
            f"{n_same} of {len(records)}",
        ]
        if times:
            row += [f"{ms:.0f}" for ms in np.percentile([one.ms for one in records], [50, 95])]
        table.add(*row)
    return table


def groups_table(
    by_side: Mapping[str, Sequence[PointRecord]], what: str, group: Callable[[Point], str]
) -> Table:
    """Return each side's quality, apart by a point's group."""
    table = Table(f"By {what}", (what, "side", "points", *_QUALITY), n_names=2)
    points = [one.point for records in by_side.values() for one in records]
    for name in dict.fromkeys(map(group, points)):
        for side, records in by_side.items():
            own = [one for one in records if group(one.point) == name]
            if own:
                cells = quality_cells([judged(one.shown, one.point) for one in own])
                table.add(name, side, str(len(own)), *cells)
    return table


def thresholds_table(records: Sequence[PointRecord]) -> Table:
    """Return what the texts would have been with a cut at several joint probabilities."""
    table = Table(
        f"Texts that end before the token at which their probability falls below a threshold, "
        f"{len(records)} points",
        ("threshold", *_QUALITY, "tokens"),
        caption="Computed from the tokens without a cut. Cut texts end at a word's end; the token "
        "behind the cut counts.",
    )
    for threshold in THRESHOLDS:
        cuts = [cut_text(one, n_kept_tokens(one.scores.logprobs, threshold)) for one in records]
        found = [judged(cut.text, one.point) for cut, one in zip(cuts, records, strict=True)]
        n_tokens = sum(cut.n_tokens for cut in cuts)
        name = f"{threshold:g}" if threshold else "none"
        table.add(name, *quality_cells(found), _mean(n_tokens, len(records)))
    return table


def calibration_table(records: Sequence[PointRecord]) -> Table:
    """Return how many texts, and beginnings of texts, are right by their joint probability."""
    wholes: list[tuple[float, bool]] = []
    beginnings: list[tuple[float, bool]] = []
    for record in records:
        logprobs = record.scores.logprobs
        if not logprobs or not record.text.strip():
            continue
        wholes.append((math.exp(math.fsum(logprobs)), judged(record.text, record.point).is_right))
        for n_kept in range(1, len(logprobs)):
            cut = cut_text(record, n_kept)
            if cut.text:
                p = math.exp(math.fsum(logprobs[:n_kept]))
                beginnings.append((p, judged(cut.text, record.point).is_right))
    table = Table(
        "How far the joint probability holds",
        ("probability", "texts", "right, %", "beginnings", "mean probability, %", "right, %"),
        caption="Beginnings are those of one token and more, up to a word's end; most of them are "
        "beginnings of each other.",
    )
    for low, high in pairwise(_BINS):
        own, begun = (
            [one for one in found if low <= one[0] < high or high == one[0] == 1.0]
            for found in (wholes, beginnings)
        )
        table.add(
            f"{low:g} … {high:g}",
            str(len(own)),
            _percent(sum(is_right for _, is_right in own), len(own)),
            str(len(begun)),
            _percent(sum(p for p, _ in begun), len(begun)),
            _percent(sum(is_right for _, is_right in begun), len(begun)),
        )
    return table


def _percent(part: float, whole: int) -> str:
    return f"{100 * part / whole:.0f}" if whole else "–"


def _mean(total: float, n: int) -> str:
    return f"{total / n:.1f}" if n else "–"
