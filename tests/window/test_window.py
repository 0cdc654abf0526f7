"""Requests that the model is spared, over the in-process completer with a scripted model."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from scripted_completer import ScriptedCompleter
from scripted_models import END, N_TOKENS, ScriptedLoader
from typed_requests import request_at, typed_completer
from waiting import until

from speclsp.completer.coalescing import GRACE_S
from speclsp.errors import DecodeError, DecodeInterruptedError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.seam.documents import Document
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings
from speclsp.window.window import Window, new_id

WAIT_S = 60
SCRIPT = "first = 1\nsecond = 2\nthird = 3\nupper = 4\nlower = 5\nouter = 6"
TWO_LINES = "first = 1\nsecond = 2"
TYPING = Settings(mode="chain", persist=False, multiline="always", max_lines=2, idle_work="prompts")


def reciting(script: str) -> Callable[[Sequence[int]], Sequence[float]]:
    """Predict what follows in ``script`` the last line before the cursor that is not blank."""

    def predict(cached: Sequence[int]) -> Sequence[float]:
        prefix, suffix, middle = (list(cached).index(token) for token in (256, 257, 258))
        shown = [*cached[prefix + 1 : suffix], *cached[middle + 1 :]]
        text = bytes(shown).decode()
        line = text.rstrip("\n").rpartition("\n")[2] + text[len(text.rstrip("\n")) :]
        found = ("\n" + script).find("\n" + line)
        at = found + len(line) if found >= 0 else len(script)
        logits = [0.0] * N_TOKENS
        logits[ord(script[at]) if at < len(script) else END] = 9.0
        return logits

    return predict


class Typist:
    """A completer on a model that recites, and the ways to ask it."""

    def __init__(self, settings: Settings = TYPING, **more: Any) -> None:
        self.loader = ScriptedLoader()
        self.completer = typed_completer(settings, loader=self.loader, **more)
        self.completer.start()
        until(lambda: self.completer.state() == "ready")
        self.loader.target._predict = reciting(SCRIPT)

    def start(self, text: str, **fields: Any) -> Future[CompletionResult]:
        return self.completer.complete(request_at(text, **fields), CancellationToken())

    def ask(self, text: str, **fields: Any) -> CompletionResult:
        return self.start(text, **fields).result(WAIT_S)

    @property
    def n_decodes(self) -> int:
        return self.loader.target.n_decodes

    def hold_up_at(self, n_decode: int) -> threading.Event:
        """Stop at a decode, counted from now; returns what is set when it is reached."""
        reached, left = threading.Event(), [n_decode]
        target = self.loader.target
        target.gate.set()

        def hold_up() -> None:
            left[0] -= 1
            if left[0] == 0:
                reached.set()
                target.gate.clear()
                assert target.gate.wait(WAIT_S)

        target.before_decode = hold_up
        return reached

    def hold_at(self, n_decode: int, text: str = "¦", **fields: Any) -> Future[CompletionResult]:
        """Ask, and return when the answer's decode of that number is held up."""
        reached = self.hold_up_at(n_decode)
        asked = self.start(text, **fields)
        assert reached.wait(WAIT_S)
        return asked

    def go_on(self) -> None:
        self.loader.target.before_decode = lambda: None
        self.loader.target.gate.set()


pytestmark = pytest.mark.usefixtures("private_folders")


@pytest.fixture
def make() -> Iterator[Callable[..., Typist]]:
    made: list[Typist] = []

    def make_typist(*arguments: Any, **more: Any) -> Typist:
        made.append(Typist(*arguments, **more))
        return made[-1]

    yield make_typist
    for typist in made:
        typist.go_on()
        typist.completer.close()


# --- typing through a suggestion ------------------------------------------------------------------


def test_every_keystroke_that_fits_costs_nothing(make):
    typist = make()
    assert typist.ask("¦").generated.text == TWO_LINES
    n_decodes = typist.n_decodes
    for n_typed in range(1, len(TWO_LINES)):
        result = typist.ask(TWO_LINES[:n_typed] + "¦")
        assert (result.generated.text, result.source) == (TWO_LINES[n_typed:], "memory")
        assert result.stats.n_target_passes == 0
    assert typist.ask("fir¦").generated.text == TWO_LINES[3:]  # and back
    assert typist.ask("fi¦").generated.text == TWO_LINES[2:]
    stats = typist.completer.statistics()
    assert (stats.n_memory, stats.latency["memory"].n) == (len(TWO_LINES) + 1,) * 2
    assert stats.latency["total"].n == stats.latency["answer"].n == len(stats.answer_ms) == 1
    assert stats.n_completions == stats.n_requests == len(TWO_LINES) + 2
    typist.completer.wait_idle(WAIT_S)
    assert typist.n_decodes - n_decodes <= 1  # what idle time prepares
    assert typist.ask(TWO_LINES + "¦").source == "model"


def test_what_is_learned_is_the_whole_suggestion_once(make):
    typist = make()
    learned: list[str] = []
    typist.completer.window.completer.learn = lambda accepted: learned.append(accepted.text)
    first = typist.ask("¦")
    second = typist.ask("fir¦")
    assert second.generated.completion_id != first.generated.completion_id
    typist.completer.accepted(second.generated.completion_id, 6)
    third = typist.ask("first = 1¦")
    typist.completer.accepted(third.generated.completion_id)
    typist.completer.accepted(first.generated.completion_id)
    typist.ask(TWO_LINES + "¦")
    assert learned == []
    typist.ask(TWO_LINES + "\n¦")
    assert learned == [TWO_LINES]
    stats = typist.completer.statistics()
    assert (stats.n_accepted_items, stats.n_partially_accepted) == (1, 0)
    assert stats.n_chars_accepted == 6 + len(third.generated.text) + len(first.generated.text)


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "program"},
        {"trigger": "invoked", "temperature": 0.7},
        {"n_candidates": 2},
        {"multiline": "never"},
        {"language_id": "rust"},
    ],
)
def test_who_wants_the_models_own_word_gets_it(make, fields):
    typist = make()
    typist.ask("¦", **fields)
    result = typist.ask("fir¦", **{**fields, "n_candidates": fields.get("n_candidates", 1)})
    if "multiline" in fields or "language_id" in fields:
        assert result.source == "memory"  # asked so both times
        result = typist.ask("fi¦")
    assert result.source == "model"
    assert result.stats.n_target_passes > 0


def test_invoked_without_chance_is_answered_from_memory(make):
    typist = make()
    typist.ask("¦")
    assert typist.ask("f¦", trigger="invoked").source == "memory"


@pytest.mark.parametrize("change", [{"n_predict": 5}, {"ctx_size": 512}, {"max_lines": 1}])
def test_other_settings_forget(make, change):
    typist = make()
    typist.ask("¦")
    typist.completer.apply_settings(dataclasses.replace(TYPING, **change))
    until(lambda: typist.completer.state() == "ready")
    assert typist.ask("f¦", wait_for_model=True).source == "model"


@pytest.mark.parametrize("is_newer", [False, True])
def test_what_runs_by_other_settings_is_not_remembered_and_serves_no_newer_request(make, is_newer):
    typist = make()
    running = typist.hold_at(3)
    typist.completer.apply_settings(dataclasses.replace(TYPING, max_lines=1))
    newer = typist.start("f¦") if is_newer else None
    typist.go_on()
    if newer is None:
        assert running.result(WAIT_S).generated.text == TWO_LINES
        assert typist.ask("fir¦").generated.text == "st = 1"
    else:
        assert running.result(WAIT_S).generated.finish_reason == "cancelled"
        assert newer.result(WAIT_S).generated.text == "irst = 1"


def test_closing_the_document_forgets(make):
    typist = make()
    document = Document(uri="file:///p/a.py", path="a.py", language_id="python", version=1, text="")
    typist.completer.open_document(document)
    typist.ask("¦")
    typist.completer.close_document(document.uri)
    assert typist.ask("f¦").source == "model"


def test_switched_off_everything_reaches_the_model(make):
    settings = Settings(mode="chain", persist=False, multiline="always", suggestion_memory=False)
    typist = make(settings)
    typist.ask("¦")
    assert typist.ask("f¦").source == "model"


def test_nothing_to_say_is_remembered_briefly(make):
    now = [0.0]
    typist = make(clock=lambda: now[0])
    end = SCRIPT + "¦"
    assert typist.ask(end).generated.text == ""
    n_decodes = typist.n_decodes
    assert (typist.ask(end).generated.text, typist.ask(end).source) == ("", "memory")
    assert typist.ask(end, trigger="invoked").source == "model"
    assert typist.n_decodes > n_decodes
    now[0] = 10.0
    assert typist.ask(end).source == "model"


def late(n_evaluated: int, n_predicted: int = 0, n_prompt: int = 90) -> CompletionResult:
    """Return what was empty at its deadline."""
    empty = request_at("a¦").plain.empty("deadline")
    generated = dataclasses.replace(empty.generated, completion_id=new_id())
    stats = RequestStats(n_prompt=n_prompt, n_prompt_evaluated=n_evaluated, n_predicted=n_predicted)
    return CompletionResult(generated=generated, stats=stats)


def n_repeated(window: Window, *, most: int = 9, **counts: int) -> int:
    """Return how often a request is repeated whose results are all the same."""
    plain = request_at("a¦").plain
    return next((n for n in range(most) if not window.note_late(plain, late(**counts))), most)


def test_what_is_late_is_repeated_while_that_brings_more(make):
    window = make().completer.window
    assert n_repeated(window, n_evaluated=40) == 2
    window.model_changed()
    assert n_repeated(window, n_evaluated=0) == 3
    window.model_changed()
    # Of these tokens nothing was left to suggest.
    assert n_repeated(window, n_evaluated=90, n_predicted=2) == 3


@pytest.mark.parametrize("change", ["model", "settings", "success"])
def test_what_was_late_counts_anew_after(make, change):
    window = make().completer.window
    assert n_repeated(window, n_evaluated=0) == 3
    if change == "model":
        window.model_changed()
    elif change == "settings":
        window.apply_settings(TYPING)
    else:
        assert not window.note_late(request_at("a¦").plain, request_at("a¦").plain.empty("stop"))
    assert n_repeated(window, n_evaluated=0) == 3


def test_a_request_that_was_superseded_makes_no_late_one_count_anew(make):
    window = make().completer.window
    assert n_repeated(window, n_evaluated=0) == 3
    assert not window.note_late(request_at("a¦").plain, request_at("a¦").plain.empty("cancelled"))
    assert n_repeated(window, n_evaluated=0) == 0


def test_a_late_result_of_two_requests_counts_once(make):
    window, shared = make().completer.window, late(n_evaluated=40)
    assert window.note_late(request_at("a¦").plain, shared)
    assert not window.note_late(request_at("a¦").plain, shared)
    assert n_repeated(window, n_evaluated=40) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "speclsp+unix:///x"])
def test_another_server_is_not_asked_again(url):
    settings = dataclasses.replace(TYPING, engine_url=url)
    window = Window(ScriptedCompleter(settings), settings)
    assert n_repeated(window, n_evaluated=0) == (0 if url.startswith("http") else 3)


def test_nothing_in_time_is_not_remembered(make):
    now = [0.0]
    typist = make(clock=lambda: now[0])

    def too_late():
        now[0] += 10.0
        raise DecodeInterruptedError("llama_decode was interrupted.")

    typist.loader.target.before_decode = too_late
    late = typist.ask("¦")
    assert (late.generated.text, late.generated.finish_reason) == ("", "deadline")
    typist.go_on()
    assert typist.ask("¦").generated.text == TWO_LINES


# --- the generation that runs goes on -------------------------------------------------------------


def test_a_generation_goes_on_while_what_is_typed_agrees(make):
    typist = make()
    first = typist.hold_at(6)
    second = typist.start("fi¦")  # less than there is
    assert first.result(WAIT_S).generated.finish_reason == "cancelled"
    third = typist.start("first = 1\nse¦")  # more than there is
    assert second.result(WAIT_S).generated.finish_reason == "cancelled"
    typist.go_on()
    result = third.result(WAIT_S)
    assert (result.generated.text, result.source) == ("cond = 2", "model")
    assert result.stats.n_predicted >= len(TWO_LINES)
    stats = typist.completer.statistics()
    assert (stats.n_coalesced, stats.n_cancelled, stats.n_completions) == (2, 2, 1)
    assert stats.totals.n_predicted == result.stats.n_predicted
    assert typist.ask("first = 1\nsec¦").source == "memory"
    learned: list[str] = []
    typist.completer.window.completer.learn = lambda accepted: learned.append(
        accepted.before + accepted.text
    )
    typist.completer.accepted(result.generated.completion_id)
    typist.ask(TWO_LINES + "\n¦")
    assert learned == [TWO_LINES]


def test_a_generation_that_something_else_was_typed_against_stops(make):
    typist = make()
    first = typist.hold_at(6)
    n_decodes = typist.n_decodes
    second = typist.start("upp¦")
    typist.go_on()
    assert first.result(WAIT_S).generated.finish_reason == "cancelled"
    assert second.result(WAIT_S).generated.text.startswith("er = 4")
    assert typist.completer.statistics().n_coalesced == 0
    assert second.result().stats.n_target_passes >= typist.n_decodes - n_decodes - 2


def test_it_is_decided_while_the_text_grows(make):
    typist = make()
    first = typist.hold_at(3)
    second = typist.start("first = 2¦")  # agrees so far, and will not
    typist.go_on()
    assert first.result(WAIT_S).generated.finish_reason == "cancelled"
    result = second.result(WAIT_S)
    assert result.generated.finish_reason == "stop"
    assert result.stats.n_prompt > 0
    stats = typist.completer.statistics()
    assert stats.n_coalesced == 1
    assert stats.totals.n_predicted > result.stats.n_predicted  # what was spent in vain counts
    assert stats.n_requests == 2


def test_a_text_that_was_typed_whole_meanwhile_leaves_a_request_of_its_own(make):
    typist = make()
    typist.hold_at(3)
    second = typist.start(TWO_LINES + "¦")
    typist.go_on()
    assert second.result(WAIT_S).generated.text == "\nthird = 3\nupper = 4"


def test_another_document_does_not_join(make):
    typist = make()
    first = typist.hold_at(3)
    beside = typist.start("f¦", uri="file:///p/b.py")
    typist.go_on()
    assert first.result(WAIT_S).generated.text == TWO_LINES
    assert beside.result(WAIT_S).stats.n_target_passes > 0


def test_a_failure_reaches_whoever_waits_by_then(make):
    typist = make()
    typist.hold_at(3)
    second = typist.start("f¦")
    typist.loader.target.before_decode = Mock(side_effect=DecodeError("llama_decode returned -3."))
    typist.loader.target.gate.set()
    with pytest.raises(DecodeError):
        second.result(WAIT_S)


def test_closing_while_one_has_joined_answers_both(make):
    typist = make()
    first = typist.hold_at(3)
    second = typist.start("f¦")
    closing = threading.Thread(target=typist.completer.close)
    closing.start()
    until(lambda: typist.completer._engine.thread.closing)
    typist.go_on()
    closing.join(WAIT_S)
    assert first.done()
    assert second.done()


def test_a_request_that_its_editor_cancels_is_waited_on_for_a_moment(make):
    now = [0.0]
    typist = make(clock=lambda: now[0])
    token = CancellationToken()
    reached = typist.hold_up_at(3)
    first = typist.completer.complete(request_at("¦"), token)
    assert reached.wait(WAIT_S)
    token.cancel()
    second = typist.start("f¦")
    typist.go_on()
    assert second.result(WAIT_S).generated.text == TWO_LINES[1:]
    assert first.result(WAIT_S).generated.text == ""

    token = CancellationToken()
    n_left = 100

    def later() -> None:
        nonlocal n_left
        n_left -= 1
        now[0] += GRACE_S / 3
        if n_left == 98:
            token.cancel()

    typist.loader.target.before_decode = later
    result = typist.completer.complete(request_at("third = 3\n¦"), token).result(WAIT_S)
    assert result.generated.finish_reason == "cancelled"
    assert 3 <= 100 - n_left <= 7


# --- prefetch -------------------------------------------------------------------------------------

PREFETCHING = Settings(mode="chain", persist=False, multiline="always", max_lines=2)


def test_what_follows_a_suggestion_on_screen_is_there_when_it_is_taken(make):
    typist = make(PREFETCHING)
    first = typist.ask("¦")
    typist.completer.shown(first.generated.completion_id)
    until(lambda: typist.completer.statistics().n_prefetches == 1)
    stats = typist.completer.statistics()
    assert stats.prefetch.n_predicted > 0
    assert stats.totals.n_predicted == first.stats.n_predicted
    typist.completer.shown(typist.ask("fir¦").generated.completion_id)  # known what follows
    after = typist.ask(first.generated.text + "¦")
    assert (after.generated.text, after.source) == ("\nthird = 3\nupper = 4", "memory")
    typist.ask(first.generated.text + "\n¦")
    typist.completer.wait_idle(WAIT_S)
    stats = typist.completer.statistics()
    assert (stats.n_prefetches, stats.n_prefetches_used) == (1, 1)
    assert stats.latency["answer"].n == 2  # the two suggestions, and nothing for their rests
    typist.completer.shown(after.generated.completion_id)
    until(lambda: typist.completer.statistics().n_prefetches == 2)


def test_nothing_is_prefetched_on_battery(make, monkeypatch):
    monkeypatch.setattr("psutil.sensors_battery", lambda: SimpleNamespace(power_plugged=False))
    typist = make(PREFETCHING)
    first = typist.ask("¦")
    typist.completer.shown(first.generated.completion_id)
    assert typist.completer.wait_idle(WAIT_S)
    assert typist.completer.statistics().n_prefetches == 0
    assert typist.ask(first.generated.text + "¦").source == "model"


def test_a_real_request_ends_a_prefetch_within_one_decode(make):
    # Without drafts each decode gives one token.
    typist = make(dataclasses.replace(PREFETCHING, speculation=False))
    first = typist.ask("¦")
    reached = typist.hold_up_at(4)
    typist.completer.shown(first.generated.completion_id)
    assert reached.wait(WAIT_S)
    n_decodes = typist.n_decodes
    second = typist.start("third¦")
    typist.go_on()
    result = second.result(WAIT_S)
    assert result.generated.text.startswith(" = 3")
    assert typist.n_decodes - n_decodes <= 1 + result.stats.n_target_passes + 1
    stats = typist.completer.statistics()
    assert (stats.n_prefetches, stats.prefetch.n_predicted) == (1, 4)
    assert typist.ask(TWO_LINES + "¦").source == "model"  # what was broken off is not kept


def test_the_request_that_a_prefetch_is_made_for_waits_for_it(make):
    typist = make(PREFETCHING)
    first = typist.ask("¦")
    reached = typist.hold_up_at(4)
    typist.completer.shown(first.generated.completion_id)
    assert reached.wait(WAIT_S)
    after = typist.start(TWO_LINES + "\n¦")
    assert typist.completer.debounce_ms(request_at(TWO_LINES + "\nt¦")) == 0
    typist.go_on()
    result = after.result(WAIT_S)
    assert result.generated.text == "third = 3\nupper = 4"
    stats = typist.completer.statistics()
    assert (stats.n_prefetches, stats.n_coalesced) == (0, 1)
    assert stats.totals.n_predicted == first.stats.n_predicted + result.stats.n_predicted


@pytest.mark.parametrize(
    "switch", [{"idle_work": "prompts"}, {"idle_work": "never"}, {"suggestion_memory": False}]
)
def test_prefetch_can_be_switched_off(make, switch):
    settings = Settings(persist=False, multiline="always", **switch)
    typist = make(settings)
    typist.completer.shown(typist.ask("¦").generated.completion_id)
    typist.completer.wait_idle(WAIT_S)
    assert typist.completer.statistics().n_prefetches == 0


def test_a_prefetch_that_fails_is_logged_and_no_more(make):
    typist = make(PREFETCHING)
    first = typist.ask("¦")
    typist.loader.target.before_decode = Mock(side_effect=DecodeError("llama_decode returned -3."))
    typist.completer.shown(first.generated.completion_id)
    typist.completer.wait_idle(WAIT_S)
    typist.go_on()
    assert typist.completer.statistics().n_failed == 0
    assert typist.ask("x¦").source == "model"


# --- filters --------------------------------------------------------------------------------------


def test_inside_a_word_the_model_is_asked_by_hand_only(make):
    typist = make()
    n_decodes = typist.n_decodes
    result = typist.ask("fi¦rst")
    assert (result.generated.text, result.source) == ("", "filter")
    assert typist.n_decodes == n_decodes
    assert typist.ask("fi¦rst", trigger="invoked").source == "model"
    assert typist.ask("fi¦rst", origin="program").source == "model"
    assert typist.ask("fi¦ rst").source == "model"
    assert typist.ask("# 中¦文").source == "model"
    assert typist.completer.statistics().n_filtered == 1


def test_what_was_typed_against_twice_is_not_shown_a_third_time(make):
    typist = make()
    for _ in range(2):
        shown = typist.ask("¦")
        assert shown.generated.text == TWO_LINES
        typist.completer.shown(shown.generated.completion_id)
        typist.ask("q¦")
    held_back = typist.ask("¦")
    assert (held_back.generated.text, held_back.source) == ("", "filter")
    assert typist.ask("¦", trigger="invoked").generated.text == TWO_LINES


def test_the_models_answer_is_held_back_too(make):
    now = [0.0]
    typist = make(clock=lambda: now[0])
    for _ in range(2):
        typist.completer.shown(typist.ask("¦").generated.completion_id)
        typist.ask("q¦")
        now[0] += 1000.0  # too long ago to be remembered
    held_back = typist.ask("¦")
    assert (held_back.generated.text, held_back.source) == ("", "filter")
    assert held_back.stats.n_target_passes > 0
    typist.completer.accepted(typist.ask("¦", trigger="invoked").generated.completion_id)
    assert typist.ask("¦").generated.text == TWO_LINES


# --- waiting --------------------------------------------------------------------------------------


NEVER_MS = 3_600_000
"""A wait that no test outlives."""


async def asked(typist: Typist, text: str) -> CompletionResult:
    """Ask as an editor does: with the wait for the next keystroke."""
    request = typist.completer.brought_to(request_at(text))
    return await typist.completer.window.complete(request, CancellationToken())


async def queued(typist: Typist, text: str) -> asyncio.Future[CompletionResult]:
    """Ask, and return when the engine has the request."""
    asking = asyncio.ensure_future(asked(typist, text))
    await asyncio.sleep(0)
    return asking


def test_who_types_what_is_being_generated_does_not_wait(make):
    typist = make(dataclasses.replace(TYPING, debounce_ms=NEVER_MS))
    typist.hold_at(6)  # "first" is there

    async def ask() -> CompletionResult:
        asking = await queued(typist, "f¦")
        typist.go_on()
        return await asking

    assert asyncio.run(ask()).generated.text == TWO_LINES[1:]


def test_who_waits_stops_what_cannot_answer_and_is_superseded_by_the_next_key(make):
    typist = make(dataclasses.replace(TYPING, debounce_ms=NEVER_MS))
    first = typist.hold_at(6)
    n_decodes = typist.n_decodes

    async def ask() -> None:
        waiting = await queued(typist, "x¦")
        typist.go_on()
        assert first.result(WAIT_S).generated.finish_reason == "cancelled"
        assert typist.n_decodes - n_decodes <= 1
        newer = await queued(typist, "y¦")
        assert (await waiting).generated.finish_reason == "cancelled"
        typist.completer.wait_idle(0)
        assert not newer.done()
        newest = typist.completer.complete(request_at("z¦", trigger="invoked"), CancellationToken())
        assert (await newer).generated.finish_reason == "cancelled"
        assert newest.result(WAIT_S).generated.finish_reason == "stop"

    asyncio.run(ask())


def test_one_that_waited_is_decoded_while_another_document_is(make):
    """The engine looks for it between two decodes."""
    typist = make(dataclasses.replace(TYPING, debounce_ms=20, n_predict=256, max_lines=0))
    others = typist.hold_at(2, "¦", uri="file:///other.py", trigger="invoked")

    async def ask() -> CompletionResult:
        asking = await queued(typist, "¦")
        until(lambda: typist.completer._engine.thread._queue._due_at() < time.monotonic())
        typist.go_on()
        return await asking

    assert asyncio.run(ask()).generated.text
    assert others.result(WAIT_S).generated.text


def test_the_time_to_an_answer_begins_with_the_request_and_counts_the_wait(make):
    now = [0.0]
    typist = make(dataclasses.replace(TYPING, debounce_ms=20), clock=lambda: now[0])
    window = typist.completer.window

    async def ask() -> None:
        request = typist.completer.brought_to(request_at("¦"))
        asking = asyncio.ensure_future(window.complete(request, CancellationToken()))
        await asyncio.sleep(0)
        now[0] = 3.0  # while it waits for the next key
        assert (await asking).generated.text == TWO_LINES

    asyncio.run(ask())
    stats = typist.completer.statistics()
    assert stats.answer_ms == (3000.0,)
    assert stats.latency["answer"].p50 == 3000.0


def test_how_long_to_wait_is_a_setting_and_follows_the_model(make):
    now = [0.0]
    typist = make(Settings(mode="chain", persist=False, multiline="always"), clock=lambda: now[0])

    def slow() -> None:
        now[0] += 1.0

    typist.loader.target.before_decode = slow
    where = request_at("second = 2\n¦")
    assert typist.completer.debounce_ms(where) == 0
    for n in range(4):
        typist.ask(f"{n}\n¦")
    assert typist.completer.debounce_ms(where) == 150
    assert typist.completer.debounce_ms(request_at("¦", trigger="invoked")) == 0
    assert typist.completer.debounce_ms(request_at("¦", origin="program")) == 0
    assert typist.completer.debounce_ms(request_at("¦", overrides={"debounce_ms": 7})) == 7
