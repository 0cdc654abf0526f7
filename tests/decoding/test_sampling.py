"""Sampling: llama.cpp's filters in llama.cpp's order, and draws that follow the distribution."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.decoding.sampling import (
    GreedySampler,
    SamplingParams,
    SeededSampler,
    best_tokens,
    candidates,
    draw,
    gumbel_noise,
    make_sampler,
    sole_candidate,
)
from tests.support.margins import draw_margin, greedy_margin


def params(
    temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int = 1
) -> SamplingParams:
    return SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)


def row(*logits: float) -> np.ndarray:
    return np.array(logits, dtype=np.float32)


def of_probabilities(*probabilities: float) -> np.ndarray:
    return np.log(np.array(probabilities)).astype(np.float32)


def naive_distribution(logits: np.ndarray, p: SamplingParams) -> dict[int, float]:
    """The filters one after the other over sorted Python lists, as llama.cpp's source has them."""
    ranked = sorted(range(logits.size), key=lambda t: (-float(logits[t]), t))
    if p.top_k > 0:
        ranked = ranked[: p.top_k]
    best = float(logits[ranked[0]])
    if p.top_p < 1.0:
        mass = math.fsum(math.exp(float(logits[t]) - best) for t in ranked)
        total, kept = 0.0, []
        for token in ranked:
            kept.append(token)
            total += math.exp(float(logits[token]) - best) / mass
            if total >= p.top_p:
                break
        ranked = kept
    if p.min_p > 0.0:
        ranked = [t for t in ranked if float(logits[t]) >= best + math.log(p.min_p)]
    weights = {t: math.exp((float(logits[t]) - best) / p.temperature) for t in ranked}
    mass = math.fsum(weights.values())
    return {t: w / mass for t, w in weights.items()}


def distribution(logits: np.ndarray, p: SamplingParams) -> dict[int, float]:
    token_ids, log_weights = candidates(logits, p)
    weights = np.exp(log_weights)
    return dict(zip(token_ids.tolist(), (weights / weights.sum()).tolist(), strict=True))


def test_a_temperature_of_zero_takes_the_most_probable_token():
    sampler = make_sampler(params(temperature=0.0))
    assert isinstance(sampler, GreedySampler)
    assert sampler.sample(row(0, 3, 1)) == 1


def test_greedy_takes_the_lowest_id_among_equals_as_llama_cpp_does():
    assert GreedySampler().sample(row(1, 5, 5, 5)) == 1


@given(
    seed=st.integers(0, 10_000),
    n_vocab=st.integers(1, 3000),
    spread=st.sampled_from([0.1, 1.0, 4.0, 20.0]),
    top_k=st.sampled_from([0, 1, 2, 40, 5000]),
    top_p=st.sampled_from([0.0, 0.3, 0.95, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    temperature=st.sampled_from([0.01, 0.8, 2.0]),
    ties=st.booleans(),
)
def test_the_distribution_equals_the_naive_one(
    seed, n_vocab, spread, top_k, top_p, min_p, temperature, ties
):
    logits = (np.random.default_rng(seed).standard_normal(n_vocab) * spread).astype(np.float32)
    if ties:
        logits = np.round(logits)
    p = params(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    expected = naive_distribution(logits, p)
    got = distribution(logits, p)
    # A sum that ends within rounding of top_p may keep one token more or less.
    if set(got) != set(expected):
        assert len(set(got) ^ set(expected)) == 1
        ranked = np.sort(np.exp(logits.astype(np.float64)))[::-1]
        ranked = ranked[: top_k or None]
        sums = np.cumsum(ranked) / ranked.sum()
        assert float(np.abs(sums - top_p).min()) < 1e-12
    else:
        assert got == pytest.approx(expected, abs=1e-9)


@given(
    seed=st.integers(0, 10_000),
    n_vocab=st.integers(1, 300),
    spread=st.sampled_from([0.1, 1.0, 4.0, 20.0]),
    top_k=st.sampled_from([0, 1, 40]),
    top_p=st.sampled_from([0.3, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
def test_a_token_that_min_p_leaves_alone_is_the_one_to_draw(
    seed, n_vocab, spread, top_k, top_p, min_p
):
    logits = (np.random.default_rng(seed).standard_normal(n_vocab) * spread).astype(np.float32)
    p = params(top_k=top_k, top_p=top_p, min_p=min_p)
    sole = sole_candidate(logits, p)
    if sole is not None:
        assert candidates(logits, p)[0].tolist() == [sole]
    elif min_p and n_vocab > 1:
        best, second = np.sort(logits)[::-1][:2].astype(np.float64)
        assert second >= best + math.log(min_p) - 1e-4
    logits[:] = np.nan
    assert sole_candidate(logits, p) is None


@given(seed=st.integers(0, 1000), n_vocab=st.integers(1, 400), n=st.integers(1, 500))
def test_best_tokens_are_those_of_a_full_sort(seed, n_vocab, n):
    generator = np.random.default_rng(seed)
    logits = np.round(generator.standard_normal(n_vocab) * generator.uniform(0.5, 30)).astype(
        np.float32
    )
    ranked = sorted(range(n_vocab), key=lambda t: (-float(logits[t]), t))
    assert best_tokens(logits, float(logits.max()), n).tolist() == ranked[:n]


def test_a_seed_gives_the_same_tokens_and_another_one_others():
    logits = np.zeros(1000, dtype=np.float32)

    def tokens(seed):
        sampler = make_sampler(params(seed=seed))
        return [sampler.sample(logits) for _ in range(20)]

    assert tokens(7) == tokens(7)
    assert tokens(7) != tokens(8)
    assert tokens(-1) != tokens(-1)


def test_one_random_number_per_token_whatever_the_row():
    sharp, flat = row(100.0, 0.0, 0.0), row(0.0, 0.0, 0.0)
    left, right = SeededSampler(params(seed=3)), SeededSampler(params(seed=3))
    for logits in (sharp, flat, sharp):
        left.sample(logits)
    for logits in (flat, flat, flat):
        right.sample(logits)
    assert left.number == right.number
    skipping = SeededSampler(params(seed=3))
    skipping._generator.advance(2)
    skipping.sample(flat)
    assert skipping.number == left.number


def chi_squared_999(n_free: int) -> float:
    """Wilson and Hilferty's approximation of the distribution's 99.9 % point."""
    return n_free * (1 - 2 / (9 * n_free) + 3.09 * math.sqrt(2 / (9 * n_free))) ** 3


def g_statistic(drawn: list[int], exact: dict[int, float]) -> float:
    tokens, counts = np.unique(drawn, return_counts=True)
    assert set(tokens.tolist()) <= set(exact)
    return 2.0 * sum(
        c * math.log(c / (len(drawn) * exact[t]))
        for t, c in zip(tokens.tolist(), counts.tolist(), strict=True)
    )


@pytest.mark.slow
def test_draws_follow_the_exact_distribution():
    """A G-test of 60,000 draws with the default filters against the enumerated distribution."""
    logits = (np.random.default_rng(5).standard_normal(60) * 1.2).astype(np.float32)
    p = params(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, seed=11)
    exact = naive_distribution(logits, p)
    sampler = SeededSampler(p)
    drawn = [sampler.sample(logits) for _ in range(60_000)]
    assert len(exact) > 10
    assert g_statistic(drawn, exact) < chi_squared_999(len(exact) - 1)


def test_successive_draws_are_independent():
    logits = of_probabilities(0.5, 0.3, 0.2)
    sampler = SeededSampler(params(seed=2))
    drawn = [sampler.sample(logits) for _ in range(60_000)]
    pairs = [3 * a + b for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
    exact = {
        3 * a + b: p * q
        for a, p in enumerate((0.5, 0.3, 0.2))
        for b, q in enumerate((0.5, 0.3, 0.2))
    }
    assert g_statistic(pairs, exact) < chi_squared_999(8)


def test_a_tokens_noise_does_not_depend_on_the_other_candidates():
    some, all_of_them = np.array([3, 70]), np.arange(100)
    assert gumbel_noise(some, 9).tolist() == gumbel_noise(all_of_them, 9)[some].tolist()


def test_noise_is_finite_at_the_ends_of_the_hash():
    noise = gumbel_noise(np.arange(200_000), 2**64 - 1)
    assert np.isfinite(noise).all()
    # A standard Gumbel variable has Euler's constant as its mean and variance π² / 6.
    assert noise.mean() == pytest.approx(0.5772, abs=0.01)
    assert noise.var() == pytest.approx(math.pi**2 / 6, abs=0.02)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_row_still_gives_a_token(broken):
    assert SeededSampler(params(top_k=40, top_p=0.9, min_p=0.1)).sample(row(0, broken, 1)) == 1


def test_the_greedy_margin_is_half_the_gap():
    assert greedy_margin(row(1.0, 4.0, 3.5)) == pytest.approx(0.25)


@settings(max_examples=300)
@given(
    seed=st.integers(0, 3000),
    number=st.integers(0, 2**64 - 1),
    top_k=st.sampled_from([0, 3, 8]),
    top_p=st.sampled_from([0.6, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    temperature=st.sampled_from([0.3, 0.8, 1.5]),
)
def test_a_draw_survives_errors_below_its_margin(seed, number, top_k, top_p, min_p, temperature):
    generator = np.random.default_rng(seed)
    logits = (generator.standard_normal(12) * 2.0).astype(np.float32)
    p = params(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    margin = min(draw_margin(logits, p, number), 5.0)
    token = draw(*candidates(logits, p), number)
    for _ in range(20):
        error = generator.choice([-0.98, 0.98], size=12) * margin
        moved = (logits.astype(np.float64) + error).astype(np.float32)
        if margin > 1e-4:  # below that float32 itself moves the logits by as much
            assert draw(*candidates(moved, p), number) == token


def test_margins_are_not_needlessly_small():
    """A margin that were always 0 would bound everything and say nothing."""
    generator = np.random.default_rng(3)
    p = params(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
    margins, nearest = [], []
    for _ in range(60):
        logits = (generator.standard_normal(200) * 3.0).astype(np.float32)
        number = int(generator.integers(2**63))
        token = draw(*candidates(logits, p), number)
        margins.append(draw_margin(logits, p, number))
        flips = [
            scale
            for scale in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
            for _ in range(20)
            if token
            != draw(
                *candidates(
                    (logits + generator.choice([-scale, scale], size=200)).astype(np.float32), p
                ),
                number,
            )
        ]
        nearest.append(min(flips, default=8.0))
    assert np.median(margins) > 0.25 * np.median(nearest)
