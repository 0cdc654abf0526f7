"""Log-probabilities of what was emitted: from the right rows, whatever was drafted."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_drafters import AdversarialDrafter, EmptyDrafter, OracleDrafter
from scripted_proposers import adversarial_trees, oracle_trees
from scripted_target import ScriptedTarget, hashing

from speclsp.decoding.sampling import SamplingParams, make_sampler
from speclsp.decoding.speculate import generate
from speclsp.decoding.token_scores import TokenScores, log_sum_exp
from speclsp.drafting.drafter import DraftContext

N_VOCAB = 40
PROMPT = [3, 1, 4]
PREDICT = hashing(N_VOCAB)


def expected_logprobs(tokens: Sequence[int]) -> list[float]:
    """From each token's own row, computed alone, in float64."""
    logprobs = []
    for idx, token in enumerate(tokens):
        row = np.float32(PREDICT([*PROMPT, *tokens[:idx]])).astype(np.float64)
        logprobs.append(float(row[token] - np.log(np.exp(row).sum())))
    return logprobs


def test_log_sum_exp():
    row = np.random.default_rng(1).normal(size=5000).astype(np.float32) * 9 + 300
    exact = math.log(np.exp(row.astype(np.float64) - 300).sum()) + 300
    assert log_sum_exp(row, int(row.argmax())) == pytest.approx(exact, abs=0.01)
    low = row - np.float32(700)
    assert log_sum_exp(low, int(low.argmax())) == pytest.approx(exact - 700, abs=0.01)
    many = np.random.default_rng(2).normal(size=150_000).astype(np.float32) * 2.5
    exact = math.log(np.exp(many.astype(np.float64)).sum())
    assert log_sum_exp(many, int(many.argmax())) == pytest.approx(exact, abs=0.01)
    masked = np.array([-np.inf, 2.0, -np.inf], dtype=np.float32)
    assert log_sum_exp(masked, int(masked.argmax())) == pytest.approx(2.0, abs=1e-6)
    assert math.isnan(log_sum_exp(np.array([np.nan, 1.0], dtype=np.float32), 0))


def peaked(best: float) -> NDArray[np.float32]:
    """Return a large vocabulary's logits with one token that stands out by ``best``."""
    row = np.random.default_rng(4).normal(size=150_000).astype(np.float32) * 3
    row[17] = best
    return row


def exact_log_sum(row: NDArray[np.float32]) -> float:
    return math.log(np.exp(row.astype(np.float64)).sum())


@pytest.mark.parametrize("best", [-4.0, 9.0, 16.0, 24.0, 40.0])
def test_a_large_row_is_summed_as_it_is(best):
    row = peaked(best)
    before = row.copy()
    assert log_sum_exp(row, 17) == pytest.approx(exact_log_sum(row), abs=0.01)
    row[5] = -np.inf
    assert log_sum_exp(row, 17) == pytest.approx(exact_log_sum(row), abs=0.01)
    row[5] = before[5]
    assert np.array_equal(row, before)


def test_what_is_left_out_of_a_sum_has_a_bound():
    row = np.full(150_000, -13.99, dtype=np.float32)
    row[17] = 0.0
    assert log_sum_exp(row, 17) == pytest.approx(exact_log_sum(row), abs=1e-4)
    row[:17] = row[18:] = -14.01
    assert 0.1 < exact_log_sum(row) - log_sum_exp(row, 17) < math.log1p(150_000 * math.exp(-14))
    row[18] = np.nan
    assert log_sum_exp(row, 17) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_row_has_no_log_sum(bad):
    row = peaked(30.0)
    row[17] = bad
    assert math.isnan(log_sum_exp(row, 17))
    row[17], row[18] = 30.0, np.inf
    assert math.isnan(log_sum_exp(row, 17))


@pytest.mark.parametrize("n_rivals", [0, 1])
def test_rows_are_read_before_they_are_gone(n_rivals):
    rows = np.stack([peaked(26.0), peaked(18.0)])
    expected = [float(row[17]) - exact_log_sum(row) for row in rows]
    scores = TokenScores(n_rivals=n_rivals)
    for _ in range(20):
        memory = rows.copy()
        for row in memory:
            scores.observe(17, row)
        memory[:] = 0.0
    assert scores.logprobs == pytest.approx(20 * expected, abs=0.01)
    assert [rival.position for rival in scores.rivals] == list(range(40 * n_rivals))


def test_rivals_are_the_best_others_at_each_place():
    scores = TokenScores(n_rivals=2)
    row: NDArray[np.float32] = np.log(np.array([0.1, 0.4, 0.2, 0.3], dtype=np.float32))
    scores.observe(3, row)
    scores.observe(0, row)
    assert [(r.position, r.token) for r in scores.rivals] == [
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 3),
        (1, 2),
    ]
    assert [math.exp(r.logprob) for r in scores.rivals[:2]] == pytest.approx([0.4, 0.2], abs=1e-6)
    assert [math.exp(p) for p in scores.logprobs] == pytest.approx([0.3, 0.1], abs=1e-6)


def test_among_the_tokens_that_are_to_be_had():
    row: NDArray[np.float32] = np.log(np.array([0.1, 0.4, 0.2, 0.3], dtype=np.float32))
    left = row.copy()
    left[1:3] = -np.inf
    scores = TokenScores(n_rivals=3, chosen_by=lambda: left)
    scores.observe(3, row)
    assert [math.exp(p) for p in scores.logprobs] == pytest.approx([0.75], abs=1e-6)
    assert [(r.token, round(math.exp(r.logprob), 6)) for r in scores.rivals] == [(0, 0.25)]


def generated(drafter: object, temperature: float, scores: TokenScores) -> tuple[int, ...]:
    sampler = make_sampler(
        SamplingParams(temperature=temperature, top_k=5, top_p=0.95, min_p=0.01, seed=4)
    )
    return generate(
        ScriptedTarget(PREDICT, N_VOCAB),
        DraftContext(prompt=PROMPT),
        drafter=drafter,  # type: ignore[arg-type]  # drafters and proposers alike
        sampler=sampler,
        n_predict=30,
        stop=lambda _token: False,
        interrupted=lambda: None,
        clock=lambda: 0.0,
        scores=scores,
    ).tokens


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", ["none", "chain", "wrong chain", "tree", "wrong tree"])
def test_every_emitted_token_has_its_own_row(kind, temperature):
    output = generated(EmptyDrafter(), temperature, TokenScores())
    drafter = {
        "none": EmptyDrafter(),
        "chain": OracleDrafter(output),
        "wrong chain": AdversarialDrafter(output, N_VOCAB),
        "tree": oracle_trees(output, N_VOCAB, 5),
        "wrong tree": adversarial_trees(output, N_VOCAB),
    }[kind]
    scores = TokenScores(n_rivals=3)
    assert generated(drafter, temperature, scores) == output
    assert scores.logprobs == pytest.approx(expected_logprobs(output), abs=1e-5)
    assert len(scores.rivals) in range(3 * len(output), 4 * len(output) + 1)
    for rival in scores.rivals:
        (expected,) = expected_logprobs([*output[: rival.position], rival.token])[rival.position :]
        assert rival.logprob == pytest.approx(expected, abs=1e-5)
        assert rival.token != output[rival.position]


COPY = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "scored"),
    [
        pytest.param(COPY, [], id="a copy"),
        pytest.param([*COPY, 30], [30], id="the end token"),
        pytest.param([1, 2, 33, 4, 5, 6, 7, 8], [33, 4, 5, 6], id="replaced"),
        pytest.param([1, 2, 3, 33, 34, 4, 5, 6, 7], [33, 34, 4, 5, 6], id="inserted"),
        pytest.param([1, 2, 6, 7, 8, 9, 1], [6, 7, 8], id="deleted"),
        pytest.param([1, 33, 34, 2, 3, 35, 6, 7, 8, 9], [33, 34, 2, 3, 35, 6, 7, 8], id="twice"),
        pytest.param([33, 1, 2, 3, 4], [33, 1, 2, 3], id="the nearest place"),
    ],
)
def test_tokens_that_follow_a_copy_are_not_scored(answer, scored):
    scores = TokenScores(copy=np.array(COPY, dtype=np.int32))
    row = np.random.default_rng(3).normal(size=N_VOCAB).astype(np.float32)
    for token in answer:
        scores.observe(token, row)
    found = zip(answer, scores.logprobs, strict=True)
    finite = [(token, logprob) for token, logprob in found if math.isfinite(logprob)]
    assert [token for token, _ in finite] == scored
    for token, logprob in finite:
        assert logprob == pytest.approx(float(row[token]) - exact_log_sum(row), abs=1e-4)


@pytest.mark.parametrize("level", [-1e30, -200.0, 200.0, 1e30])
def test_logits_whose_exponentials_overflow_or_vanish_are_summed_below_the_largest(level):
    row = np.full(1000, level, dtype=np.float32)
    assert log_sum_exp(row, int(row.argmax())) == pytest.approx(level + math.log(1000), rel=1e-6)
