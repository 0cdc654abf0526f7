"""The slope of T(k), measured with a clock that the target itself moves."""

import pytest

from speclsp.decoding.verify_cost import measure_verify_cost
from speclsp.engine.scripted import ScriptedTarget, hashing


class TimedTarget(ScriptedTarget):
    """A target whose decodes take ``first`` seconds for one token and ``more`` for each other."""

    def __init__(self, first: float, more: float, **sizes: int) -> None:
        super().__init__(hashing(16), 16, **sizes)
        self.first = first
        self.more = more
        self.now = 0.0

    def decode(self, tokens, n_logits):
        self.now += self.first + self.more * (len(tokens) - 1)
        return super().decode(tokens, n_logits)

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("first", "more", "cost"),
    [(0.001, 0.0, 0.0), (0.001, 0.0005, 0.5), (2.0, 0.5, 0.25), (0.001, -0.00001, 0.0)],
)
def test_the_slope_is_found_and_the_cache_left_empty(first, more, cost):
    target = TimedTarget(first, more)
    assert measure_verify_cost(target, target.clock).curve.slope == pytest.approx(cost)
    assert target.cached == []


def test_a_slow_model_is_measured_with_few_decodes():
    slow, fast = TimedTarget(2.0, 0.5), TimedTarget(0.001, 0.0005)
    measure_verify_cost(slow, slow.clock)
    measure_verify_cost(fast, fast.clock)
    assert (slow.n_decodes, fast.n_decodes) == (3, 1 + 9 * 5)


@pytest.mark.parametrize("sizes", [{"n_batch": 1}, {"n_ctx": 8}, {"n_batch": 4, "n_ubatch": 2}])
def test_small_batches_and_contexts_are_not_exceeded(sizes):
    target = TimedTarget(0.001, 0.0005, **sizes)
    assert measure_verify_cost(target, target.clock).curve.slope >= 0.0
