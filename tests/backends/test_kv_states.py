"""Saved KV states: what comes back, what is worth a copy, and how much is kept."""

import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp.backends.kv_states import KvStates

N_VOCAB = 500


@pytest.fixture
def target():
    return ScriptedTarget(hashing(N_VOCAB), N_VOCAB)


def prompt(first: int, n_tokens: int = 100) -> list[int]:
    return [first, *range(n_tokens - 1)]


def evaluate(states: KvStates, target: ScriptedTarget, tokens: list[int]) -> int:
    """Evaluate a prompt as the decoding loop does; returns how many tokens that took."""
    n_reusable = states.n_reusable(tokens)
    states.prepare(tokens)
    n_cached = 0
    for held, wanted in zip(target.cached, tokens, strict=False):
        if held != wanted:
            break
        n_cached += 1
    assert n_cached >= n_reusable - 48
    target.truncate(n_cached)
    if n_cached < len(tokens):
        target.decode(tokens[n_cached:], 1)
    return len(tokens) - n_cached


def test_each_of_several_prompts_comes_back(target):
    states = KvStates(target, 1 << 20)
    for first in range(5):
        assert evaluate(states, target, prompt(first)) == 100
    for first in (0, 3, 1, 4, 2, 0):
        assert evaluate(states, target, prompt(first)) == 0
    assert len(states._states) <= 5


def test_output_behind_a_prompt_is_not_kept(target):
    states = KvStates(target, 1 << 20)
    evaluate(states, target, prompt(0))
    target.decode([7] * 60, 1)
    evaluate(states, target, prompt(1))
    assert states.n_bytes == 4 * 100
    evaluate(states, target, prompt(0))
    assert list(target.cached) == prompt(0)


def test_a_prompt_that_grew_takes_the_place_of_what_it_was(target):
    states = KvStates(target, 1 << 20)
    evaluate(states, target, prompt(0))
    evaluate(states, target, prompt(1))
    assert evaluate(states, target, [*prompt(0), *range(200, 260)]) == 60
    evaluate(states, target, prompt(1))
    assert len(states._states) == 2
    assert evaluate(states, target, [*prompt(0), *range(200, 260)]) == 0


def test_little_is_not_copied(target):
    states = KvStates(target, 1 << 20)
    evaluate(states, target, prompt(0))
    # The last forty tokens differ: evaluated as quickly as copied.
    evaluate(states, target, [*prompt(0)[:60], *range(300, 340)])
    assert len(states._states) == 0
    evaluate(states, target, prompt(1, 20))
    assert len(states._states) == 1
    evaluate(states, target, prompt(2, 20))
    assert len(states._states) == 1


def test_memory_is_bounded_and_the_least_recently_used_goes_first(target):
    states = KvStates(target, 3 * 4 * 100)
    for first in range(4):
        evaluate(states, target, prompt(first))
    evaluate(states, target, prompt(0))
    for first in range(4, 20):
        evaluate(states, target, prompt(first))
        assert states.n_bytes <= 3 * 4 * 100
    assert states.n_reusable(prompt(0)) == 0
    assert states.n_reusable(prompt(18)) == 100


@pytest.mark.parametrize("n_bytes_max", [0, 399])
def test_where_a_state_does_not_fit_none_is_saved(target, n_bytes_max):
    states = KvStates(target, n_bytes_max)
    evaluate(states, target, prompt(0))
    evaluate(states, target, prompt(1))
    assert len(states._states) == 0
    assert evaluate(states, target, prompt(0)) == 100


def test_a_target_without_states_is_evaluated_anew():
    class Plain:
        """Only what the decoding loop's protocol asks for."""

        def __init__(self):
            self.cached: list[int] = []
            self.n_ctx = self.n_batch = self.n_ubatch = self.n_vocab = 1000

        def truncate(self, n_tokens):
            del self.cached[n_tokens:]

        def decode(self, tokens, n_logits):
            self.cached += tokens

    plain = Plain()
    states = KvStates(plain, 1 << 20)
    evaluate(states, plain, prompt(0))
    evaluate(states, plain, prompt(1))
    assert evaluate(states, plain, prompt(0)) == 100


def test_a_state_that_cannot_be_put_back_is_forgotten(target, monkeypatch):
    states = KvStates(target, 1 << 20)
    evaluate(states, target, prompt(0))
    evaluate(states, target, prompt(1))

    def fail(state):
        target.truncate(0)
        return False

    monkeypatch.setattr(target, "restore_state", fail)
    states.prepare(prompt(0))
    assert list(target.cached) == []
    assert states.n_reusable(prompt(0)) == 0
