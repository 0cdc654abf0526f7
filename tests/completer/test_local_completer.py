"""The in-process completer with a scripted model: who is served, when, and what may go wrong."""

import dataclasses
import traceback
from concurrent.futures import Future
from dataclasses import replace
from unittest.mock import Mock
from urllib.parse import unquote

import pytest
import typed_requests
from scripted_models import ScriptedLoader
from typed_requests import TypedWindow, document_of, request_between, typed_completer
from waiting import until

from speclsp.completer import loaded_models, local
from speclsp.completer.engine import Engine
from speclsp.completer.local import LocalCompleter
from speclsp.errors import DecodeError, EngineError, EngineUnavailableError, ModelNotFoundError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.seam.events import Event, LogLine, Problem, Progress, StateChanged
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore

WAIT_S = 60


@pytest.fixture
def make(closed):
    def make_completer(loader, settings=None, **more):
        # Each request is to reach the model here; what needs none has tests of its own.
        settings = dataclasses.replace(
            settings or Settings(mode="chain", persist=False), suggestion_memory=False
        )
        completer = closed(typed_completer(settings, loader=loader, **more))
        completer.start()
        return completer

    return make_completer


def ready(completer: TypedWindow) -> TypedWindow:
    until(lambda: completer.state() == "ready")
    return completer


def request(uri: str = "file:///p/a.py", prefix: str = "def f():\n", **fields):
    return request_between(
        uri=uri,
        file=unquote(uri.removeprefix("file://")) if uri.startswith("file://") else "",
        prefix=prefix,
        language_id="python",
        **fields,
    )


def ask(completer: TypedWindow, **fields) -> Future[CompletionResult]:
    return completer.complete(request(**fields), CancellationToken())


def events(completer: TypedWindow) -> list[Event]:
    seen = []
    while (event := completer.next_event(0.5)) is not None:
        seen.append(event)
    return seen


@pytest.fixture
def completer(make):
    return ready(make(ScriptedLoader("return 1")))


def test_a_request_gets_the_models_text(completer):
    result = ask(completer).result(WAIT_S)
    assert (result.generated.text, result.generated.finish_reason) == ("return 1", "stop")
    assert result.stats.n_prompt == result.stats.n_prompt_evaluated > 0
    assert result.stats.ms_total >= result.stats.ms_queue


def test_the_next_keystroke_evaluates_only_what_changed(completer):
    first = ask(completer).result(WAIT_S)
    second = ask(completer, prefix="def f():\nre").result(WAIT_S)
    assert second.generated.text == "turn 1"
    assert second.stats.n_prompt == first.stats.n_prompt + 2  # bytes need no healing
    assert second.stats.n_prompt_evaluated <= 1


def test_what_was_typed_last_is_said_again_and_not_shown(completer):
    for typed in ("    ", "  ", "    return", "    re", "    return 1"):
        result = ask(completer, prefix=f"def f():\n{typed}").result(WAIT_S)
        assert typed.strip(" ") + result.generated.text == "return 1"


def test_without_healing_the_prompt_ends_at_the_cursor(make):
    plain = Settings(mode="chain", persist=False, suggestion_memory=False, n_context=0)
    lengths = []
    for healing in (True, False):
        completer = ready(make(ScriptedLoader("return 1"), replace(plain, healing=healing)))
        result = ask(completer, prefix="def f():\n    ").result(WAIT_S)
        assert result.generated.text == "return 1"
        lengths.append(result.stats.n_prompt)
    assert lengths[1] - lengths[0] == len("    ")


@pytest.mark.parametrize(("multiline", "n_lines"), [("auto", 1), ("always", 2)])
def test_drafts_end_with_the_line_where_the_completion_does(make, multiline, n_lines):
    lines = ["value = compute(first)\n", "other = compute(second)\n"]
    settings = Settings(mode="chain", persist=False, multiline=multiline)
    text = "".join(lines).removeprefix("value = ")
    completer = ready(make(ScriptedLoader(text), settings))
    result = ask(completer, prefix="".join([*lines, "\n", "value = "])).result(WAIT_S)
    assert result.generated.text == "".join(lines[:n_lines]).removeprefix("value = ").rstrip("\n")
    n_accepted, n_drafted = result.stats.n_accepted, result.stats.n_drafted
    assert n_accepted > 10 * n_lines
    assert (n_drafted == n_accepted) == (n_lines == 1)


def test_loading_is_told_and_answered_at_once(make):
    loader = ScriptedLoader()
    loader.gate.clear()
    completer = make(loader)
    with pytest.raises(EngineUnavailableError, match="loading"):
        ask(completer).result(WAIT_S)
    patient = ask(completer, wait_for_model=True)
    assert not patient.done()
    loader.gate.set()
    assert patient.result(WAIT_S).generated.text == "return 1"
    stats = completer.statistics()
    assert (stats.n_requests, stats.n_completions, stats.n_empty) == (2, 1, 1)
    told = events(completer)
    assert [e.stage for e in told if isinstance(e, Progress) and e.token == "speclsp/load"] == [
        "begin", "report", "end",
    ]  # fmt: skip
    assert [e.state for e in told if isinstance(e, StateChanged)] == ["ready"]


def test_a_model_that_cannot_be_loaded_is_one_problem_with_its_remedy(make):
    """Each time an exception is raised its traceback gets longer, and keeps the frames' texts."""
    loader = ScriptedLoader()
    loader.error = ModelNotFoundError("no model at /x.gguf.", remedy="Give --model a path.")
    completer = make(loader)
    with pytest.raises(ModelNotFoundError):
        ask(completer, wait_for_model=True).result(WAIT_S)
    # Across a socket the answers overtake the state.
    until(lambda: completer.state() == "failed")
    lengths = set()
    for _ in range(9):
        with pytest.raises(ModelNotFoundError) as raised:
            ask(completer).result(WAIT_S)
        lengths.add(len(traceback.extract_tb(raised.tb)))
    assert len(lengths) == 1
    problems = [e for e in events(completer) if isinstance(e, Problem)]
    assert problems == [Problem(message="no model at /x.gguf.", remedy="Give --model a path.")]
    loader.error = None
    completer.apply_settings(Settings(mode="chain", persist=False, model="/y.gguf"))
    assert ask(ready(completer)).result(WAIT_S).generated.text == "return 1"


def test_an_unforeseen_error_while_loading_is_a_problem_too(make):
    loader = ScriptedLoader()
    loader.error = ZeroDivisionError("oops")
    completer = make(loader)
    until(lambda: completer.state() == "failed")
    (problem,) = [e for e in events(completer) if isinstance(e, Problem)]
    assert "ZeroDivisionError" in problem.message


def test_what_the_draft_model_lacks_is_told_and_the_rest_goes_on(make):
    loader = ScriptedLoader()
    loader.problems = [EngineError("the draft model differs at token 7.")]
    completer = ready(make(loader))
    assert ask(completer).result(WAIT_S).generated.text == "return 1"
    assert [e.message for e in events(completer) if isinstance(e, Problem)] == [
        "the draft model differs at token 7."
    ]


@pytest.fixture
def loader():
    return ScriptedLoader("return 1")


def test_a_newer_request_supersedes_running_and_waiting_ones_of_its_document(make, loader):
    completer = ready(make(loader))
    loader.target.gate.clear()
    running = ask(completer)
    assert loader.target.decoding.wait(WAIT_S)
    waiting = ask(completer)
    newest = ask(completer)
    assert waiting.result(WAIT_S).generated.finish_reason == "cancelled"
    loader.target.gate.set()
    assert running.result(WAIT_S).generated.finish_reason == "cancelled"
    assert newest.result(WAIT_S).generated.text == "return 1"


def test_documents_take_turns(make, loader):
    completer = ready(make(loader))
    loader.target.gate.clear()
    loader.target.decoding.clear()
    ask(completer, uri="file:///p/busy.py", origin="program")
    # While it runs, all others come to wait.
    assert loader.target.decoding.wait(WAIT_S)
    order: list[tuple[str, str]] = []
    for name in ("a1", "a2", "a3", "b1"):
        asked = ask(completer, uri=f"file:///p/{name[0]}.py", origin="program")
        asked.add_done_callback(
            lambda done, name=name: order.append((name, done.result().generated.text))
        )
    assert not completer.wait_idle(0.1)  # the answer comes behind all requests
    loader.target.gate.set()
    until(lambda: len(order) == 4)
    assert order == [(name, "return 1") for name in ("a1", "b1", "a2", "a3")]


def test_cancelling_returns_what_is_finished(make, monkeypatch, loader):
    completer = ready(make(loader))
    token = CancellationToken()
    n_decodes = 0
    cancelled: list[CancellationToken] = []
    cancel = CancellationToken.cancel

    def noted(token, **options):
        cancel(token, **options)
        cancelled.append(token)

    monkeypatch.setattr(CancellationToken, "cancel", noted)

    def cancel_at_the_third():
        nonlocal n_decodes
        n_decodes += 1
        if n_decodes == 3:
            token.cancel()
            # Across a socket the engine has a token of its own.
            until(lambda: len(cancelled) == 1 + typed_requests.is_across_socket)

    loader.target.before_decode = cancel_at_the_third
    result = completer.complete(request(), token).result(WAIT_S)
    assert (result.generated.text, result.generated.finish_reason) == ("ret", "cancelled")


def taking_a_second(make, loader):
    """A completer each of whose passes takes a second by its clock."""
    now = [0.0]
    completer = ready(make(loader, clock=lambda: now[0]))

    def a_second_later():
        now[0] += 1.0

    loader.target.before_decode = a_second_later
    return completer


def test_a_deadline_bounds_a_request_from_the_moment_it_was_made(make, loader):
    completer = taking_a_second(make, loader)
    result = ask(completer, deadline_ms=3500).result(WAIT_S)
    assert (result.generated.text, result.generated.finish_reason) == ("retu", "deadline")
    assert completer.statistics().why_nothing == ""
    assert result.stats.n_target_passes == 4


def test_nothing_at_the_deadline_is_said_to_be_too_slow(make, loader):
    completer = taking_a_second(make, loader)
    result = ask(completer, prefix="x = 1\n" * 400, deadline_ms=500).result(WAIT_S)
    assert (result.generated.text, result.generated.finish_reason) == ("", "deadline")
    assert completer.statistics().why_nothing == "too slow (nothing in 0.5 s)"


def asked_while_worth_it(completer, **fields):
    """The results of a request that is repeated as the editors do."""
    plain, results = completer.brought_to(request(**fields)), []
    while True:
        results.append(completer.window.ask(plain, CancellationToken()).result(WAIT_S))
        if not completer.window.note_late(plain, results[-1]):
            return results


def test_a_prompt_that_takes_several_deadlines_is_worth_repeating(make, loader):
    completer = taking_a_second(make, loader)
    loader.target.n_ubatch = 8
    *late, last = asked_while_worth_it(completer, prefix="x = 1\n" * 400, deadline_ms=6500)
    assert [(one.generated.text, one.stats.n_prompt_evaluated) for one in late] == [("", 56)] * 2
    assert last.generated.text.startswith("r")
    assert last.stats.n_prompt_evaluated == last.stats.n_prompt - 2 * 56


def test_a_failed_decode_fails_its_request_only(make, loader):
    completer = ready(make(loader))
    loader.target.before_decode = Mock(side_effect=DecodeError("llama_decode returned -3."))
    with pytest.raises(DecodeError):
        ask(completer).result(WAIT_S)
    loader.target.before_decode = lambda: None
    assert ask(completer).result(WAIT_S).generated.text == "return 1"
    assert completer.statistics().n_failed == 1


def test_an_engine_that_goes_on_failing_is_loaded_anew_and_told_once(make, loader):
    completer = ready(make(loader))
    loader.target.before_decode = Mock(side_effect=ZeroDivisionError)
    for _ in range(3):
        with pytest.raises(EngineError):
            ask(completer).result(WAIT_S)
    until(lambda: len(loader.targets) == 2)
    # Its state may still be that of the first weights.
    assert ask(ready(completer), wait_for_model=True).result(WAIT_S).generated.text == "return 1"
    assert loader.targets[0].closed
    assert len([e for e in events(completer) if isinstance(e, Problem)]) == 1


def test_an_engine_whose_thread_could_not_start_starts_for_the_next_window(monkeypatch):
    engine = Engine(Settings(persist=False), loader=ScriptedLoader("return 1"))
    first, other = (LocalCompleter(Settings(persist=False), engine=engine) for _ in range(2))
    with monkeypatch.context() as limited:
        limited.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("no more threads")))
        with pytest.raises(RuntimeError):
            first.start()
    other.start()
    until(lambda: other.state() == "ready", within_s=WAIT_S)
    for window in (first, other):
        window.close()
    engine.close()


def test_drafters_that_cannot_be_made_for_a_window_fail_its_request_only(monkeypatch):
    engine = Engine(Settings(persist=False), loader=ScriptedLoader("return 1"))
    first, other = (
        LocalCompleter(Settings(persist=False, drafters=drafters), engine=engine)
        for drafters in ("suffix", "prompt-lookup")
    )
    first.start()
    until(lambda: first.state() == "ready")
    made = loaded_models.make_proposer
    assert first.wait_idle(WAIT_S)  # the settings of the newest window are in effect
    monkeypatch.setattr(loaded_models, "make_proposer", Mock(side_effect=ZeroDivisionError("boo")))
    for number, window in enumerate((first, other)):
        placed = request(f"file:///p/{number}.py")
        window.open_document(document_of(placed.text, uri=placed.uri))
    asked = [CompletionRequest(uri=f"file:///p/{n}.py", version=1, offset=0) for n in (0, 1)]
    with pytest.raises(EngineError, match="boo"):
        first.submit(asked[0], CancellationToken()).result(WAIT_S)
    monkeypatch.setattr(loaded_models, "make_proposer", made)
    assert (
        other.submit(asked[1], CancellationToken()).result(WAIT_S).generated.finish_reason == "stop"
    )
    for window in (first, other):
        window.close()
    engine.close()


def test_an_explanation_that_fails_is_an_error(make, monkeypatch):
    monkeypatch.setattr(local, "explain_prompt", Mock(side_effect=ZeroDivisionError("boo")))
    completer = ready(make(ScriptedLoader("return 1")))
    with pytest.raises(EngineError, match="boo"):
        completer.explain(request()).result(WAIT_S)


@pytest.mark.slow
def test_idle_time_frees_the_weights_and_a_request_brings_them_back(make, loader):
    completer = ready(make(loader, Settings(mode="chain", persist=False, sleep_idle_seconds=1)))
    until(lambda: completer.state() == "unloaded")
    assert loader.targets[0].closed
    with pytest.raises(EngineUnavailableError):
        ask(completer).result(WAIT_S)
    assert ask(ready(completer)).result(WAIT_S).generated.text == "return 1"
    assert len(loader.targets) == 2


def test_speculation_that_is_switched_on_later_loads_what_it_needs_once(make, loader):
    off = Settings(persist=False, speculation=False, suggestion_memory=False)
    on = dataclasses.replace(off, speculation=True)
    completer = ready(make(loader, off))
    for settings in (on, off, on):
        completer.apply_settings(settings)
        assert ask(completer, wait_for_model=True).result(WAIT_S).generated.text == "return 1"
    assert len(loader.targets) == 2


def test_settings_take_effect_as_their_scope_says(make, loader):
    completer = ready(make(loader))
    assert completer.apply_settings(Settings(mode="chain", persist=False, n_predict=3)) == ()
    assert ask(completer).result(WAIT_S).generated.text == "ret"
    assert len(loader.targets) == 1
    assert completer.apply_settings(Settings(mode="chain", persist=False, ctx_size=512)) == ()
    until(lambda: len(loader.targets) == 2)
    assert completer.apply_settings(Settings(mode="chain", persist=True, ctx_size=512)) == (
        "persist",
    )


def test_closing_answers_what_still_waits(make):
    loader = ScriptedLoader()
    loader.gate.clear()
    completer = make(loader)
    patient = ask(completer, wait_for_model=True)
    loader.gate.set()
    completer.close()
    assert patient.done()
    with pytest.raises(EngineUnavailableError):
        ask(completer, wait_for_model=True).result(WAIT_S)
    until(lambda: completer.next_event(0.01) is None)


def test_statistics_add_up(completer):
    results = [ask(completer).result(WAIT_S) for _ in range(3)]
    completer.shown(results[0].generated.completion_id)
    completer.accepted(results[0].generated.completion_id)
    completer.shown("unknown")
    stats = completer.statistics()
    assert (stats.n_requests, stats.n_completions, stats.n_shown) == (3, 3, 1)
    assert (stats.n_accepted_items, stats.n_chars_accepted) == (1, len("return 1"))
    assert stats.totals.n_predicted == sum(r.stats.n_predicted for r in results)
    assert stats.totals.n_prompt_evaluated == sum(r.stats.n_prompt_evaluated for r in results)
    assert stats.latency["total"].n == 3
    assert (stats.model, stats.layers, stats.state) == ("scripted model", {"scripted": 3}, "ready")


def test_what_was_accepted_is_drafted_next_time(make, tmp_path):
    loader = ScriptedLoader("return self.total_amount_of_everything")
    # In mode auto drafting would rest, since a scripted model takes no time.
    settings = Settings(persist=True, mode="chain")
    completer = ready(make(loader, settings))
    root = tmp_path / "project"
    root.mkdir()
    completer.open_folder(WorkspaceFolder(root=str(root), name="project"))
    uri = (root / "a.py").as_uri()
    first = ask(completer, uri=uri, prefix="def f():\n    ").result(WAIT_S)
    assert first.stats.n_accepted <= 1
    completer.accepted(first.generated.completion_id)
    next_line = f"def f():\n    {first.generated.text}\n"
    ask(completer, uri=uri, prefix=next_line).result(WAIT_S)
    until(lambda: AcceptedStore.open().recent(str(root), 9))
    assert completer.wait_idle(WAIT_S)
    second = ask(completer, uri=uri, prefix="def f():\n    ").result(WAIT_S)
    assert second.generated.text == first.generated.text
    assert second.stats.n_accepted > 10
    completer.accepted(second.generated.completion_id)
    ask(completer, uri=uri, prefix=next_line).result(WAIT_S)
    completer.close()  # writes what was still waiting
    again = ready(make(ScriptedLoader(loader.text), settings))
    again.open_folder(WorkspaceFolder(root=str(root), name="project"))
    third = ask(again, uri=uri, prefix="def f():\n    ").result(WAIT_S)
    assert third.stats.n_accepted > 10
    assert len(AcceptedStore.open().recent(str(root), 9)) == 2


def test_other_buffers_and_project_files_are_drafted_from(make, tmp_path):
    text = "return self.total_amount_of_everything"
    completer = ready(make(ScriptedLoader(text)))
    other = document_of(
        f"def g():\n    {text}\n", uri="untitled:2", path="b.py", language_id="python"
    )
    completer.open_document(other)
    assert ask(completer).result(WAIT_S).stats.n_accepted > 10
    # One that has generated nothing, which it would draft from as well.
    completer = ready(make(ScriptedLoader(text)))
    completer.open_document(other)
    completer.close_document("untitled:2")
    assert ask(completer).result(WAIT_S).stats.n_accepted <= 1
    assert ask(completer).result(WAIT_S).stats.n_accepted > 10
    completer = ready(make(ScriptedLoader(text)))
    (tmp_path / "c.py").write_text(other.text)
    completer.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    until(lambda: completer.statistics().index.n_tokens > 0)
    assert ask(completer).result(WAIT_S).stats.n_accepted > 10


def test_what_was_deleted_is_drafted_from(make):
    text = "return self.total_amount_of_everything"
    completer = ready(make(ScriptedLoader(text)))
    completer.open_document(
        document_of(f"def f():\n    {text}\n", file="/p/a.py", repo_name="p", language_id="python")
    )
    assert ask(completer, prefix="def f():\n    ").result(WAIT_S).stats.n_accepted > 10


def test_a_secret_buffer_is_not_drafted_from_and_what_is_accepted_there_not_kept(make, tmp_path):
    text = "return self.total_amount_of_everything"
    completer = ready(make(ScriptedLoader(text), Settings(mode="chain", persist=True)))
    secret = document_of(f"def g():\n    {text}\n", uri="file:///p/.env", path=".env")
    completer.open_document(secret)
    assert ask(completer).result(WAIT_S).stats.n_accepted <= 1
    inside = request_between(uri=secret.uri, path=".env", prefix="A=")
    completer.accepted(
        completer.complete(inside, CancellationToken()).result(WAIT_S).generated.completion_id
    )
    completer.close()
    for path in (p for p in tmp_path.rglob("*") if p.is_file()):
        assert b"total_amount" not in path.read_bytes()


def test_nothing_is_written_where_persist_is_off(tmp_path, completer):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "c.py").write_text("x = 1\n")
    completer.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
    until(lambda: completer.statistics().index.n_files == 1)
    completer.accepted(ask(completer).result(WAIT_S).generated.completion_id)
    completer.close()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["c.py", "p"]


def test_switching_off_frees_the_weights_as_the_log_says(make, loader):
    completer = ready(make(loader))
    completer.apply_settings(Settings(mode="chain", persist=False, enabled=False))
    until(lambda: completer.state() == "off")
    assert loader.targets[0].closed
    assert any(isinstance(e, LogLine) and "freed" in e.message for e in events(completer))


def test_an_acceptance_in_parts_is_learned_once_and_whole(make, tmp_path):
    text = "return self.total_amount_of_everything"
    completer = ready(make(ScriptedLoader(text), Settings(persist=True)))
    first = ask(completer).result(WAIT_S)
    completer.accepted(first.generated.completion_id, 6)
    completer.accepted(first.generated.completion_id, 11)
    completer.accepted(first.generated.completion_id)
    completer.accepted(first.generated.completion_id)
    ask(completer, prefix=f"def f():\n{text}\n").result(WAIT_S)
    second = ask(completer).result(WAIT_S)
    completer.accepted(second.generated.completion_id, 6)
    ask(completer, prefix=f"def f():\n{text[:6]}\n").result(WAIT_S)
    completer.close()  # nothing more comes of the second one
    kept = [kept.text for kept in AcceptedStore.open().recent("", 9)]
    assert kept == ["def f():\n" + text, "def f():\n" + text[:6]]


def test_a_folders_settings_hold_for_its_requests(make):
    languages = {"python": {"max_lines": 1}}
    completer = ready(make(ScriptedLoader("return 1"), Settings(persist=False)))
    assert ask(completer, overrides={"n_predict": 3}).result(WAIT_S).generated.text == "ret"
    for off in ({"enabled": False}, {"languages": {"python": {"enabled": False}}}):
        assert ask(completer, overrides=off).result(WAIT_S).generated.text == ""
    overrides = {"languages": languages, "n_predict": 4}
    assert ask(completer, overrides=overrides).result(WAIT_S).generated.text == "retu"


def test_drafters_keep_what_they_learned_where_settings_take_turns(make, monkeypatch):
    made = Mock(side_effect=loaded_models.make_proposer)
    monkeypatch.setattr(loaded_models, "make_proposer", made)
    completer = ready(make(ScriptedLoader("return 1"), Settings(persist=False)))
    for _ in range(3):
        for overrides in ({}, {"mode": "tree"}, {"max_draft": 3}):
            assert ask(completer, overrides=overrides).result(WAIT_S).generated.text == "return 1"
    assert made.call_count == 3
    for n_draft in range(4, 9):
        assert (
            ask(completer, overrides={"max_draft": n_draft}).result(WAIT_S).generated.text
            == "return 1"
        )
    ask(completer).result(WAIT_S)
    assert made.call_count == 9  # not all are kept


class RaisingDrafter:
    name = "raising"

    def begin(self, context) -> None:
        pass

    def draft(self, generated, n_max):
        raise ZeroDivisionError

    def accept(self, n_accepted) -> None:
        pass


@pytest.mark.parametrize("mode", ["first", "chain"])
def test_a_drafter_that_raises_is_reported_once_and_the_rest_goes_on(make, monkeypatch, mode):
    monkeypatch.setattr("speclsp.drafting.registry.load_drafter", lambda *_: RaisingDrafter())
    settings = Settings(persist=False, mode=mode, drafters="raising")
    completer = ready(make(ScriptedLoader("return 1"), settings))
    for _ in range(3):
        assert ask(completer).result(WAIT_S).generated.text == "return 1"
    (problem,) = [e for e in events(completer) if isinstance(e, Problem)]
    assert "raising" in problem.message
    assert "ZeroDivisionError" in problem.message
    assert problem.remedy


def test_a_future_that_is_cancelled_is_answered_all_the_same(completer):
    future = ask(completer)
    assert not future.cancel()
    assert future.result(WAIT_S).generated.text == "return 1"


def large_document(text: str, version: int = 1) -> Document:
    return document_of(
        text, uri="file:///p/large.py", path="large.py", language_id="python", version=version
    )


def test_a_large_text_is_asked_about_once_it_was_looked_through(completer):
    text = "x = 1\n" * 20_000 + "def f():\n"
    completer.open_document(large_document(text))
    asked = ask(completer, uri="file:///p/large.py", prefix=text).result(WAIT_S)
    assert (asked.generated.text, asked.source) == ("return 1", "model")
    assert completer.wait_idle(WAIT_S)
    assert completer.statistics().n_requests == 1
    other = request("file:///p/other.py", prefix="y = 2\n" * 20_000)
    assert not completer.explain(other).result(WAIT_S).refused


def test_a_large_text_that_was_closed_meanwhile_is_not_taken(completer):
    for version in range(3):
        completer.open_document(large_document(f"x = {version}\n" * 20_000, version))
    completer.close_document("file:///p/large.py")
    assert completer.wait_idle(WAIT_S)
    assert ask(completer, uri="file:///p/large.py").result(WAIT_S).generated.text == "return 1"
