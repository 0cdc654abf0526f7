"""Further texts: where they part from the first, and that each is what it would be alone."""

import math
from collections.abc import Callable, Sequence

import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp.decoding.forks import Fork, best_rivals, grow_forks
from speclsp.decoding.sampling import GreedySampler, Sampler, SamplingParams, SeededSampler
from speclsp.decoding.token_scores import Rival, TokenScores
from speclsp.errors import DecodeInterruptedError
from speclsp.seam.request import FinishReason

N_VOCAB = 30
PREDICT = hashing(N_VOCAB)
PROMPT = [1, 2, 3, 4, 5]
EMITTED = [6, 7, 8, 9]


def target(**sizes: int) -> ScriptedTarget:
    made = ScriptedTarget(PREDICT, N_VOCAB, **sizes)
    made.decode([*PROMPT, *EMITTED[:-1]], 0)
    return made


def fork(n_shared: int, token: int, sampler: Sampler | None = None, stop: int = -1) -> Fork:
    scores = TokenScores()
    scores.logprobs = [-1.0] * (n_shared + 1)
    return Fork(
        tokens=[*EMITTED[:n_shared], token],
        n_shared=n_shared,
        sampler=sampler or GreedySampler(),
        stop=lambda token: token == stop,
        scores=scores,
    )


def grow(
    model: ScriptedTarget,
    forks: Sequence[Fork],
    n_predict: int = 12,
    interrupted: Callable[[], FinishReason | None] = lambda: None,
) -> int:
    n_before = model.n_tokens_evaluated
    grow_forks(model, len(PROMPT), forks, n_predict=n_predict, interrupted=interrupted)
    return model.n_tokens_evaluated - n_before


def alone(tokens: Sequence[int], sampler: Sampler, n_tokens: int) -> list[int]:
    """Continue ``tokens`` to ``n_tokens``, one by one."""
    model, grown = ScriptedTarget(PREDICT, N_VOCAB), list(tokens)
    rows = model.decode([*PROMPT, *tokens], 1)
    while len(grown) < n_tokens:
        grown.append(sampler.sample(rows[0]))
        rows = model.decode(grown[-1:], 1)
    return grown


def test_each_fork_is_what_it_would_be_alone():
    params = SamplingParams(temperature=0.8, top_k=0, top_p=1.0, min_p=0.0, seed=3)
    model = target()
    forks = [fork(0, 20), fork(3, 21), fork(3, 22, SeededSampler(params))]
    n_tokens = grow(model, forks)
    samplers = (GreedySampler(), GreedySampler(), SeededSampler(params))
    for grown, sampler in zip(forks, samplers, strict=True):
        first = grown.tokens[: grown.n_shared + 1]
        assert grown.tokens == alone(first, sampler, 12)
        assert grown.finish == "length"
        assert len(grown.scores.logprobs) == 12
    assert n_tokens == 11 + 8 + 8
    assert list(model.cached) == [*PROMPT, *EMITTED[:-1]]


def test_a_fork_ends_where_it_is_told_to():
    wanted = alone([20], GreedySampler(), 12)
    ends, goes_on, at_once = fork(0, 20, stop=wanted[4]), fork(1, 20), fork(2, 20, stop=20)
    model = target()
    grow(model, [ends, goes_on, at_once])
    assert (ends.tokens, ends.finish) == (wanted[:5], "stop")
    assert (len(goes_on.tokens), goes_on.finish) == (12, "length")
    assert (at_once.tokens, at_once.finish) == ([*EMITTED[:2], 20], "stop")


def test_all_share_one_deadline():
    looks = iter([None, None, "deadline"])
    forks = [fork(0, 20), fork(1, 21)]
    assert grow(target(), forks, interrupted=lambda: next(looks)) == 4  # type: ignore[arg-type]
    assert [(len(f.tokens), f.finish) for f in forks] == [(3, "deadline"), (4, "deadline")]


def test_an_interrupted_decode_ends_all():
    class Interrupted(ScriptedTarget):
        def decode_forks(self, forks, tokens):  # type: ignore[no-untyped-def]  # as its parent
            raise DecodeInterruptedError("told to stop")

    model = Interrupted(PREDICT, N_VOCAB)
    model.decode([*PROMPT, *EMITTED], 0)
    forks = [fork(0, 20)]
    assert grow(model, forks, interrupted=lambda: None) == 0
    assert forks[0].finish == "cancelled"
    assert model.n_free == model.n_ctx - len(PROMPT) - len(EMITTED)


def test_a_full_cache_ends_all():
    forks = [fork(0, 20), fork(1, 21)]
    assert grow(target(n_ctx=13), forks) == 4  # 8 are taken, and one is too few for both
    assert [f.finish for f in forks] == ["length", "length"]


def rival(position: int, token: int, probability: float) -> Rival:
    return Rival(position, token, math.log(probability))


def test_rivals_that_change_much_and_are_probable_come_first():
    rivals = [
        rival(0, 1, 0.2),
        rival(0, 2, 0.0001),
        rival(2, 3, 0.3),
        rival(4, 4, 0.5),
        rival(5, 5, 0.9),
    ]
    chosen = best_rivals(rivals, 9, 4)
    # Worth 0.2 · 5/5, 0.3 · 3/5 and 0.5 · 1/5; one is too improbable, one behind the text's end.
    assert [r.token for r in chosen] == [1, 3, 4]
    assert [r.token for r in best_rivals(rivals, 2, 4, excluded={1})] == [3, 4]


def test_an_empty_text_has_rivals_at_its_start_alone():
    assert [r.token for r in best_rivals([rival(0, 1, 0.2), rival(1, 2, 0.4)], 3, 0)] == [1]


@pytest.mark.parametrize("n_rivals", [0, 1])
def test_equally_good_rivals_have_an_order(n_rivals):
    rivals = [rival(0, 9, 0.2), rival(0, 4, 0.2)]
    assert [r.token for r in best_rivals(rivals, n_rivals, 3)] == [4][:n_rivals]
