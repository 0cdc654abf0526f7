"""Walking down chains and trees: which tokens come out, and which nodes they are."""

import numpy as np

from speclsp.decoding.sampling import GreedySampler
from speclsp.decoding.verify import NO_NODE, verify_chain, verify_tree


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
        def sample(self, row):
            sampled.append(1)
            return super().sample(row)

    walk = verify_tree(rows(1, 2, 3), [1, 2], [-1, 0], Counting())
    assert next(walk) == (1, 0)
    assert len(sampled) == 1
