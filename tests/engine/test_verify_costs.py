"""What verifying drafts costs, measured once for each model of a loader."""

from __future__ import annotations

import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp.engine.models import LlamaLoader, nobody_waits
from speclsp.engine.verify_costs import VerifyCosts
from speclsp.errors import DecodeError
from speclsp.settings import Settings


class Clocked(ScriptedTarget):
    """Each token takes ``seconds``; decodes fail while ``is_gone``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(hashing(16), 16)
        self.seconds = seconds
        self.now = 0.0
        self.is_gone = False

    def decode(self, tokens, n_logits):
        if self.is_gone:
            raise DecodeError("the device is gone.")
        self.now += self.seconds * len(tokens)
        return super().decode(tokens, n_logits)

    def clock(self) -> float:
        return self.now


def test_a_model_that_is_loaded_again_is_not_measured_again():
    costs = VerifyCosts(lambda _level, _line: None)
    first, again, other = Clocked(0.01), Clocked(0.5), Clocked(0.02)
    cost = costs.of("a model", first, first.clock, nobody_waits)
    assert cost is not None
    assert cost.single_s == pytest.approx(0.01)
    assert costs.of("a model", again, again.clock, nobody_waits) is cost
    assert again.n_decodes == 0
    another = costs.of("another", other, other.clock, nobody_waits)
    assert another is not None
    assert another.single_s == pytest.approx(0.02)


def test_a_decode_that_fails_is_told_and_tried_again_at_the_next_load():
    said: list[tuple[str, str]] = []
    costs = VerifyCosts(lambda level, line: said.append((level, line)))
    target = Clocked(0.01)
    target.is_gone = True
    assert costs.of("a model", target, target.clock, nobody_waits) is None
    assert said == [
        ("warning", "What verifying drafts costs could not be measured: the device is gone.")
    ]
    target.is_gone = False
    assert costs.of("a model", target, target.clock, nobody_waits) is not None


@pytest.mark.real
def test_a_real_model_keeps_its_figures_and_is_loaded_without_them(monkeypatch):
    loader = LlamaLoader(lambda _level, _line: None)
    tokenizer = loader.tokenizer(Settings())

    def load(settings: Settings):
        weights = loader.weights(
            settings, tokenizer, lambda _share: True, lambda _level, _line: None, lambda: True
        )
        assert list(weights.target.cached) == []
        weights.close()
        return weights.verify_cost

    first = load(Settings())
    assert first is not None
    assert load(Settings()) is first

    def failing(*_args: object, **_named: object) -> None:
        raise DecodeError("the device is gone.")

    monkeypatch.setattr("speclsp.engine.verify_costs.measure_verify_cost", failing)
    assert load(Settings(ctx_size=512)) is None
