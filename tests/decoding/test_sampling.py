"""Sampling: llama.cpp's filters in llama.cpp's order, and draws that follow the distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.decoding.margins import draw_margin, greedy_margin
from speclsp.decoding.sampling import (
    GreedySampler,
    SamplingParams,
    SeededSampler,
    best_tokens,
    candidates,
    draw,
    make_sampler,
)


def params(
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 1,
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
    token_ids, cumulative = candidates(logits, p)
    weights = np.diff(cumulative, prepend=0.0) / cumulative[-1]
    return dict(zip(token_ids.tolist(), weights.tolist(), strict=True))


def test_a_temperature_of_zero_takes_the_most_probable_token():
    sampler = make_sampler(params(temperature=0.0))
    assert isinstance(sampler, GreedySampler)
    assert sampler.sample(row(0, 3, 1)) == 1


def test_greedy_takes_the_lowest_id_among_equals_as_llama_cpp_does():
    assert GreedySampler().sample(row(1, 5, 5, 5)) == 1


def test_top_k_keeps_the_k_most_probable_tokens():
    kept = distribution(of_probabilities(0.1, 0.4, 0.2, 0.3), params(top_k=2))
    assert kept == pytest.approx({1: 0.4 / 0.7, 3: 0.3 / 0.7})


def test_top_p_keeps_the_fewest_tokens_that_reach_it():
    logits = of_probabilities(0.1, 0.4, 0.2, 0.3)
    assert set(distribution(logits, params(top_p=0.69))) == {1, 3}
    assert set(distribution(logits, params(top_p=0.71))) == {1, 2, 3}


def test_top_p_is_taken_of_what_top_k_leaves():
    logits = of_probabilities(0.1, 0.4, 0.2, 0.3)
    # Of 0.4 and 0.3 alone the first has 0.57 of the mass, of all four only 0.4.
    assert set(distribution(logits, params(top_k=2, top_p=0.5))) == {1}
    assert set(distribution(logits, params(top_p=0.5))) == {1, 3}


def test_min_p_is_a_share_of_the_best_before_the_temperature():
    logits = of_probabilities(0.1, 0.4, 0.2, 0.3)
    assert set(distribution(logits, params(min_p=0.6, temperature=100.0))) == {1, 3}


def test_the_temperature_flattens_what_the_filters_left():
    kept = distribution(of_probabilities(0.5, 0.4, 0.1), params(top_k=2, temperature=1e6))
    assert kept == pytest.approx({0: 0.5, 1: 0.5}, abs=1e-5)


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
        assert draw_margin(logits, p, 0.5) < 1e-6
    else:
        assert got == pytest.approx(expected, abs=1e-9)


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

    def tokens(seed: int) -> list[int]:
        sampler = make_sampler(params(seed=seed))
        return [sampler.sample(logits) for _ in range(20)]

    assert tokens(7) == tokens(7)
    assert tokens(7) != tokens(8)
    assert tokens(-1) != tokens(-1)


def test_one_uniform_number_per_token_whatever_the_row():
    sharp, flat = row(100.0, 0.0, 0.0), row(0.0, 0.0, 0.0)
    left, right = SeededSampler(params(seed=3)), SeededSampler(params(seed=3))
    for logits in (sharp, flat, sharp):
        left.sample(logits)
    for logits in (flat, flat, flat):
        right.sample(logits)
    assert left.uniform == right.uniform
    skipping = SeededSampler(params(seed=3))
    skipping.skip(2)
    skipping.sample(flat)
    assert skipping.uniform == left.uniform


def test_draws_follow_the_exact_distribution():
    """A G-test of 200,000 draws of the default filters against the enumerated distribution."""
    logits = (np.random.default_rng(5).standard_normal(60) * 2.0).astype(np.float32)
    p = params(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, seed=11)
    exact = naive_distribution(logits, p)
    n_draws = 200_000
    uniforms = np.random.default_rng(11).random(n_draws)
    token_ids, cumulative = candidates(logits, p)
    drawn = [draw(token_ids, cumulative, u) for u in uniforms.tolist()]
    tokens, counts = np.unique(drawn, return_counts=True)
    assert set(tokens.tolist()) <= set(exact)
    g = 2.0 * sum(
        c * math.log(c / (n_draws * exact[t]))
        for t, c in zip(tokens.tolist(), counts.tolist(), strict=True)
    )
    n_free = len(exact) - 1
    # Wilson and Hilferty's approximation of the chi-squared distribution's 99.9 % point.
    critical = n_free * (1 - 2 / (9 * n_free) + 3.09 * math.sqrt(2 / (9 * n_free))) ** 3
    assert g < critical


def test_a_draw_at_the_very_end_of_the_distribution_is_a_token_of_it():
    token_ids, cumulative = candidates(row(0.1, 0.2, 0.3), params())
    assert draw(token_ids, cumulative, 1.0) == 2
    assert draw(token_ids, cumulative, 0.0) == 0


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_row_still_gives_a_token(broken):
    assert SeededSampler(params(top_k=40, top_p=0.9, min_p=0.1)).sample(row(0, broken, 1)) == 1


def test_the_greedy_margin_is_half_the_gap():
    assert greedy_margin(row(1.0, 4.0, 3.5)) == pytest.approx(0.25)


@given(
    seed=st.integers(0, 3000),
    uniform=st.floats(0.0, 0.999999),
    top_k=st.sampled_from([0, 3, 8]),
    top_p=st.sampled_from([0.6, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    temperature=st.sampled_from([0.3, 0.8, 1.5]),
)
def test_a_draw_survives_errors_below_its_margin(seed, uniform, top_k, top_p, min_p, temperature):
    generator = np.random.default_rng(seed)
    logits = (generator.standard_normal(12) * 2.0).astype(np.float32)
    p = params(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    margin = min(draw_margin(logits, p, uniform), 5.0)
    token = draw(*candidates(logits, p), uniform)
    for _ in range(10):
        error = generator.choice([-0.98, 0.98], size=12) * margin
        moved = (logits.astype(np.float64) + error).astype(np.float32)
        if margin > 1e-4:  # below that float32 itself moves the logits by as much
            assert draw(*candidates(moved, p), uniform) == token
