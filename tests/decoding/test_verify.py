"""Walking down chains and trees: which tokens come out, and which nodes they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speclsp.decoding.sampling import GreedySampler
from speclsp.decoding.verify import NO_NODE, verify_chain, verify_sampled, verify_tree
from speclsp.drafting.protocol import Distribution


def rows(*choices: int) -> np.ndarray:
    """Logits whose most probable tokens are ``choices``."""
    logits = np.zeros((len(choices), 10), dtype=np.float32)
    logits[range(len(choices)), choices] = 1.0
    return logits


def test_a_chain_is_followed_to_the_first_wrong_token():
    greedy = GreedySampler()
    assert list(verify_chain(rows(4, 5, 6), [4, 5], greedy)) == [(4, 0), (5, 1), (6, NO_NODE)]
    assert list(verify_chain(rows(4, 5, 6), [4, 9], greedy)) == [(4, 0), (5, NO_NODE)]
    assert list(verify_chain(rows(4), [], greedy)) == [(4, NO_NODE)]


def test_a_tree_is_walked_down():
    greedy = GreedySampler()
    parents = [-1, -1, 1, 1, 3, 0]
    tokens = [1, 2, 3, 4, 5, 2]
    # Behind the text 2 follows (node 1), behind that 4 (node 3), and there nothing fits.
    assert list(verify_tree(rows(2, 0, 4, 0, 7, 0, 0), tokens, parents, greedy)) == [
        (2, 1),
        (4, 3),
        (7, NO_NODE),
    ]
    assert list(verify_tree(rows(9, 0, 0, 0, 0, 0, 0), tokens, parents, greedy)) == [(9, NO_NODE)]
    # A leaf gives the bonus token.
    assert list(verify_tree(rows(1, 2, 0, 0, 0, 0, 8), tokens, parents, greedy)) == [
        (1, 0),
        (2, 5),
        (8, NO_NODE),
    ]


def test_nothing_is_sampled_behind_what_is_asked_for():
    sampled: list[int] = []

    class Counting(GreedySampler):
        def sample(self, row: np.ndarray) -> int:
            sampled.append(1)
            return super().sample(row)

    walk = verify_tree(rows(1, 2, 3), [1, 2], [-1, 0], Counting())
    assert next(walk) == (1, 0)
    assert len(sampled) == 1


class Scripted(GreedySampler):
    """Takes its random numbers from a list; draws the most probable token."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = list(numbers)

    def distribution(self, row: np.ndarray) -> Distribution:
        return Distribution(np.arange(row.size), row.astype(np.float64))

    def uniform(self) -> float:
        return self._numbers.pop(0)

    def draw_from(self, distribution: Distribution) -> int:
        return int(distribution.token_ids[np.argmax(distribution.probabilities)])

    def drafts(self):
        raise NotImplementedError


def test_a_drawn_token_is_accepted_with_the_ratio_of_the_probabilities():
    p = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.0, 0.0, 1.0]], dtype=np.float32)
    q = Distribution(np.arange(3), np.array([0.5, 0.25, 0.25]))
    # Token 0: p/q = 0.4.  Token 1 behind it: p/q = 1.2, always accepted.
    taken = list(verify_sampled(p, [0, 1], [q, q], Scripted([0.39, 0.999])))
    assert taken == [(0, 0), (1, 1), (2, NO_NODE)]
    # Refused: of (p − q)+ = (0, 0.25, 0.05) token 1 has most.
    assert list(verify_sampled(p, [0, 1], [q, q], Scripted([0.41]))) == [(1, NO_NODE)]


def test_a_token_that_the_target_cannot_draw_is_refused_for_sure():
    p = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], dtype=np.float32)
    q = Distribution(np.arange(3), np.array([0.9, 0.1, 0.0]))
    assert list(verify_sampled(p, [0], [q], Scripted([1e-17]))) == [(1, NO_NODE)]
