"""The prompt speed, measured with clocks that the target itself moves."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp import embedded
from speclsp.engine.models import LlamaLoader, Weights
from speclsp.engine.prompt_speed import (
    Clocks,
    PromptSpeeds,
    _thread_seconds,
    clocks,
    measure_prompt_speed,
    measure_single,
)
from speclsp.errors import DecodeError
from speclsp.prompt.jumps import LEAST, n_waited_for
from speclsp.settings import Settings
from speclsp.text.patience import n_before_line_end

NEVER_ENOUGH = 1e9


class TimedTarget(ScriptedTarget):
    """Evaluates ``speed`` tokens a second; the decodes ``stalled`` keep it waiting besides."""

    def __init__(self, speed: float, stalled: dict[int, float] | None = None, **sizes) -> None:
        super().__init__(hashing(16), 16, **sizes)
        self.prompt_speed = speed
        self.stalled = stalled or {}
        self.now = 0.0
        self.computed = 0.0
        self.decoded: list[tuple[int, ...]] = []

    def decode(self, tokens, n_logits):
        seconds = len(tokens) / self.prompt_speed
        self.computed += seconds
        self.now += seconds + self.stalled.get(len(self.decoded), 0.0)
        self.decoded.append(tuple(tokens))
        assert self.cached == []
        return super().decode(tokens, n_logits)

    @property
    def sizes(self) -> list[int]:
        return [len(tokens) for tokens in self.decoded]

    @property
    def on_device(self) -> Clocks:
        return Clocks(wall=lambda: self.now)

    @property
    def on_cpu(self) -> Clocks:
        return Clocks(wall=lambda: self.now, computing=lambda: self.computed)


@pytest.mark.parametrize("speed", [3.0, 10.0, 40.0, 107.0, 230.0, 500.0, 1_000.0, 20_000.0])
@pytest.mark.parametrize("clocks", ["on_cpu", "on_device"])
def test_the_speed_is_found_in_a_second_and_two_tokens_and_the_cache_left_empty(speed, clocks):
    target = TimedTarget(speed)
    assert measure_prompt_speed(target, getattr(target, clocks), NEVER_ENOUGH) == pytest.approx(
        speed
    )
    assert target.cached == []
    assert target.now <= 1.0 + 2 / speed


def test_larger_decodes_follow_where_they_do_not_take_long():
    sizes = {}
    for speed in (2.0, 10.0, 20.0, 100.0, 230.0, 600.0, 5_000.0):
        target = TimedTarget(speed)
        measure_prompt_speed(target, target.on_cpu, NEVER_ENOUGH)
        sizes[speed] = target.sizes
    assert sizes == {
        # Two tokens of a slow model tell that it is the slowest that counts, the rest is for show.
        2.0: [1, 1, 2],
        10.0: [1, 1, 8],
        20.0: [1, 8, 8],
        100.0: [1, 8, 8, 8],
        230.0: [1] + [8] * 3 + [32] * 3,
        600.0: [1] + [8] * 3 + [32] * 3 + [128] * 2,
        5_000.0: [1] + [8] * 3 + [32] * 3 + [128] * 3 + [512] * 3,
    }


@pytest.mark.parametrize("single_s", [0.07, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("more", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("clocks", ["on_cpu", "on_device"])
def test_a_slow_models_prompts_do_not_depend_on_what_is_left_out(single_s, more, clocks):
    class Sloped(TimedTarget):
        """A token more takes ``more`` of the first's time: none where a device has room."""

        def decode(self, tokens, n_logits):
            self.prompt_speed = len(tokens) / (single_s * (1 + more * (len(tokens) - 1)))
            return super().decode(tokens, n_logits)

    target = Sloped(0.0)
    found = measure_prompt_speed(target, getattr(target, clocks), NEVER_ENOUGH)
    assert target.now <= 1.0 + 2 * single_s
    assert n_waited_for(2048, found) == LEAST
    # So it would be with a decode of eight.
    assert n_waited_for(2048, 8 / (single_s * (1 + more * 7))) == LEAST


def test_a_decode_is_measured_with_other_tokens_each_time():
    target = TimedTarget(200.0)
    target.n_vocab = 151_936
    measure_prompt_speed(target, target.on_cpu, NEVER_ENOUGH)
    tokens = [token for decoded in target.decoded for token in decoded]
    assert len(set(tokens)) == len(tokens)


def test_a_model_that_is_fast_enough_is_measured_with_two_small_decodes():
    target = TimedTarget(5_000.0)
    assert measure_prompt_speed(target, target.on_cpu, 800.0) == pytest.approx(5_000.0)
    assert target.sizes == [1, 8]


@pytest.mark.parametrize("clocks", ["on_cpu", "on_device"])
@pytest.mark.parametrize("speed", [12.0, 60.0, 230.0, 800.0])
def test_a_stalled_decode_changes_nothing(clocks, speed):
    for stalled in range(9):
        for seconds in (0.02, 0.3, 5.0):
            target = TimedTarget(speed, {stalled: seconds})
            found = measure_prompt_speed(target, getattr(target, clocks), NEVER_ENOUGH)
            assert found == pytest.approx(speed)


def test_a_machine_that_stalls_every_decode_is_measured_by_its_computing():
    target = TimedTarget(230.0, dict.fromkeys(range(20), 2.0))
    assert measure_prompt_speed(target, target.on_cpu, NEVER_ENOUGH) == pytest.approx(230.0)
    # And has nobody wait for more decodes than needed.
    assert target.sizes == [1, 8, 8, 32, 32]


def test_kernels_that_are_compiled_first_are_not_counted():
    target = TimedTarget(3_000.0, {0: 8.0, 2: 8.0, 4: 8.0, 6: 8.0, 8: 8.0})
    assert measure_prompt_speed(target, target.on_device, NEVER_ENOUGH) == pytest.approx(3_000.0)
    assert target.sizes == [1, 1, 8, 8, 32, 32, 128, 128, 512, 512]


@pytest.mark.parametrize("sizes", [{"n_batch": 1}, {"n_ctx": 4}, {"n_ubatch": 16}])
def test_small_batches_and_contexts_are_not_exceeded(sizes):
    target = TimedTarget(300.0, **sizes)
    assert measure_prompt_speed(target, target.on_cpu, NEVER_ENOUGH) == pytest.approx(300.0)
    assert max(target.sizes) <= next(iter(sizes.values()))


def test_clocks_that_stand_still_are_a_fast_machine():
    target = TimedTarget(float("inf"))
    assert measure_prompt_speed(target, target.on_cpu, 800.0) == float("inf")


def test_a_model_is_measured_once_by_a_loader():
    target = TimedTarget(230.0)
    speeds = PromptSpeeds(lambda _level, _line: None)
    first = speeds.of("a model", target, target.on_cpu, 2048)
    n_decodes = target.n_decodes
    target.prompt_speed = 50.0
    assert speeds.of("a model", target, target.on_cpu, 2048) == first
    assert target.n_decodes == n_decodes
    assert speeds.of("another", target, target.on_cpu, 2048) == pytest.approx(50.0)


def test_a_model_is_measured_no_more_exactly_than_prompts_need():
    target = TimedTarget(1_000.0, n_ctx=32_768)
    speeds = PromptSpeeds(lambda _level, _line: None)
    # 35 % of 2,048 tokens in 0.9 seconds are 796 a second.
    assert speeds.of("a model", target, target.on_cpu, 2048) == pytest.approx(1_000.0)
    assert target.sizes == [1, 8]
    assert speeds.of("a model", target, target.on_cpu, 16_384) == pytest.approx(1_000.0)
    assert target.sizes[2:6] == [1, 8, 8, 8]


def test_a_decode_that_fails_is_told_and_tried_again_at_the_next_load():
    class Failing(TimedTarget):
        def decode(self, tokens, n_logits):
            raise DecodeError("the device is gone.")

    said: list[tuple[str, str]] = []
    speeds = PromptSpeeds(lambda level, line: said.append((level, line)))
    failing, sound = Failing(100.0), TimedTarget(100.0)
    assert speeds.of("a model", failing, failing.on_cpu, 2048) is None
    assert said == [("warning", "The prompt speed could not be measured: the device is gone.")]
    assert speeds.of("a model", sound, sound.on_cpu, 2048) == pytest.approx(100.0)
    assert len(said) == 1


def test_threads_own_time_is_taken_on_a_cpu_alone(monkeypatch):
    assert clocks(2, on_cpu=False).computing is None
    assert clocks(1, on_cpu=True).computing is time.thread_time
    assert clocks(2, on_cpu=True).computing is not None
    monkeypatch.setattr(sys, "platform", "win32")
    assert clocks(1, on_cpu=True).computing is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell threads apart")
def test_what_other_threads_compute_is_left_out(monkeypatch):
    monkeypatch.setattr("speclsp.engine.prompt_speed.physical_cpu_count", lambda: 4)
    seconds = {threading.get_native_id(): 2.0}
    monkeypatch.setattr(
        "speclsp.engine.prompt_speed._thread_seconds", lambda native_id: seconds.get(native_id, 0.0)
    )
    monkeypatch.setattr(time, "process_time", lambda: 9.0 + sum(seconds.values()))
    computing = clocks(2, on_cpu=True).computing
    assert computing is not None
    go_on = threading.Event()
    other = threading.Thread(target=go_on.wait, args=(30,))
    other.start()
    begun = computing()
    assert other.native_id is not None
    seconds[other.native_id] = 5.0
    assert computing() == begun
    seconds[threading.get_native_id()] += 1.0
    assert computing() == begun + 0.5  # what this thread took, shared by two
    go_on.set()
    other.join()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell threads apart")
def test_a_threads_own_seconds_are_the_systems():
    before = time.thread_time()
    seconds = _thread_seconds(threading.get_native_id())
    assert before <= seconds <= time.thread_time()


# --- real models ----------------------------------------------------------------------------------


@pytest.fixture
def load() -> Iterator[Callable[..., Weights]]:
    loaded: list[Weights] = []

    def load_weights(loader: LlamaLoader, **settings) -> Weights:
        weights = loader.weights(
            Settings(**settings),
            loader.tokenizer(Settings(**settings)),
            lambda _share: True,
            lambda _level, _line: None,
        )
        loaded.append(weights)
        return weights

    yield load_weights
    for weights in loaded:
        weights.close()


@pytest.mark.parametrize(
    ("speed", "stalled", "n_decodes"),
    [
        (1_000.0, {}, 3),
        (1_000.0, {0: 3.0}, 2),  # another process had the machine, or kernels were compiled
        (3.0, {}, 2),
        (1.0, {}, 1),  # slow by itself: one tells
        (1.0, {0: 3.0}, 2),
    ],
)
def test_a_single_token_s_time_is_what_its_threads_compute(speed, stalled, n_decodes):
    target = TimedTarget(speed, stalled)
    assert measure_single(target, target.on_cpu) == pytest.approx(1 / speed)
    assert target.sizes == [1] * n_decodes
    assert list(target.cached) == []


def test_a_single_token_s_time_is_measured_once_and_its_failure_told():
    said: list[str] = []
    speeds = PromptSpeeds(lambda _level, line: said.append(line))
    target = TimedTarget(100.0)
    assert speeds.single_s("a", target, target.on_device) == pytest.approx(0.01)
    n_decodes = len(target.decoded)
    target.prompt_speed = 50.0
    assert speeds.single_s("a", target, target.on_device) == pytest.approx(0.01)
    assert len(target.decoded) == n_decodes

    def failing(_tokens: object, _n_logits: int) -> None:
        raise DecodeError("the device is gone.")

    target.decode = failing
    assert speeds.single_s("b", target, target.on_device) is None
    assert said == ["A decode's time could not be measured: the device is gone."]


@pytest.mark.real
def test_the_embedded_model_keeps_its_share_with_and_without_speculation(load, monkeypatch):
    speeds = []
    measured = PromptSpeeds.of

    def watched(self, key, target, clocks, n_prompt):
        before = target.n_evaluated
        speed = measured(self, key, target, clocks, n_prompt)
        speeds.append((key, target.n_evaluated - before))
        assert list(target.cached) == []
        return speed

    monkeypatch.setattr(PromptSpeeds, "of", watched)
    loader = LlamaLoader(lambda _level, _line: None)
    first = load(loader)
    again = load(loader, speculation=False)
    assert first.prompt_speed == again.prompt_speed
    assert first.single_s == again.single_s
    assert n_before_line_end(first.single_s) > Settings().n_predict  # no line ends early
    assert n_waited_for(embedded.MAX_PROMPT, first.prompt_speed) == 224  # 35 %
    (key, n_first), (key_again, n_again) = speeds
    assert key == key_again
    assert n_first >= 8
    assert n_again == 0


@pytest.mark.real
def test_a_model_whose_measuring_fails_is_loaded(load, monkeypatch):
    def failing(*_args: object) -> float:
        raise DecodeError("the device is gone.")

    monkeypatch.setattr("speclsp.engine.prompt_speed.measure_prompt_speed", failing)
    said: list[str] = []
    weights = load(LlamaLoader(lambda _level, line: said.append(line)))
    assert weights.prompt_speed is None
    assert "The prompt speed could not be measured: the device is gone." in said
    assert len(weights.target.decode([1, 2, 3], 1)) == 1
