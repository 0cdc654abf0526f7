"""The embedded draft model beside other drafters: it runs where its real drafts pay for its time.

Its tokens and what the target makes of them are real; only the clock is made, so that the counts do
not depend on the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from real_prompts import RealPrompt, cut_prompts

from speclsp.backends.draft_model import DraftModelDrafter
from speclsp.backends.llama.context import LlamaTarget
from speclsp.decoding.sampling import SamplingParams, make_sampler
from speclsp.decoding.speculate import generate
from speclsp.decoding.target import Logits
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import AskingCost, straight_curve
from speclsp.drafting.drafter import Draft, DraftContext
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.suffix import SuffixDrafter

pytestmark = pytest.mark.real

N_PREDICT = 40
N_DRAFT = 6
CURVE = straight_curve(0.05)
"""As on a GPU: a draft token costs a twentieth of a pass."""


@dataclass
class Clock:
    """Seconds; a pass over one token takes one."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class TimedTarget:
    """The target, whose passes take what the curve says."""

    def __init__(self, target: LlamaTarget, clock: Clock) -> None:
        self._target = target
        self._clock = clock

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        self._clock.now += CURVE.ratio(max(n_logits, 1))
        return self._target.decode(tokens, n_logits)

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        self._clock.now += CURVE.ratio(1 + len(tokens))
        return self._target.decode_tree(pending, tokens, parents)


class TimedDraftModel:
    """The draft model, whose drafts take ``seconds``."""

    name = "draft"

    def __init__(self, inner: DraftModelDrafter, clock: Clock, seconds: float) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = seconds
        self.n_drafts = 0
        self.n_most = N_DRAFT
        self.token_cost = AskingCost(seconds / N_DRAFT)

    @property
    def ns_native(self) -> int:
        return self._inner.ns_native

    def asking_cost(self, generated: Sequence[int]) -> AskingCost:
        return self.token_cost

    def begin(self, context: DraftContext) -> None:
        self._inner.begin(context)

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        self.n_drafts += 1
        self._clock.now += self._seconds
        return self._inner.draft(generated, min(n_max, N_DRAFT))

    def accept(self, n_accepted: int, n_verified: int) -> None:
        self._inner.accept(n_accepted, n_verified)


@dataclass
class Outcome:
    """What all prompts together took."""

    tokens: list[tuple[int, ...]]
    n_passes: int
    n_drafts: int
    seconds: float


def run(
    target: LlamaTarget, draft: DraftModelDrafter, prompts: Sequence[RealPrompt], seconds: float
) -> Outcome:
    clock = Clock()
    model = TimedDraftModel(draft, clock, seconds)
    merger = DraftMerger(
        [SuffixDrafter(n_draft=N_DRAFT), model],
        AcceptanceTable(),
        mode="auto",
        p_split=0.02,
        n_max=N_DRAFT,
    )
    outcome = Outcome([], 0, 0, 0.0)
    for prompt in prompts:
        generation = generate(
            TimedTarget(target, clock),  # type: ignore[arg-type]  # the rest is the target's own
            DraftContext(
                prompt=prompt.tokens,
                prefix=prompt.prefix,
                suffix=prompt.suffix,
                verify_curve=CURVE,
                single_s=1.0,
            ),
            drafter=merger,
            sampler=make_sampler(
                SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)
            ),
            n_predict=N_PREDICT,
            stop=lambda token: False,
            interrupted=lambda: None,
            clock=clock,
        )
        outcome.tokens.append(generation.tokens)
        outcome.n_passes += generation.stats.n_target_passes
    outcome.n_drafts = model.n_drafts
    outcome.seconds = clock.now
    return outcome


def test_it_drafts_where_its_drafts_pay_for_its_time(target_f16, draft_q8, vocabulary, capsys):
    prompts = cut_prompts(vocabulary)[::6]
    # Seconds of a draft in passes of the target, from free to as long as three passes.
    found = {s: run(target_f16, draft_q8, prompts, s) for s in (0.0, 0.3, 3.0)}
    n_tokens = N_PREDICT * len(prompts)
    with capsys.disabled():
        for seconds, outcome in found.items():
            print(  # noqa: T201
                f"\ndrafts of {seconds} T(1): {outcome.n_drafts} in {outcome.n_passes} passes, "
                f"{outcome.seconds / n_tokens:.2f} of the time without"
            )
    free, cheap, dear = found.values()
    assert sum(map(len, free.tokens)) == n_tokens
    # A free draft is asked for in nearly every pass, and passes are saved.
    assert free.n_drafts > 0.8 * free.n_passes
    assert free.n_passes < 0.9 * n_tokens
    # One of a third of a pass still saves time.
    assert cheap.seconds < dear.seconds
    # One that takes as long as three passes is only tried now and then.
    assert dear.n_drafts < 0.15 * dear.n_passes
    assert dear.n_passes > 0.95 * free.n_passes
