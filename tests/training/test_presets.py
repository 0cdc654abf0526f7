"""The pair's sizes on either machine, and how the learning rate goes."""

import pytest

from training.presets import CPU, GPU, PRESETS, Budget, rate_factor

_Q8_BYTES_PER_WEIGHT = 34 / 32


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_the_pair_shares_a_vocabulary_and_can_be_stored_as_q8_0(preset):
    for shape in (preset.target.shape, preset.draft.shape):
        assert shape.n_vocab == preset.n_vocab
        assert shape.width % 32 == shape.n_ffn % 32 == 0
        assert shape.head_size * shape.n_heads == shape.width
        assert shape.n_heads % shape.n_kv_heads == 0
    assert max(length for length, _ in preset.lengths) == 2048


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_the_pair_fits_the_wheel(preset):
    target, draft = preset.target.shape.n_parameters(), preset.draft.shape.n_parameters()
    assert 3e6 <= target <= 9e6
    assert 2 * target <= 18e6
    assert draft * _Q8_BYTES_PER_WEIGHT <= 3e6


def test_either_preset_goes_on_with_the_others_pair():
    assert CPU.n_vocab == GPU.n_vocab
    assert (CPU.target.shape, CPU.draft.shape) == (GPU.target.shape, GPU.draft.shape)


def test_the_rate_rises_stays_and_falls():
    budget = Budget(100.0, None, 0.25)
    assert rate_factor(budget, 0, 10) == pytest.approx(0.1)
    assert rate_factor(budget, 20, 10) == 1
    budget.use(50, 1000)
    assert rate_factor(budget, 30, 10) == 1
    budget.use(37.5, 1000)
    assert rate_factor(budget, 40, 10) == pytest.approx(0.51)
    budget.use(50, 1000)
    assert budget.progress() == 1


def test_a_stop_does_not_use_up_the_budget():
    budget = Budget(1000.0, None, 0.25)
    budget.use(360, 1000)
    assert budget.progress() < 0.1


def test_tokens_end_a_run_too():
    budget = Budget(1000.0, 4000, 0.25)
    budget.use(1, 4000)
    assert budget.progress() == 1
