"""KV states copied out and in: the same tokens, and the logits that a prefill gives."""

import numpy as np
import pytest

from speclsp.backends.kv_states import KvState, KvStates

N_FIRST, N_SECOND, N_MORE = 400, 300, 12


@pytest.fixture(scope="module")
def texts():
    generator = np.random.default_rng(7)
    return [generator.integers(10, 4000, n).tolist() for n in (N_FIRST, N_SECOND, N_MORE)]


@pytest.fixture(params=["f16", "q8"])
def target(request):
    target = request.getfixturevalue(f"target_{request.param}")
    target.truncate(0)
    yield target
    target.truncate(0)


def test_logits_after_a_state_came_back_are_those_without(target, texts):
    first, second, more = texts
    target.decode(first, 0)
    alone = [target.decode([token], 1).copy() for token in more]
    target.truncate(N_FIRST)
    state = target.save_state()
    assert state.tokens == tuple(first)
    assert state.data.nbytes > N_FIRST * 100
    target.truncate(0)
    target.decode(second, 0)
    assert target.restore_state(state)
    assert list(target.cached) == first
    n_evaluated = target.n_evaluated
    for token, expected in zip(more, alone, strict=True):
        np.testing.assert_array_equal(target.decode([token], 1), expected)
    assert target.n_evaluated == n_evaluated + N_MORE


def test_a_tree_on_the_cache_is_no_part_of_its_state(target, texts):
    first, _, more = texts
    target.decode(first[:100], 0)
    target.decode_tree(first[100:101], more[:4], [-1, 0, -1, 2])
    state = target.save_state()
    assert state.tokens == tuple(first[:101])
    expected = target.decode(more[:1], 1).copy()
    assert target.restore_state(state)
    # The tree's cells lay between; attention may add up in another order.
    np.testing.assert_allclose(target.decode(more[:1], 1), expected, atol=0.25)
    target.keep_path([])
    target.truncate(101)
    tree = target.decode_tree(first[101:102], more[:4], [-1, 0, -1, 2])
    assert tree.shape[0] == 5


def test_a_damaged_state_leaves_an_empty_cache_that_works(target, texts):
    first = texts[0]
    target.decode(first, 0)
    state = target.save_state()
    assert not target.restore_state(KvState(state.tokens, state.data[:1000].copy()))
    assert list(target.cached) == []
    target.decode(first[:10], 1)
    assert list(target.cached) == first[:10]


def test_prompts_come_back_without_a_prefill(target, texts):
    first, second, more = texts
    states = KvStates(target, 1 << 30)

    def evaluate(tokens):
        states.prepare(tokens)
        n_before = target.n_evaluated
        n_cached = len(target.cached) if tokens[: len(target.cached)] == list(target.cached) else 0
        target.truncate(n_cached)
        logits = target.decode(tokens[n_cached:], 1).copy()
        return target.n_evaluated - n_before, logits

    assert evaluate([*first, more[0]])[0] == N_FIRST + 1
    assert evaluate([*second, more[0]])[0] == N_SECOND + 1
    n_evaluated, _ = evaluate([*first, *more[:3]])
    assert n_evaluated == 2
    n_evaluated, _ = evaluate([*second, *more[:2]])
    assert n_evaluated == 1
