"""What a slow model suggests while somebody types: some lines soon, the next in idle time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from scripted_models import ScriptedLoader, answering

from speclsp.cancellation import CancellationToken
from speclsp.completer.local import LocalCompleter
from speclsp.request import CompletionRequest, CompletionResult, LogLine
from speclsp.settings import Settings

WAIT_S = 60
WHOLE = "a = 1\n    b = 2\n    c = 3\n    return a"
BEGINNING = "a = 1\n    b = 2"
BEFORE = "def f():\n    "


class TimedLoader(ScriptedLoader):
    """Loads a target that is said to take ``single_s`` for a token."""

    def __init__(self, single_s: float | None, text: str = WHOLE) -> None:
        super().__init__(text)
        self.single_s = single_s

    def weights(self, settings, words, progress, log):
        weights = super().weights(settings, words, progress, log)
        return replace(weights, single_s=self.single_s)


@pytest.fixture
def make(tmp_path, monkeypatch) -> Iterator[Callable[..., LocalCompleter]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: list[LocalCompleter] = []

    def make_completer(loader: ScriptedLoader, **settings) -> LocalCompleter:
        given = {"min_confidence": 0.0, "debounce_ms": 0, "persist": False} | settings
        completer = LocalCompleter(Settings(deadline_ms=60_000, **given), loader=loader)
        made.append(completer)
        completer.start()
        assert completer.wait_idle(WAIT_S)
        return completer

    yield make_completer
    for completer in made:
        completer.close()


def ask(completer: LocalCompleter, before: str, **fields) -> CompletionResult:
    request = CompletionRequest(
        uri="file:///p/f.py",
        path="f.py",
        repo_name="p",
        prefix=before,
        suffix="\n",
        language_id="python",
        wait_for_model=True,
        temperature=0.0,
        **fields,
    )
    return completer.complete(request, CancellationToken()).result(WAIT_S)


@pytest.mark.parametrize("speculation", [True, False])
def test_a_slow_model_s_suggestion_ends_with_its_line(make, speculation):
    result = ask(make(TimedLoader(0.05), speculation=speculation), BEFORE)
    assert (result.text, result.finish_reason, result.goes_on) == (BEGINNING, "stop", True)
    # The line's beginning is said again, and the line end is the last token.
    assert result.stats.n_predicted == len("    " + BEGINNING + "\n")


@pytest.mark.parametrize("single_s", [None, 0.001])
def test_a_quick_one_s_and_one_s_that_nobody_measured_do_not(make, single_s):
    result = ask(make(TimedLoader(single_s)), BEFORE)
    assert (result.text, result.goes_on) == (WHOLE, False)


def test_who_asks_by_hand_gets_the_whole(make):
    result = ask(make(TimedLoader(0.05)), BEFORE, trigger="invoked")
    assert (result.text, result.goes_on) == (WHOLE, False)


def test_the_setting_goes_before_what_was_measured(make):
    completer = make(TimedLoader(0.05), n_line_end=21, suggestion_memory=False)
    assert ask(completer, BEFORE).text == "a = 1\n    b = 2\n    c = 3"
    completer.apply_settings(Settings(min_confidence=0.0, n_line_end=1, suggestion_memory=False))
    assert ask(completer, BEFORE).text == "a = 1"


@pytest.mark.parametrize(("single_s", "n_told"), [(0.05, 1), (0.001, 0), (None, 0)])
def test_the_log_says_when_lines_end(make, single_s, n_told):
    completer = make(TimedLoader(single_s))
    said = []
    while (event := completer.next_event(0.05)) is not None:
        if isinstance(event, LogLine) and event.message.startswith("a token takes"):
            said.append(event.message)
    wanted = "a token takes 50.0 ms: what is suggested while typing ends with its line after 16"
    assert said == [wanted] * n_told


def test_blank_lines_at_the_beginning_are_no_text_to_end_with(make):
    completer = make(TimedLoader(0.05, "\n    a = 1\n    b = 2"), n_line_end=1)
    assert ask(completer, "def f():").text == "\n    a = 1"


def test_the_rest_is_there_when_the_beginning_was_taken(make):
    completer = make(TimedLoader(0.05))
    beginning = ask(completer, BEFORE)
    completer.shown(beginning.completion_id)
    assert completer.wait_idle(WAIT_S)
    completer.accepted(beginning.completion_id)
    rest = ask(completer, BEFORE + BEGINNING)
    assert (rest.source, beginning.text + rest.text) == ("memory", WHOLE)
    assert not rest.goes_on


def test_who_types_along_sees_more_lines_as_soon_as_they_are_known(make):
    completer = make(TimedLoader(0.05))
    completer.shown(ask(completer, BEFORE).completion_id)
    typed_at_once = ask(completer, BEFORE + "a")
    assert WHOLE.startswith("a" + typed_at_once.text)
    assert completer.wait_idle(WAIT_S)
    assert "a =" + ask(completer, BEFORE + "a =").text == WHOLE


def test_what_is_on_screen_stays_known_where_the_whole_is_too_uncertain(make):
    loader = TimedLoader(0.05)
    completer = make(loader, min_confidence=0.9)
    beginning = ask(completer, BEFORE)
    assert beginning.text == BEGINNING
    sure = loader.target._predict
    loader.target._predict = lambda cached: [score / 9 for score in sure(cached)]
    completer.shown(beginning.completion_id)
    assert completer.wait_idle(WAIT_S)
    again = ask(completer, BEFORE)
    assert (again.text, again.source) == (BEGINNING, "memory")


def test_where_the_whole_is_another_text_what_is_on_screen_stays_known(make):
    loader = TimedLoader(0.05)
    completer = make(loader)
    beginning = ask(completer, BEFORE)
    loader.target._predict = answering("b = 2\n    c = 3\n    return a")
    completer.shown(beginning.completion_id)
    assert completer.wait_idle(WAIT_S)
    again = ask(completer, BEFORE)
    assert (again.text, again.source) == (BEGINNING, "memory")
    # Two were made: the whole that was none, and what follows the beginning.
    assert completer.statistics().n_prefetches == 2


def test_who_asks_by_hand_is_not_given_the_beginning_that_is_known(make):
    completer = make(TimedLoader(0.05))
    assert ask(completer, BEFORE).text == BEGINNING
    assert ask(completer, BEFORE, trigger="invoked").text == WHOLE


def test_without_a_session_nothing_is_cut_since_nobody_makes_the_rest(make):
    result = ask(make(TimedLoader(0.05)), BEFORE, supersede=False)
    assert (result.text, result.goes_on) == (WHOLE, False)
