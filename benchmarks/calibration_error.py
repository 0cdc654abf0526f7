"""Whether p̂ can be believed: what was said of tokens, against how often they were right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.replay_project import N_TRUTH, ReplayProject, Tokenize
from speclsp.drafting.calibration import Calibration, Cell
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.protocol import DraftContext
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.drafting.teacher_forcing import FREE_CURVE, ReplayCounts, replay
from speclsp.settings import Settings

_N_BINS: Final = 10
_DRAFTED: Final = 0.1
"""Tokens of a lower probability are rarely worth a draft: the error is given without them too."""


@dataclass(slots=True)
class ErrorBin:
    """Tokens whose probability lay in a tenth of the range."""

    n_tokens: int = 0
    said: float = 0.0
    """Sum of the probabilities."""
    n_right: int = 0


@dataclass(slots=True)
class CalibrationError:
    """Predictions by probability."""

    bins: list[ErrorBin] = field(default_factory=lambda: [ErrorBin() for _ in range(_N_BINS)])

    def add(self, probability: float, right: bool) -> None:
        """Count one prediction."""
        place = self.bins[min(int(probability * _N_BINS), _N_BINS - 1)]
        place.n_tokens += 1
        place.said += probability
        place.n_right += right

    @property
    def expected(self) -> float:
        """The expected calibration error over all predictions."""
        return _expected(self.bins)

    @property
    def expected_of_drafted(self) -> float:
        """The same over predictions of a tenth and more."""
        return _expected(self.bins[int(_DRAFTED * _N_BINS) :])


class WatchedCalibration(Calibration):
    """A calibration that notes what it said of each token before it learns the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.error = CalibrationError()

    def observe(
        self, cells: Iterable[Cell], probability: float, agreement: int, right: bool
    ) -> None:
        """Note and learn."""
        self.error.add(self.joint(probability, agreement), right)
        super().observe(cells, probability, agreement, right)


def measure_calibration(
    project: ReplayProject,
    settings: Settings,
    tokenize: Tokenize,
    *,
    n_cursors: int,
    seed: int,
) -> CalibrationError:
    """Replay a project's text with the merged tree of suffix matches, starting from the priors."""
    calibration = WatchedCalibration()
    merger = DraftMerger(
        [SuffixDrafter(n_draft=settings.max_draft)],
        calibration,
        mode="tree",
        p_split=settings.p_split,
        n_max=settings.max_draft,
    )
    counts = ReplayCounts()
    for cursor in project.gaps(n_cursors, seed):
        context = DraftContext(
            prompt=(),
            prefix=tokenize(cursor.prefix),
            suffix=tokenize(cursor.suffix),
            corpora=(project.corpus_without(cursor),),
            verify_curve=FREE_CURVE,
            n_branches=settings.max_draft,
        )
        truth = tokenize(cursor.truth)[:N_TRUTH].tolist()
        replay(merger, context, truth, settings.max_draft, counts)
    return calibration.error


def _expected(bins: list[ErrorBin]) -> float:
    n_tokens = sum(place.n_tokens for place in bins)
    return sum(abs(place.said - place.n_right) for place in bins) / max(1, n_tokens)
