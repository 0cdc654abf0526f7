"""Distributions over few of many tokens, and what is left of one after a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from speclsp.drafting.protocol import Distribution, residual


def distribution(**probabilities: float) -> Distribution:
    """From ``t7=0.5``: token 7 has probability 0.5."""
    pairs = sorted((int(name[1:]), p) for name, p in probabilities.items())
    return Distribution(np.array([t for t, _ in pairs]), np.array([p for _, p in pairs]))


def as_dict(d: Distribution) -> dict[int, float]:
    pairs = zip(d.token_ids.tolist(), d.probabilities.tolist(), strict=True)
    return {token: p for token, p in pairs if p > 0.0}


def test_tokens_that_cannot_be_drawn_have_no_probability():
    d = distribution(t2=0.25, t7=0.75)
    assert [d.of(token) for token in (0, 2, 5, 7, 9)] == [0.0, 0.25, 0.0, 0.75, 0.0]
    assert d.of_all(np.array([7, 1, 2])).tolist() == [0.75, 0.0, 0.25]


def test_the_residual_is_what_the_target_gives_more_of():
    p = distribution(t1=0.5, t2=0.3, t3=0.2)
    q = distribution(t1=0.2, t2=0.6, t9=0.2)
    assert as_dict(residual(p, q)) == pytest.approx({1: 0.6, 3: 0.4})
    assert as_dict(residual(p, distribution(t9=1.0))) == pytest.approx(as_dict(p))


def test_of_two_equal_distributions_nothing_is_left_so_the_target_stays():
    p = distribution(t1=0.5, t2=0.5)
    assert residual(p, distribution(t1=0.5, t2=0.5)) is p
