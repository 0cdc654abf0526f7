"""Forks of a KV cache: each sees the beginning that it shares and its own tokens, nothing else."""

import numpy as np
import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp.backends.llama.context import LlamaTarget
from speclsp.decoding.target import Logits, fork_target
from speclsp.errors import DecodeInterruptedError

pytestmark = pytest.mark.real

TEXT = list(range(100, 160))
LENGTHS = (60, 31, 12)
OWN = ((7, 8, 9), (300, 301, 302), (7, 300, 8))
TOLERANCE = 0.02
"""Largest difference of a logit between batches of three tokens and of one, in F16."""


@pytest.fixture
def target(target_f16):
    target_f16.set_interrupt(None)
    target_f16.truncate(0)
    target_f16.decode(TEXT, 0)
    return target_f16


def forked(target: LlamaTarget) -> list[Logits]:
    """Grow all forks by one token after another; return the rows of the last step."""
    target.fork(LENGTHS)
    for step in range(3):
        rows = target.decode_forks([0, 1, 2], [own[step] for own in OWN])
    return [row.copy() for row in rows]


def decode_forks_for_ever(target: LlamaTarget) -> None:
    while True:
        target.fork(LENGTHS)
        target.decode_forks([0, 1, 2], [1, 2, 3])


def test_a_fork_sees_its_own_path(target):
    rows = forked(target)
    target.drop_forks()
    for length, own, row in zip(LENGTHS, OWN, rows, strict=True):
        target.truncate(0)
        target.decode([*TEXT[:length], *own[:-1]], 0)
        alone = target.decode(own[-1:], 1)[0]
        assert np.abs(alone - row).max() < TOLERANCE


def test_the_cache_is_as_if_there_had_been_no_forks(target):
    expected = target.decode([5], 1).copy()
    target.truncate(len(TEXT))
    forked(target)
    assert list(target.cached) == TEXT
    assert target.n_free == target.n_ctx - len(TEXT) - 9
    assert np.array_equal(target.decode([5], 1), expected)  # which forgets the forks
    assert target.n_free == target.n_ctx - len(TEXT) - 1
    with pytest.raises(ValueError, match="forks"):
        target.decode_forks([0], [1])


def test_trees_and_forks_take_turns(target):
    expected = target.decode_tree([5], [6, 7], [-1, -1]).copy()
    target.truncate(len(TEXT))
    forked(target)
    assert np.array_equal(target.decode_tree([5], [6, 7], [-1, -1]), expected)
    target.keep_path([1])
    assert list(target.cached) == [*TEXT, 5, 7]
    again = forked(target)
    target.truncate(len(TEXT))
    for row, other in zip(again, forked(target), strict=True):
        assert np.abs(row - other).max() < TOLERANCE


def test_some_forks_may_end_before_others(target):
    rows = forked(target)
    target.fork(LENGTHS)
    target.decode_forks([0, 1, 2], [own[0] for own in OWN])
    target.decode_forks([2, 0], [OWN[2][1], OWN[0][1]])
    row = target.decode_forks([2], [OWN[2][2]])[0]
    assert np.abs(row - rows[2]).max() < TOLERANCE


def test_interrupted_forks_leave_the_cache_as_it_was(target):
    expected = target.decode([5], 1).copy()
    target.truncate(len(TEXT))
    target.fork(LENGTHS)
    target.decode_forks([0, 1, 2], [1, 2, 3])
    target.set_interrupt(lambda: True)
    with pytest.raises(DecodeInterruptedError):  # soon: a thread of its own asks
        decode_forks_for_ever(target)
    target.set_interrupt(None)
    assert list(target.cached) == TEXT
    assert target.n_free == target.n_ctx - len(TEXT)
    assert np.array_equal(target.decode([5], 1), expected)


@pytest.mark.parametrize("lengths", [(0,), (61,), (1,) * 16])
def test_impossible_forks_are_refused(target, lengths):
    with pytest.raises(ValueError, match="fork"):
        target.fork(lengths)


def test_a_target_with_one_branch_has_no_forks():
    plain, branching = (ScriptedTarget(hashing(50), 50, n_branches=n) for n in (1, 2))
    assert fork_target(branching) is branching
    assert fork_target(plain) is None
