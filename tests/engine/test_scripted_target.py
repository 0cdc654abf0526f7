"""The scripted target is as strict as the real one, and the same every time."""

import numpy as np
import pytest
from scripted_target import ScriptedTarget, following, hashing

from speclsp.errors import DecodeError, EngineUnavailableError


def target(**sizes: int) -> ScriptedTarget:
    return ScriptedTarget(hashing(5), 5, **{"n_ctx": 10, "n_batch": 6, **sizes})


def test_a_batch_and_single_tokens_give_the_same_logits():
    together = target().decode([1, 2, 3, 4], 4)
    alone = target()
    rows = np.concatenate([alone.decode([token], 1) for token in (1, 2, 3, 4)])
    assert np.array_equal(together, rows)
    assert (alone.n_decodes, alone.n_tokens_evaluated) == (4, 4)


def test_logits_are_those_of_the_last_tokens():
    assert np.array_equal(target().decode([1, 2, 3], 3)[1:], target().decode([1, 2, 3], 2))
    assert target().decode([1, 2], 0).shape == (0, 5)


def test_truncating_forgets():
    model = target()
    model.decode([1, 2, 3], 0)
    model.truncate(1)
    assert list(model.cached) == [1]
    expected = target().decode([1, 4], 1)
    assert np.array_equal(model.decode([4], 1), expected)


@pytest.mark.parametrize(
    ("tokens", "n_logits", "error"),
    [
        ([], 0, ValueError),
        ([1] * 7, 1, ValueError),
        ([1, 2], 3, ValueError),
        ([1, 2], -1, ValueError),
        ([5], 1, DecodeError),
        ([-1], 1, DecodeError),
    ],
)
def test_calls_that_the_real_one_refuses(tokens, n_logits, error):
    with pytest.raises(error):
        target().decode(tokens, n_logits)


def test_the_context_is_bounded():
    model = target()
    model.decode([1] * 6, 0)
    with pytest.raises(ValueError, match="a context of 10 that holds 6"):
        model.decode([1] * 5, 0)


def test_a_closed_target_decodes_nothing():
    model = target()
    model.close()
    with pytest.raises(EngineUnavailableError):
        model.decode([1], 1)


def test_a_script_begins_where_the_prompt_ends():
    predict = following([3, 4], 5, n_prompt=2)
    assert [int(np.argmax(predict([0] * n))) for n in (1, 2, 3, 4, 9)] == [3, 3, 4, 4, 4]
