"""What the first request at a new place evaluates, by how fast the machine evaluates prompts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_models import ScriptedLoader

from speclsp.cancellation import CancellationToken
from speclsp.completer.local import LocalCompleter
from speclsp.engine.prompt_speed import Clocks, PromptSpeeds
from speclsp.request import CompletionRequest, CompletionResult, LogLine
from speclsp.settings import Settings

WAIT_S = 60
SOURCE = Path(ast.__file__).read_text(encoding="utf-8")[:30_000]
PLACES = [SOURCE.index("\n", place) for place in (8_000, 20_000, 14_000)]


class TimedLoader(ScriptedLoader):
    """Loads a target that evaluates ``speed`` tokens a second, by a clock that nothing disturbs."""

    def __init__(self, speed: float) -> None:
        super().__init__("value = 1")
        self.speed = speed
        self.prompt_speeds: PromptSpeeds | None = None

    def weights(self, settings, words, progress, log):
        weights = super().weights(settings, words, progress, log)
        target = self.target

        def clock() -> float:
            return target.n_tokens_evaluated / self.speed

        if self.prompt_speeds is None:
            self.prompt_speeds = PromptSpeeds(log)
        speed = self.prompt_speeds.of("a model", target, Clocks(wall=clock, computing=clock), 2048)
        return replace(weights, prompt_speed=speed)


@pytest.fixture
def make(tmp_path, monkeypatch) -> Iterator[Callable[..., LocalCompleter]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: list[LocalCompleter] = []

    def make_completer(loader: TimedLoader, **settings) -> LocalCompleter:
        completer = LocalCompleter(typed(**settings), loader=loader)
        made.append(completer)
        completer.start()
        assert completer.wait_idle(WAIT_S)
        return completer

    yield make_completer
    for completer in made:
        completer.close()


def typed(**settings) -> Settings:
    """Settings with which every request reaches the model."""
    return Settings(
        persist=False,
        deadline_ms=60_000,
        debounce_ms=0,
        suggestion_memory=False,
        prefetch=False,
        automatic_filters=False,
        min_confidence=0.0,
        **settings,
    )


def ask(completer: LocalCompleter, place: int, **fields) -> CompletionResult:
    request = CompletionRequest(
        uri="file:///p/ast.py",
        path="ast.py",
        repo_name="p",
        prefix=SOURCE[:place],
        suffix=SOURCE[place:],
        language_id="python",
        n_predict=4,
        wait_for_model=True,
        temperature=0.0,
        **fields,
    )
    result = completer.complete(request, CancellationToken()).result(WAIT_S)
    assert completer.wait_idle(WAIT_S)
    return result


def jumps(completer: LocalCompleter) -> list[int]:
    """Ask at one place after the other; returns what each evaluated."""
    return [ask(completer, place).stats.n_prompt_evaluated for place in PLACES]


@pytest.mark.parametrize(
    ("speed", "n_least", "n_most"),
    [(10.0, 40, 96), (230.0, 97, 192), (500.0, 193, 384), (1_000.0, 385, 716), (1e6, 385, 716)],
)
def test_a_jump_waits_for_what_the_machine_evaluates_soon(make, speed, n_least, n_most):
    counts = [
        jumps(make(TimedLoader(speed), speculation=speculation)) for speculation in (True, False)
    ]
    assert all(n_least <= n_evaluated <= n_most for n_evaluated in counts[0])
    assert counts[0] == counts[1]


def test_the_rest_is_laid_out_in_the_next_pause(make):
    completer = make(TimedLoader(230.0))
    short = ask(completer, PLACES[0])
    settled = ask(completer, PLACES[0])
    assert short.stats.n_prompt <= 192
    assert settled.stats.n_prompt > 1_200
    assert settled.stats.n_prompt_evaluated <= 2


def test_who_asks_by_hand_or_without_a_session_gets_the_whole_at_once(make):
    completer = make(TimedLoader(10.0))
    for place, fields in zip(PLACES, [{"trigger": "invoked"}, {"supersede": False}], strict=False):
        assert ask(completer, place, **fields).stats.n_prompt_evaluated > 1_200


def test_the_setting_goes_before_what_was_measured(make):
    completer = make(TimedLoader(230.0), n_jump=400)
    assert all(192 < n_evaluated <= 400 for n_evaluated in jumps(completer))
    completer.apply_settings(typed())
    assert ask(completer, 26_000).stats.n_prompt_evaluated <= 192


def test_a_model_that_is_loaded_again_has_the_same_jumps(make):
    loader = TimedLoader(230.0)
    completer = make(loader)
    before = jumps(completer)
    loader.speed = 5_000.0  # whatever else the machine did is done, and nobody measures again
    completer.apply_settings(typed(speculation=False, drafters="suffix"))
    assert completer.wait_idle(WAIT_S)
    assert len(loader.targets) == 2
    assert jumps(completer) == before


def test_the_log_says_what_is_waited_for(make):
    completer = make(TimedLoader(230.0))
    said = []
    while (event := completer.next_event(0.05)) is not None:
        if isinstance(event, LogLine) and event.message.startswith("prompt speed"):
            said.append(event.message)
    assert said == [
        "prompt speed 230 tokens/s: a request at a new place waits for at most 192 of 2048 tokens"
    ]
