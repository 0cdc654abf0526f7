"""The scripted target of the tests refuses what the real one refuses."""

import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp.errors import DecodeError


@pytest.mark.parametrize(
    ("tokens", "n_logits", "error"),
    [
        ([], 0, ValueError),
        ([1] * 7, 1, ValueError),
        ([1, 2], 3, ValueError),
        ([1, 2], -1, ValueError),
        ([1] * 5, 0, ValueError),
        ([5], 1, DecodeError),
        ([-1], 1, DecodeError),
    ],
)
def test_calls_that_the_real_one_refuses(tokens, n_logits, error):
    target = ScriptedTarget(hashing(5), 5, n_ctx=10, n_batch=6)
    target.decode([1] * 6, 0)
    with pytest.raises(error):
        target.decode(tokens, n_logits)
