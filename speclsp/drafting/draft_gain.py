"""What a costly drafter's draft is expected to save, so that it runs only where it pays.

A draft model takes a part of the target's own time for each token.  Its draft is worth that where
it makes the pass better by more than that: the others' plan gives r tokens in the time of a pass
without a draft, T(1); the plan with the draft gives E tokens in R times T(1), by the calibrated
probabilities.  Without the draft these E tokens would take E / r, so

    saved = E / r - R

is what the draft is worth, in T(1), and it pays where that is more than it takes.  It must be known
before it is made, so it is averaged over former drafts, apart for passes in which the others know
little and much: a draft model adds most where they know nothing.

Before the first draft of a request its model evaluates what it has not seen of the prompt.  The
request's other drafts pay that back, or it is not made.

Nothing tells of a drafter that is never asked.  So it is tried where one that is mostly right would
pay, at first with a small credit and then for a small share of the time: a trial costs what the
draft takes and nothing for verifying it, since the text shows by itself how far it was right.  What
was learned is kept as long as the drafter is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Final

from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.protocol import Draft, Drafter, ModelDrafter

_CHEAP: Final = 0.1
"""Share of T(1) up to which the time of a drafter without a model does not count."""
_RATES: Final = (1.0, 1.25, 1.6, 2.2, 3.2)
"""Upper bounds of the others' tokens per T(1), between which savings are averaged apart."""
_MEMORY: Final = 32.0
"""Drafts after which an older one has lost 1 - 1/e of its weight."""
_PRIOR_WEIGHT: Final = 2.0
"""Drafts that are taken to have saved nothing before the first one."""
_DEPTH_PRIOR: Final = (0.5, 2.0)
"""Share of tokens that are right, of those behind right ones, to begin with, and its weight."""
_SURPLUS: Final = 0.03
"""So much more of T(1) than it takes must a draft save: both are estimates."""
_CREDIT: Final = 3.0
"""Passes without a draft that the first trials may cost in all."""
_SHARE: Final = 0.01
"""Share of the time that trials may cost, and again what evaluating prompts for them may."""
_SELDOM: Final = 0.003
"""Share of the time that a trial may cost even where none seems worth it: things change."""
_MOST_DEBT: Final = 4.0
"""A trial that took longer counts as that; else a large prompt would end all trials."""
_MOSTLY_RIGHT: Final = (0.8,) * 7
"""A draft that is worth a trial: models of the target's family are right in 60 to 80 %."""
_N_CAUGHT_UP: Final = 16
"""So many tokens are evaluated in about the time of one."""
_N_ASKED: Final = 8.0
"""Drafts of a request to begin with, which pay back what its prompt takes."""
_LONGEST_PAUSE: Final = 4.0
"""A time so many times the usual one is a pause of the machine, and counts no more than that."""


class DraftGain:
    """Follows one drafter's time and what its drafts saved.  All sums are in units of T(1)."""

    def __init__(self, *, cheap: float = _CHEAP) -> None:
        """Up to ``cheap``, a share of T(1), the drafter is asked in any case; 0 for never."""
        self._cheap = cheap
        self._draws = False
        self._draft_s = _Mean(_MEMORY)
        self._n_timed = 0
        self._unseen_s = _Mean(_MEMORY / 4)
        """For each token of a prompt."""
        self._saved = [_Mean(_MEMORY, _PRIOR_WEIGHT) for _ in range(len(_RATES) + 1)]
        self._depths: list[_Mean] = []
        """How often a token of a draft was right where all before it were."""
        self._draft: tuple[int, ...] = ()
        self._expected: float | None = None
        self._expected_place = 0
        self._place = 0
        self._n_unseen = 0
        self._is_trial = False
        self._since = 0.0
        """What the passes took since the last draft."""
        self._trials = _CREDIT
        self._prompts = _CREDIT
        self._n_asked = 0
        self._n_asked_before = _Mean(_MEMORY / 4, 1.0, _N_ASKED)

    def begin(self) -> None:
        """Start a request."""
        if self._n_asked:
            self._n_asked_before.add(self._n_asked)
        self._n_asked = 0

    def passed(self, ratio: float) -> None:
        """Note a pass that takes ``ratio`` times T(1)."""
        self._since += ratio
        self._trials = min(self._trials + _SHARE * ratio, _CREDIT)
        self._prompts = min(self._prompts + _SHARE * ratio, _CREDIT)

    def is_cheap(self, single_s: float) -> bool:
        """Whether the drafter's time does not count; ``single_s`` is T(1), 0 if not known.

        One that draws is never cheap: its draft takes the others' place.
        """
        may_be = self._cheap > 0.0 and not self._draws
        return may_be and self._draft_s.mean <= self._cheap * single_s

    def pays(
        self, other_rate: float, curve: VerifyCurve, single_s: float, n_unseen: int = 0
    ) -> bool:
        """Whether to draft, where the others give ``other_rate`` tokens in the time of T(1).

        ``n_unseen`` tokens of the text must be evaluated before.  If it pays, :meth:`asked` and
        :meth:`saved` are to be called.
        """
        self._place = bisect_left(_RATES, other_rate)
        self._n_unseen = n_unseen if n_unseen > _N_CAUGHT_UP else 0
        saved = self._saved[self._place]
        saves = max(saved.mean, self._saves_alone(other_rate, curve))
        # The first draft may have evaluated the prompt: what drafts take is known by the second.
        cost = _in_passes(self._draft_s.mean, single_s) if self._n_timed > 1 else 0.0
        prompt = _in_passes(self._unseen_s.mean * self._n_unseen, single_s)
        n_asked = max(self._n_asked_before.mean - self._n_asked, 1.0)
        self._is_trial = (saves - cost - _SURPLUS) * n_asked <= prompt
        if not self._is_trial:
            return True
        if self._draws:
            # Its draft takes the place of the others' one, so a trial costs what that would give.
            cost = max(cost, cost - saved.mean)
        if cost + prompt <= _SELDOM * self._since:
            return True
        if cost > self._trials or prompt > max(self._prompts, 0.0):
            return False
        could_save = _saving(_MOSTLY_RIGHT, other_rate, curve) * _PRIOR_WEIGHT / saved.n_known
        return saved.mean + could_save > cost

    def asked(self, draft: Draft, seconds: float, single_s: float) -> None:
        """Note a draft and what it took."""
        self._draws = bool(draft.distributions)
        self._draft = draft.tokens
        self._since = 0.0
        missing = len(draft.tokens) - len(self._depths)
        self._depths += [_Mean(_MEMORY, *_DEPTH_PRIOR[::-1]) for _ in range(missing)]
        usual_s = self._draft_s.mean
        if self._n_unseen:
            self._unseen_s.add(max(0.0, seconds - usual_s) / self._n_unseen)
        else:
            if self._n_timed < 2:
                self._draft_s = _Mean(_MEMORY)
            else:
                seconds = min(seconds, _LONGEST_PAUSE * usual_s)
            self._n_timed += 1
            self._draft_s.add(seconds)
        if self._is_trial:
            drafting_s = min(seconds, usual_s) if self._n_unseen else seconds
            self._trials -= _in_passes(drafting_s, single_s)
            prompt = _in_passes(seconds - drafting_s, single_s)
            self._prompts = max(self._prompts - prompt, -_MOST_DEBT)
        self._n_asked += 1

    def saved(self, passes: float) -> None:
        """Note what the draft is expected to save in units of T(1), beside what it took."""
        self._note_saved(right=False)
        self._expected = passes
        self._expected_place = self._place
        if self._is_trial and self._draws:
            self._trials += min(passes, 0.0)

    def learn(self, emitted: Sequence[int]) -> None:
        """Learn what became output where the last draft stood."""
        draft, self._draft = self._draft, ()
        self._note_saved(right=draft[:1] == tuple(emitted[:1]) != ())
        if not draft:
            return
        for depth, (known, real) in enumerate(zip(self._depths, emitted, strict=False)):
            # A draft that ends where it was right so far gives nothing at the next depth.
            right = depth < len(draft) and draft[depth] == real
            known.add(float(right))
            if not right:
                break

    def _note_saved(self, *, right: bool) -> None:
        """Count what the last draft was expected to save; nothing where it began wrongly.

        The calibration may not know yet how seldom this drafter is right.
        """
        if self._expected is not None:
            expected = self._expected if right else min(self._expected, 0.0)
            self._saved[self._expected_place].add(expected)
            self._expected = None

    def _saves_alone(self, other_rate: float, curve: VerifyCurve) -> float:
        """Return what a draft saves by itself, going by how far the last ones were right."""
        return _saving([depth.mean for depth in self._depths], other_rate, curve)


def gain_of(drafter: Drafter) -> DraftGain:
    """Return what follows a drafter's gain; one that asks a model is never asked for nothing."""
    return DraftGain(cheap=0.0) if isinstance(drafter, ModelDrafter) else DraftGain()


def _in_passes(seconds: float, single_s: float) -> float:
    return seconds / single_s if single_s > 0.0 else 0.0


def _saving(probabilities: Sequence[float], other_rate: float, curve: VerifyCurve) -> float:
    """Return what a draft saves whose tokens are right so often, each where all before it are."""
    expected = accumulate(accumulate(probabilities, mul), initial=1.0)
    return max(
        tokens / other_rate - curve.ratio(n_drafted + 1) if n_drafted else 0.0
        for n_drafted, tokens in enumerate(expected)
    )


class _Mean:
    """A mean that forgets, from ``prior`` on, which weighs as ``weight`` observations."""

    def __init__(self, memory: float, weight: float = 0.0, prior: float = 0.0) -> None:
        self.mean = prior
        self.n_known = weight
        self._memory = memory

    def add(self, value: float) -> None:
        """Add an observation."""
        self.n_known = min(self.n_known + 1.0, self._memory)
        self.mean += (value - self.mean) / self.n_known
