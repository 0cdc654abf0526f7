"""llama.cpp's sampler ``infill``, by the rules of its source."""

from collections import Counter

import numpy as np

from speclsp.decoding.infill_sampler import InfillSampler
from speclsp.decoding.sampling import SamplingParams

PIECES = [b"", b"a", b"ab", b"x", b"y"]
END = 0


def drawn(*probabilities: float, n_draws: int = 200) -> Counter[int]:
    """Draw from the probabilities of the end and of the pieces."""
    params = SamplingParams(temperature=1.0, top_k=40, top_p=1.0, min_p=0.0, seed=7)
    sampler = InfillSampler(params, [END], PIECES.__getitem__)
    row = np.log(np.array(probabilities)).astype(np.float32)
    return Counter(sampler.sample(row) for _ in range(n_draws))


def test_a_likely_end_wins():
    """3 × 0.2 × 5 is more than the rest, 0.8."""
    assert set(drawn(0.2, 0.7, 0.05, 0.03, 0.02)) == {END}


def test_a_token_that_begins_another_counts_with_it():
    """a and ab together are likelier than x, which is too unlikely alone."""
    assert set(drawn(1e-6, 0.3, 0.36, 0.18, 0.16)) == {2}


def test_unlikely_tokens_are_left_out():
    assert set(drawn(1e-6, 0.5, 1e-6, 0.45, 0.05)) <= {1, 3}


def test_where_no_token_is_likely_the_text_ends():
    params = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
    pieces = [b"", *(bytes([97 + n]) for n in range(10))]
    sampler = InfillSampler(params, [END], pieces.__getitem__)
    row = np.log(np.array([1e-9, *[0.1] * 10])).astype(np.float32)
    assert sampler.sample(row) == END


def test_a_seed_gives_the_same_tokens():
    assert drawn(1e-6, 0.5, 1e-6, 0.5, 1e-6) == drawn(1e-6, 0.5, 1e-6, 0.5, 1e-6)
