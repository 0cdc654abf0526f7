"""A window's completer across a socket: what it sends, answers by itself, and survives."""

import asyncio
import contextlib
import dataclasses
import os
import socket
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from scripted_completer import Asked, ScriptedCompleter
from shared_engine import ThreadedEngine
from waiting import until

from speclsp.engine_process import wire
from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.restarts import MAX_ENDS
from speclsp.engine_process.start import EngineConnection
from speclsp.engine_process.transport import opened
from speclsp.errors import (
    EngineProcessError,
    EngineUnavailableError,
    ModelNotFoundError,
    SpecLspError,
)
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.edit import Change, EditRequest
from speclsp.seam.events import Event, LogLine, Problem, StateChanged
from speclsp.seam.statistics import SessionStats
from speclsp.settings import Settings

WAIT_S = 30
URI = "file:///p/a.py"


class Scripted:
    """Windows on an engine whose completers do as a script says."""

    def __init__(self, log: Path) -> None:
        log.write_text("")
        self.engine = ThreadedEngine(self._make, log)
        self.made: list[ScriptedCompleter] = []
        self.script: Callable[[Asked], None] | None = None
        self.windows: list[SharedCompleter] = []

    def _make(self, settings: Settings) -> ScriptedCompleter:
        self.made.append(ScriptedCompleter(settings, self.script))
        return self.made[-1]

    def unstarted(self, settings: Settings | None = None) -> SharedCompleter:
        self.windows.append(self.engine.window(settings or Settings()))
        return self.windows[-1]

    def window(self, settings: Settings | None = None) -> SharedCompleter:
        window = self.unstarted(settings)
        window.start()
        until(lambda: window._connection)
        return window

    def with_document(self, settings: Settings | None = None) -> SharedCompleter:
        window = self.window(settings)
        window.open_document(document())
        return window

    def settle(self, window: SharedCompleter) -> None:
        """Wait until the engine has taken what the window has sent."""
        mark = ("forget", "mark", ())
        window.forget(*mark[1:])
        until(lambda: mark in self.completer.calls)
        self.completer.calls.remove(mark)

    @property
    def completer(self) -> ScriptedCompleter:
        until(lambda: self.made)
        return self.made[-1]


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    made = Scripted(tmp_path / "engine.log")
    yield made
    for window in made.windows:
        window.close()
    made.engine.close()


@pytest.fixture
def peer() -> Iterator["Peer"]:
    made = Peer()
    yield made
    made.close()


def document(text: str = "x = 1\n", version: int = 1, uri: str = URI) -> Document:
    return Document(uri=uri, path="a.py", language_id="python", version=version, text=text)


def change(
    window: SharedCompleter,
    former: Document,
    version: int,
    edit: TextEdit,
    *hidden: Ranges,
) -> Document:
    changed = former.edited(version, edit)
    window.change_document(changed, edit, *hidden)
    return changed


def request(offset: int = 6, version: int = 1, **fields) -> CompletionRequest:
    return CompletionRequest(uri=URI, version=version, offset=offset, **fields)


def ask(window: SharedCompleter, **fields):
    return window.submit(request(**fields), CancellationToken())


def events_of(window: SharedCompleter) -> list[Event]:
    return [*iter(lambda: window.next_event(0.05), None)]


def leave_open(asked: Asked) -> None:
    pass


def test_what_is_asked_and_answered_crosses_unchanged(scripted):
    window = scripted.window()
    window.open_folder(WorkspaceFolder(root="/p", name="p"))
    window.open_document(document("é = 1\n"))
    change(window, document("é = 1\n"), 2, TextEdit(6, 6, "𝄞 = 2\n"))
    overrides = {"n_predict": 3, "languages": {"python": {"max_lines": 1}}}
    asked = ask(window, version=2, offset=9, overrides=overrides, debounce_ms=7.0)
    result = asked.result(WAIT_S)
    assert (result.generated.text, result.stats.n_prompt) == ("completed", 7)
    asked = scripted.completer.asked[0].request
    assert asked.plain.debounce_ms == 7.0
    assert (asked.text, asked.cursor, asked.plain.overrides) == ("é = 1\n𝄞 = 2\n", 9, overrides)
    window.save_document(URI)
    window.learn(AcceptedText(path="a.py", file="", before="", text="kept"))
    window.forget("name", ((1, 2),))
    window.reindex()
    window.close_document(URI)
    window.close_folder("/p")
    scripted.settle(window)
    assert [call[0] for call in scripted.completer.calls] == [
        "start", "open_folder", "open_document", "change_document", "save_document", "learn",
        "forget", "reindex", "close_document", "close_folder",
    ]  # fmt: skip


def test_a_key_in_a_large_file_sends_less_than_a_kilobyte(scripted):
    window = scripted.window()
    long = document("value = 1\n" * 100_000)
    window.open_document(long)
    ask(window).result(WAIT_S)
    before = window.n_sent
    assert before > 1_000_000
    change(window, long, 2, TextEdit(500_000, 500_000, "v"))
    asked = request(version=2, offset=500_001, completion_id="0" * 32, overrides={"n_predict": 64})
    window.submit(asked, CancellationToken()).result(WAIT_S)
    window.submit(asked, token := CancellationToken())
    token.cancel()
    assert 0 < window.n_sent - before < 1000


def test_an_engines_errors_keep_their_class_and_remedy_and_a_surrogate_is_a_question_mark(scripted):
    scripted.script = lambda asked: asked.future.set_exception(
        ModelNotFoundError("no model.", remedy="Give one.")
    )
    window = scripted.with_document()
    with pytest.raises(ModelNotFoundError, match="no model") as raised:
        ask(window).result(WAIT_S)
    assert raised.value.remedy == "Give one."
    scripted.completer.script = lambda asked: asked.answer("x\udcff")  # UTF-8 cannot encode it
    assert ask(window).result(WAIT_S).generated.text == "x?"


def test_a_cancel_reaches_the_engine(scripted):
    scripted.script = leave_open
    window = scripted.with_document()
    token = CancellationToken()
    window.submit(request(), token)
    until(lambda: scripted.completer.asked)
    asked = scripted.completer.asked[0]
    token.cancel()
    until(lambda: asked.cancel.cancelled)
    assert not asked.cancel.is_for_good
    token.cancel(for_good=True)
    until(lambda: asked.cancel.is_for_good)
    asked.answer("late")


def test_what_a_dead_engine_left_is_answered_empty_and_the_next_one_gets_everything(scripted):
    scripted.script = leave_open
    window = scripted.window()
    window.open_folder(WorkspaceFolder(root="/p", name="p"))
    window.open_document(document())
    change(window, document(), 2, TextEdit(6, 6, "y = 2\n"))
    asked = [ask(window, version=2, origin="program") for _ in range(9)]
    until(lambda: len(scripted.completer.asked) == 9)
    scripted.script = None
    scripted.engine.drop()
    assert {future.result(WAIT_S).generated.finish_reason for future in asked} == {"cancelled"}
    until(lambda: len(scripted.made) == 2 and window._connection)
    assert ask(window, version=2, offset=12).result(WAIT_S).generated.text == "completed"
    assert scripted.completer.documents[f"2:{URI}"].text == "x = 1\ny = 2\n"
    assert scripted.completer.folders == {"/p": "p"}


def test_without_an_engine_requests_fail_at_once_or_wait_and_learned_texts_are_kept(scripted):
    """Each time an exception is raised its traceback gets longer, and keeps the frames' texts."""
    window = scripted.unstarted()
    window.open_document(document())
    window.learn(AcceptedText(path="a.py", file="", before="", text="kept"))
    lengths = set()
    for _ in range(9):
        with pytest.raises(EngineUnavailableError, match="loading") as raised:
            ask(window).result(WAIT_S)
        lengths.add(len(traceback.extract_tb(raised.tb)))
    assert len(lengths) == 1
    patient = ask(window, wait_for_model=True)
    assert not patient.done()
    window.start()
    assert patient.result(WAIT_S).generated.text == "completed"
    assert [accepted.text for accepted in scripted.completer.learned] == ["kept"]


def crash(scripted: Scripted, n_made: int) -> None:
    """Let the engine that was made as the ``n_made``th crash."""
    until(lambda: len(scripted.made) == n_made)
    scripted.engine.drop()


def test_three_ends_without_an_answer_are_one_problem_until_the_settings_change(
    scripted, monkeypatch
):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    window = scripted.with_document(Settings(model="/m/broken.gguf"))
    for n_made in (1, 2, 3):
        crash(scripted, n_made)
    until(lambda: window.state() == "failed")
    assert window._restarts.n_losses == 3
    events = events_of(window)
    (problem,) = [event for event in events if isinstance(event, Problem)]
    assert sum("is started again" in str(event) for event in events) == 2
    assert "broken.gguf" in problem.message
    assert str(scripted.engine.log) in problem.message
    assert problem.remedy
    with pytest.raises(EngineUnavailableError, match=r"broken\.gguf"):
        ask(window, wait_for_model=True).result(WAIT_S)
    assert len(scripted.made) == 3
    window.apply_settings(Settings(model="/m/whole.gguf"))
    until(lambda: window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_without_other_settings_to_come_a_later_request_tries_again(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    window = SharedCompleter(Settings(), scripted.engine.link, gives_up=False)
    scripted.windows.append(window)
    window.start()
    window.open_document(document())
    for n_made in (1, 2, 3):
        crash(scripted, n_made)
    until(lambda: window.state() == "failed")
    assert len(scripted.made) == 3
    assert ask(window, wait_for_model=True).result(WAIT_S).generated.text == "completed"
    (problem,) = [event for event in events_of(window) if isinstance(event, Problem)]
    assert problem.remedy.endswith("a later request tries again.")


def test_an_engine_that_is_lost_while_it_starts_is_tried_three_times(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    lost = []

    def lose() -> None:
        lost.append(1)
        raise ConnectionResetError("it ended the connection")

    scripted.engine.on_link = lose
    window = scripted.unstarted()
    window.start()
    until(lambda: window.state() == "failed")
    assert len(lost) == MAX_ENDS
    window.close()
    problems = [event for event in events_of(window) if isinstance(event, Problem)]
    assert f"ended {MAX_ENDS} times" in str(problems)


def test_an_engine_that_answers_before_it_is_killed_is_started_again_each_time(
    scripted, monkeypatch
):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    window = scripted.with_document()
    for n_made in range(1, 8):
        until(lambda n=n_made: len(scripted.made) == n and window._connection)
        assert ask(window).result(WAIT_S).generated.text == "completed"
        scripted.engine.drop()
    until(lambda: len(scripted.made) == 8 and window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_an_engine_that_ends_in_good_order_is_started_by_the_next_request(scripted):
    window = scripted.with_document()
    assert ask(window).result(WAIT_S).generated.text == "completed"
    scripted.engine.dismiss()
    until(lambda: window.state() == "unloaded")
    assert len(scripted.engine.asked) == 1
    with pytest.raises(EngineUnavailableError):
        ask(window).result(WAIT_S)
    until(lambda: window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_an_engine_that_cannot_be_shared_is_a_problem_and_the_window_goes_on(scripted):
    scripted.engine.on_link = Mock(
        side_effect=EngineProcessError("another user's socket.", remedy="Remove it.")
    )
    window = scripted.unstarted()
    window.open_document(document())
    waiting = ask(window, wait_for_model=True)
    window.start()
    with pytest.raises(EngineProcessError):
        waiting.result(WAIT_S)
    told = "another user's socket. Remove it. speclsp tries again"
    assert window.next_event(WAIT_S) == StateChanged(state="failed", message=f"{told} now.")
    assert window.next_event(WAIT_S) == LogLine(level="warning", message=f"{told} now.")
    assert window.next_event(WAIT_S) == Problem(
        message="another user's socket.", remedy="Remove it."
    )
    # The second attempt comes at once, and the third after a pause.
    assert window.next_event(WAIT_S) == StateChanged(state="failed", message=f"{told} in 1 s.")


def test_an_idle_window_wakes_no_thread(scripted, monkeypatch):
    """The event loop waits for the engine's next message without a limit."""
    window = scripted.window()
    limits = []
    select = window._loop._selector.select
    monkeypatch.setattr(
        window._loop._selector, "select", lambda limit: limits.append(limit) or select(limit)
    )
    window.open_document(document())
    assert ask(window).result(WAIT_S).generated.text == "completed"
    until(lambda: limits and limits[-1] is None)


def test_other_engine_settings_mean_another_engine(scripted):
    window = scripted.with_document()
    assert window.apply_settings(Settings(n_predict=3)) == ()
    until(lambda: scripted.completer.applied)
    assert window.apply_settings(Settings(n_predict=3, ctx_size=512)) == ()
    until(lambda: len(scripted.made) == 2 and window._connection)
    told = StateChanged(state="loading", message="starting the engine of the changed settings")
    assert window.next_event(WAIT_S) == told
    assert scripted.engine.asked[-1].ctx_size == 512
    assert ask(window).result(WAIT_S).generated.text == "completed"
    until(lambda: scripted.made[0].closed)


LOCAL = Settings(model="/own.gguf")
ELSEWHERE = Settings(model="/own.gguf", engine_url="speclsp+unix:///desk.sock")


@pytest.mark.parametrize("does_fail", [False, True], ids=["connects", "fails"])
@pytest.mark.parametrize(("former", "new"), [(LOCAL, ELSEWHERE), (ELSEWHERE, LOCAL)])
def test_an_engine_gets_nothing_if_the_settings_name_another_one_once_it_is_connected(
    scripted, former, new, does_fail
):
    window = scripted.unstarted(former)

    def change() -> None:
        scripted.engine.on_link = lambda: None
        window.apply_settings(new)
        if does_fail:
            raise EngineProcessError("it cannot be started.", remedy="Start it.")

    scripted.engine.on_link = change
    window.open_document(document())
    window.start()
    until(lambda: window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"
    assert scripted.engine.asked == [former, new]
    assert [made.settings.model for made in scripted.made] == ["/own.gguf" * (new is LOCAL)]
    assert not [event for event in events_of(window) if isinstance(event, Problem)]


def test_a_defect_while_it_connects_is_a_problem_and_settings_try_again(scripted):
    scripted.engine.on_link = Mock(side_effect=ValueError("unforeseen"))
    window = scripted.unstarted()
    window.open_document(document())
    window.start()
    until(lambda: window.state() == "failed")
    with pytest.raises(EngineProcessError, match="unforeseen"):
        ask(window).result(WAIT_S)
    scripted.engine.on_link = lambda: None
    window.apply_settings(Settings(n_predict=3))
    until(lambda: window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_a_defect_while_it_connects_to_another_machine_is_tried_again(scripted):
    scripted.engine.on_link = lambda: 1 // 0
    window = scripted.unstarted(ELSEWHERE)
    window.start()
    until(lambda: window.state() == "failed")
    window.close()
    (problem,) = [event for event in events_of(window) if isinstance(event, Problem)]
    assert "settings" not in problem.remedy


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such paths")
def test_an_ignored_file_whose_path_is_no_utf_8_stays_in_the_window(scripted, tmp_path):
    """The engine gets a path with a question mark, where no rules are."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / ".gitignore").write_text("private.py\n")
    window = scripted.window()
    window.open_folder(WorkspaceFolder(root=str(folder), name="p"))
    window.open_document(dataclasses.replace(document(), file=str(folder / "private.py")))
    assert ask(window).result(WAIT_S).source == "filter"
    window.learn(AcceptedText(path="", file=str(folder / "private.py"), before="", text="x"))
    other = dataclasses.replace(document(uri="file:///o"), file=str(folder / "open.py"))
    window.open_document(other)
    private = Change(path="", line=0, old="", new="x\n", file=str(folder / "private.py"))
    shown = dataclasses.replace(private, file=other.file)
    asked = EditRequest(uri=other.uri, version=1, offset=0, changes=(private, shown))
    window.submit(asked, CancellationToken()).result(WAIT_S)
    (request,) = scripted.completer.asked
    assert [change.file for change in request.request.plain.changes] == [f"{tmp_path}/caf?/open.py"]
    masked = dataclasses.replace(document("MASKED\n", 2), file=str(folder / "private.py"))
    window.change_document(masked, TextEdit(0, 5, "MASKED"), ((0, 5),))
    scripted.settle(window)
    assert not {"learn", "forget_secrets"} & {call[0] for call in scripted.completer.calls}
    window.close()
    assert sum("no UTF-8" in str(event) for event in events_of(window)) == 1


def test_a_document_that_becomes_ignored_is_withdrawn_from_another_machine(scripted, tmp_path):
    """Also where secrets are not masked, and where its folder is opened after it."""
    settings = dataclasses.replace(ELSEWHERE, mask_secrets=False)
    window = scripted.window(settings)
    calls = scripted.completer.calls

    def closed_after(step: Callable[[], object]) -> bool:
        """Open the document, and return whether a step and a change close it at the engine."""
        calls.clear()
        file = str(tmp_path / "private.py")
        private = dataclasses.replace(document(), file=file)
        window.open_document(private)
        step()
        change(window, private, 2, TextEdit(6, 6, "password = 1\n"))
        window.save_document(URI)
        scripted.settle(window)
        names = [call[0] for call in calls]
        window.close_document(URI)
        window.close_folder(str(tmp_path))
        scripted.settle(window)
        return names == ["open_document", "close_document"]

    def open_folder() -> None:
        window.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))

    def exclude() -> None:
        open_folder()
        window.apply_settings(dataclasses.replace(settings, exclude=["private.py"]))

    def save_rules() -> None:
        window.apply_settings(settings)
        open_folder()
        ignore.write_text("private.py\n")
        window.save_document("file:///p/.gitignore")

    ignore = tmp_path / ".gitignore"
    assert not closed_after(open_folder)
    assert closed_after(exclude)
    assert closed_after(save_rules)
    assert closed_after(open_folder)


def with_ignored_document(scripted: Scripted, folder: Path) -> tuple[SharedCompleter, Document]:
    """Open a window on an engine elsewhere with a folder and a document that it ignores."""
    (folder / ".gitignore").write_text("private.py\n")
    window = scripted.window(ELSEWHERE)
    window.open_folder(WorkspaceFolder(root=str(folder), name="p"))
    private = dataclasses.replace(document(), file=str(folder / "private.py"))
    window.open_document(private)
    return window, private


def test_an_ignored_document_is_not_sent_to_the_machine_that_the_settings_leave(scripted, tmp_path):
    window, _ = with_ignored_document(scripted, tmp_path)
    assert ask(window).result(WAIT_S).generated.text == ""
    until(lambda: scripted.made)  # the former engine's is the first
    window.apply_settings(LOCAL)
    until(lambda: len(scripted.made) == 2 and window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"
    until(lambda: scripted.made[0].closed)
    assert "open_document" not in [call[0] for call in scripted.made[0].calls]


def test_an_ignored_document_stays_here_if_its_folder_is_closed(scripted, tmp_path):
    window, private = with_ignored_document(scripted, tmp_path)
    window.close_folder(str(tmp_path))
    change(window, private, 2, TextEdit(6, 6, "password = 1\n"))
    assert ask(window, version=2).result(WAIT_S).source == "filter"
    scripted.settle(window)
    assert [call[0] for call in scripted.completer.calls] == ["start"]
    other = dataclasses.replace(private, uri="git:" + URI)
    window.open_document(other)
    window.close_document(other.uri)
    window.close_document(URI)  # as where it becomes too large, or its language changes
    window.open_document(private)
    assert ask(window).result(WAIT_S).source == "filter"
    window.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    (tmp_path / ".gitignore").unlink()
    window.reindex()
    assert ask(window).result(WAIT_S).generated.text == "completed"
    window.close_folder(str(tmp_path))
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_a_request_that_waits_stays_here_if_its_document_becomes_ignored(scripted, tmp_path):
    window = scripted.unstarted(ELSEWHERE)
    window.open_document(dataclasses.replace(document(), file=str(tmp_path / "private.py")))
    waiting = ask(window, wait_for_model=True, settings={"deadline_ms": 100})
    (tmp_path / ".gitignore").write_text("private.py\n")
    window.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    window.start()
    assert waiting.result(WAIT_S).generated.finish_reason == "deadline"
    assert scripted.completer.asked == []


def test_an_engine_elsewhere_that_ends_in_good_order_is_connected_again(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    window = scripted.window(ELSEWHERE)
    assert scripted.completer  # once the engine has it, the engine knows the window
    scripted.engine.dismiss()
    until(lambda: len(scripted.engine.asked) == 2 and window._connection)
    window.open_document(document())
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_an_engine_elsewhere_that_cannot_be_reached_is_told_once(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.01, 0.01, 0.01))
    scripted.engine.on_link = Mock(
        side_effect=EngineProcessError("it cannot be reached.", remedy="Start it.")
    )
    window = scripted.unstarted(ELSEWHERE)
    window.start()
    for n in (2, 4, 6):
        until(lambda n=n: len(scripted.engine.asked) > n)
        window.apply_settings(ELSEWHERE)
    window.close()
    assert len([event for event in events_of(window) if isinstance(event, Problem)]) == 1


def test_a_stopped_engine_leaves_requests_to_their_deadline(scripted):
    scripted.script = leave_open
    window = scripted.with_document()
    result = ask(window, settings={"deadline_ms": 100}).result(WAIT_S)
    assert (result.generated.text, result.generated.finish_reason) == ("", "deadline")
    until(lambda: scripted.completer.asked[0].cancel.is_for_good)


def test_the_longest_deadline_that_may_be_set_ends_no_connection(scripted):
    scripted.script = leave_open
    window = scripted.with_document()
    asked = ask(window, settings={"deadline_ms": 2**31 - 1}, origin="program")
    until(lambda: scripted.completer.asked)
    other = ask(window, settings={"deadline_ms": 100}, origin="program")
    assert other.result(WAIT_S).generated.finish_reason == "deadline"  # the thread goes on
    scripted.completer.asked[0].answer("completed")
    assert asked.result(WAIT_S).generated.text == "completed"
    assert len(scripted.engine.asked) == 1


def test_statistics_are_asked_once_at_a_time(peer):
    peer.window.statistics()
    peer.window.apply_settings(Settings())  # the same; what was asked before is sent then
    n_sent = peer.window.n_sent
    for _ in range(9):
        peer.window.statistics()
    peer.window.apply_settings(Settings())
    assert peer.window.n_sent == n_sent
    peer.send(wire.Statistics(SessionStats(model="m")))
    until(lambda: peer.window.statistics().model == "m")
    until(lambda: peer.window.statistics() and peer.window.n_sent > n_sent)
    peer.send(wire.Statistics(SessionStats(model="next")))
    until(lambda: peer.window.statistics().model == "next")


async def test_a_message_that_the_socket_takes_is_not_copied_to_wait(monkeypatch):
    ours, theirs = socket.socketpair()
    connection = wire.Connection(await opened(ours), wire.OF_ENGINES, max_waiting=1 << 20)
    message = wire.OpenDocument(document("x" * 60_000))
    frame = connection._frame(message)
    monkeypatch.setattr(connection, "_frame", lambda _: frame)
    tracemalloc.start()
    connection.send(message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000
    assert theirs.recv(len(frame), socket.MSG_WAITALL) == frame
    connection.close()
    theirs.close()


async def test_what_the_sockets_do_not_take_at_once_arrives_in_order_both_ways():
    ours, theirs = socket.socketpair()
    window = wire.Connection(await opened(ours), wire.OF_ENGINES, max_waiting=1 << 28)
    engine = wire.Connection(await opened(theirs), wire.OF_WINDOWS, max_waiting=1 << 28)

    async def received(connection: wire.Connection) -> list:
        messages = []
        while (message := await connection.receive()) is not None:
            messages.append(message)
        connection.close()
        return messages

    for number in range(50):
        window.send(wire.OpenDocument(document("x" * 400_000, version=number)))
        engine.send(wire.Failed(number, "EngineError", "y" * 400_000, ""))
    engine.finish()
    window.finish()
    async with asyncio.timeout(WAIT_S):
        of_window, of_engine = await asyncio.gather(received(engine), received(window))
    assert [message.document.version for message in of_window] == [*range(50)]
    assert [message.number for message in of_engine] == [*range(50)]


class Peer:
    """The engine's end of a window's connection, by hand."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        links = iter([ours])

        async def link(_: Settings) -> EngineConnection:
            found = next(links, None)
            if found is None:
                raise EngineProcessError("there is one engine only.")
            return EngineConnection(await opened(found), pid=4242)

        self.window = SharedCompleter(Settings(), link)
        self.window.start()
        until(lambda: self.window._connection)

    def close(self) -> None:
        self.window.close()
        self.socket.close()

    def send(self, *messages: wire.EngineMessage) -> None:
        for message in messages:
            body = msgspec.msgpack.encode(message)
            self.socket.sendall(len(body).to_bytes(4) + body)


def test_an_engine_that_says_nothing_is_reported_until_it_does(monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.client._SILENT_S", 0.01)
    peer = Peer()
    until(lambda: peer.window.state() == "failed")
    state, problem = peer.window.next_event(WAIT_S), peer.window.next_event(WAIT_S)
    assert isinstance(state, StateChanged)
    assert "process 4242, says nothing" in state.message
    assert isinstance(problem, Problem)
    assert "kill -9 4242" in problem.remedy
    peer.send(StateChanged(state="ready", message="m"))
    assert peer.window.next_event(WAIT_S) == StateChanged(state="ready", message="m")
    assert peer.window.state() == "ready"
    peer.close()


def test_closing_waits_half_a_second_at_most_for_an_engine_that_does_not_go_on(monkeypatch, peer):
    waits = []
    wait = asyncio.wait

    async def noted(tasks, *, timeout=None):
        waits.append(timeout)
        return await wait(tasks, timeout=None if timeout is None else 0.0)

    monkeypatch.setattr(asyncio, "wait", noted)
    peer.window.open_document(document("x" * 1_000_000))  # more than the socket takes
    peer.window.close()
    assert waits == [0.5, None]  # the second for tasks that were cancelled


def test_an_engine_that_never_reads_blocks_nobody(monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.client.MAX_WAITING", 1 << 22)
    peer = Peer()
    connection = peer.window._connection
    for n in range(9):
        peer.window.open_document(document("x" * 1_000_000, uri=f"file:///{n}"))
    until(lambda: connection.is_closed)
    peer.close()


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\xc1\xc1",
        b"\x00\x00\x00\x01\x90",
        b"\x00\x00\x00\x05\xdd\xff\xff\xff\xff",
        b"\x00\x01\x00\x00" + b"\x91" * (1 << 16),
    ],
    ids=["too long", "no MessagePack", "no message", "4 G elements", "64 Ki levels"],
)
def test_bytes_that_are_no_message_end_the_connection_with_a_log_line(peer, bytes_sent):
    connection = peer.window._connection
    peer.socket.sendall(bytes_sent)
    until(lambda: connection.is_closed)
    line = peer.window.next_event(WAIT_S)
    assert "message" in line.message


def test_a_document_too_long_for_a_message_leaves_the_others_their_engine(scripted, monkeypatch):
    monkeypatch.setattr(wire, "MAX_FRAME", 10_000)
    monkeypatch.setattr(wire, "MAX_CHARS", 1_000)
    window = scripted.unstarted()
    window.open_document(document())
    long = document("x" * 20_000, uri="file:///p/long.py")
    window.open_document(long)
    window.start()
    until(lambda: window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"
    assert len(scripted.engine.asked) == 1
    change(window, long, 2, TextEdit(0, 0, "x"))
    window.close()
    lines = map(str, events_of(window))
    (line,) = [line for line in lines if "gets no suggestions" in line]  # told once
    assert "20,000" in line
    assert "1,000" in line


def test_paths_and_texts_that_utf_8_cannot_encode_are_sent_with_question_marks(scripted):
    """A workspace folder may be a link to a folder of any name."""
    window = scripted.unstarted()
    window.open_folder(WorkspaceFolder(root="/p", name="p\udcff"))
    window.open_document(document())
    window.open_document(dataclasses.replace(document(uri="file:///q"), repo_name="q\udcff"))
    window.start()
    until(lambda: window._connection)
    assert ask(window).result(WAIT_S).generated.text == "completed"
    asked = CompletionRequest(uri="file:///q", version=1, offset=6)
    assert window.submit(asked, CancellationToken()).result(WAIT_S).generated.text == "completed"
    changed = change(window, document(), 2, TextEdit(0, 0, "\udcff"))
    change(window, changed, 3, TextEdit(0, 0, "y"))
    assert ask(window, version=3, offset=8).result(WAIT_S).generated.text == "completed"
    assert [(a.request.text, a.request.repo_name) for a in scripted.completer.asked] == [
        ("x = 1\n", ""),
        ("x = 1\n", "q?"),
        ("y?x = 1\n", ""),
    ]
    assert window.apply_settings(Settings(lookup_cache_static=["/\udcff"])) == ()
    until(lambda: scripted.completer.applied)
    assert scripted.completer.settings.lookup_cache_static == ["/?"]


def test_an_engine_in_another_folder_gets_the_whole_paths_of_files(scripted, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    window = scripted.window(Settings(lookup_cache_static=["a.bin", "~/b.bin"]))
    whole = [str(tmp_path / "a.bin"), "/home/me/b.bin"]
    assert scripted.completer.settings.lookup_cache_static == whole
    window.apply_settings(Settings(lookup_cache_dynamic=["c.bin"]))
    until(lambda: scripted.completer.applied)
    assert scripted.completer.settings.lookup_cache_dynamic == [str(tmp_path / "c.bin")]


def test_a_window_whose_loop_hangs_closes_and_its_requests_end(scripted, monkeypatch):
    window = SharedCompleter(Settings(), scripted.engine.link)
    window.open_document(document())
    waiting = ask(window, wait_for_model=True)
    goes_on = threading.Event()
    monkeypatch.setattr("speclsp.engine_process.client._CLOSE_S", 0.01)
    monkeypatch.setattr(window._documents, "renew_rules", lambda: goes_on.wait(WAIT_S))
    window.reindex()
    window.close()
    assert not waiting.done()
    goes_on.set()
    with pytest.raises(EngineUnavailableError, match="shutting down"):
        waiting.result(WAIT_S)


def test_a_request_that_cannot_be_sent_fails(scripted):
    window = scripted.with_document()
    for wrong in (object(), 10**30):
        with pytest.raises(SpecLspError, match="cannot be sent"):
            ask(window, overrides={"n_predict": wrong}).result(WAIT_S)
    assert ask(window).result(WAIT_S).generated.text == "completed"


def test_an_engine_that_answers_while_the_window_closes_gets_nothing(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.client._CLOSE_S", 0.05)
    window = SharedCompleter(Settings(), scripted.engine.link)
    window.open_document(document())
    closing = threading.Thread(target=window.close)
    scripted.engine.on_link = lambda: closing.start() or closing.join(WAIT_S)
    window.start()
    until(lambda: closing.ident is not None)
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert scripted.engine.served == scripted.made == []


def test_a_folder_that_fails_leaves_its_window_in(scripted, monkeypatch):
    """The window would hand it over again and again, to be dropped each time."""
    monkeypatch.setattr(
        ScriptedCompleter, "open_folder", Mock(side_effect=ValueError("embedded null byte"))
    )
    window = scripted.window()
    window.open_folder(WorkspaceFolder(root="/p", name="p"))
    window.open_document(document())
    assert ask(window).result(WAIT_S).generated.text == "completed"
    assert len(scripted.engine.asked) == 1
    until(lambda: isinstance(event := window.next_event(WAIT_S), Problem) and "null" in str(event))


def test_a_defect_that_ends_a_windows_service_counts_as_an_end_of_the_engine(scripted, monkeypatch):
    """The window would connect again and again; it gives up after three."""
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    window = scripted.with_document()
    assert ask(window).result(WAIT_S).generated.text == "completed"
    monkeypatch.setattr(
        ScriptedCompleter, "save_document", Mock(side_effect=ValueError("a defect"))
    )
    told: list[str] = []
    for n_dropped in range(1, MAX_ENDS + 1):
        until(lambda n=n_dropped: len(scripted.made) == n)
        window.save_document("file:///p/a.py")
        until(lambda: said(window, told, "the engine process ended"))
    assert window.state() == "failed"
    assert f"ended {MAX_ENDS} times" in told[-1]


def said(window: SharedCompleter, told: list[str], words: str) -> bool:
    """Whether the window's next message, which joins ``told``, holds some words."""
    event = window.next_event(WAIT_S)
    if isinstance(event, LogLine | Problem):
        told.append(event.message)
        return words in event.message
    return False


def test_a_window_that_never_reads_is_dropped_at_a_bound(scripted, monkeypatch, caplog):
    monkeypatch.setattr("speclsp.engine_process.server.MAX_WAITING", 1 << 20)
    ours, theirs = socket.socketpair()
    scripted.script = lambda asked: asked.answer("x" * 100_000)
    served = scripted.engine.serve(theirs)
    ours.sendall(frames(wire.ApplySettings(Settings()), wire.OpenDocument(document())))
    with contextlib.suppress(OSError):  # it is dropped meanwhile
        for number in range(200):
            ours.sendall(frames(wire.Ask(number, request(origin="program"))))
    served.result(WAIT_S)
    assert "does not read" in caplog.text
    ours.close()


def frames(*messages: wire.WindowMessage) -> bytes:
    """Return what a window sends."""
    bodies = map(msgspec.msgpack.encode, messages)
    return b"".join(len(body).to_bytes(4) + body for body in bodies)


def test_a_window_that_does_not_read_is_disconnected_after_a_defect(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.server._DISMISS_S", 0.01)
    ours, theirs = socket.socketpair()
    served = scripted.engine.serve(theirs)
    ours.sendall(frames(wire.ApplySettings(Settings())))
    until(lambda: scripted.made)
    scripted.completer.emit(LogLine(level="info", message="x" * 4_000_000))
    monkeypatch.setattr(ScriptedCompleter, "statistics", Mock(side_effect=ValueError("a defect")))
    scripted.completer.emit(StateChanged(state="ready"))
    served.result(WAIT_S)
    until(lambda: scripted.completer.closed)
    ours.close()


def test_a_windows_requests_wait_in_its_own_queue_beyond_a_bound(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.server.MAX_UNANSWERED", 5)
    scripted.script = leave_open
    window = scripted.with_document()
    futures = [ask(window, origin="program") for _ in range(20)]
    until(lambda: len(scripted.completer.asked) == 5)
    for idx in range(20):
        until(lambda idx=idx: len(scripted.completer.asked) > idx)
        assert len(scripted.completer.asked) <= idx + 5
        scripted.completer.asked[idx].answer(str(idx))
    assert [future.result(WAIT_S).generated.text for future in futures] == [
        str(n) for n in range(20)
    ]


def test_a_window_with_many_requests_learns_that_the_engine_closes(scripted, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.server.MAX_UNANSWERED", 1)
    monkeypatch.setattr("speclsp.engine_process.server._DISMISS_S", float(WAIT_S))
    scripted.script = leave_open
    ours, theirs = socket.socketpair()
    scripted.engine.serve(theirs)
    ours.sendall(frames(wire.ApplySettings(Settings()), wire.OpenDocument(document())))
    ours.sendall(frames(wire.Ask(1, request())))
    until(lambda: scripted.made and scripted.completer.asked)
    more_than_the_socket_takes = "x" * 4_000_000
    scripted.completer.emit(LogLine(level="info", message=more_than_the_socket_takes))
    closing = threading.Thread(target=scripted.engine.dismiss)
    closing.start()
    received = bytearray()
    while data := ours.recv(1 << 20):
        received += data
    last = msgspec.msgpack.encode(wire.Closing())
    assert received.endswith(len(last).to_bytes(4) + last)
    ours.close()
    closing.join(WAIT_S)


def test_connections_leave_no_descriptor_behind(scripted):
    window = scripted.window()
    window.close()
    scripted.engine.served[-1].result(WAIT_S)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        scripted.window().close()
    for served in scripted.engine.served:
        served.result(WAIT_S)
    with contextlib.suppress(FileNotFoundError):
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_the_engine_is_told_which_letters_are_secrets_by_their_places(scripted):
    window = scripted.window()
    secret = document("x = 'hunter22'\n")
    window.open_document(secret)
    change(window, secret, 2, TextEdit(5, 13, "MASKED"), ((5, 13),))
    ask(window, version=2, offset=3).result(WAIT_S)
    calls = [call for call in scripted.completer.calls if call[0] == "change_document"]
    assert calls == [("change_document", calls[0][1], 2)]
    assert scripted.completer.hidden == [((5, 13),)]


def test_what_an_engine_was_not_told_to_forget_the_next_one_is(scripted):
    window = scripted.window()
    window.open_document(document("x = 1\n"))
    ask(window).result(WAIT_S)
    kept, secret = (
        AcceptedText(path="a.py", file="", before="", text=text) for text in ("kept", "secret")
    )
    window._post(lambda: setattr(window, "_connection", None))
    for text in (kept, secret):
        window.learn(text)
    window.forget(secret.name, ((0, 6),))
    assert window._result(_waiting(window), ([], [])) == (["kept"], [secret.name])


async def _waiting(window):
    return [text.text for text in window._learned], [one.name for one in window._forgotten]


def next_engine(scripted: Scripted, window: SharedCompleter) -> list[tuple]:
    """Let the engine crash, and return what the next one is told to forget."""
    n_made = len(scripted.made)
    scripted.engine.drop()
    until(lambda: len(scripted.made) > n_made and window._connection)
    scripted.settle(window)
    return [call for call in scripted.completer.calls if call[0] == "forget_secrets"]


def test_an_answer_that_no_model_gave_does_not_show_that_a_secret_is_forgotten(scripted):
    scripted.script = lambda asked: asked.future.set_result(asked.request.plain.empty("cancelled"))
    window = scripted.with_document()
    window.forget_secrets(("hunter22",))
    ask(window).result(WAIT_S)
    scripted.script = None
    assert next_engine(scripted, window) == [("forget_secrets", ("hunter22",))]
    ask(window).result(WAIT_S)
    assert next_engine(scripted, window) == []


def test_what_the_next_engine_has_to_forget_is_one_bounded_message(scripted):
    window = scripted.window()
    for number in range(9):
        window.forget_secrets((f"{number}{'x' * 60_000}",))
    ((_, secrets),) = next_engine(scripted, window)
    assert [secret[0] for secret in secrets] == ["0", "1"]


def test_the_engine_is_told_what_became_a_secret_in_a_change_that_it_does_not_get(
    scripted, monkeypatch
):
    monkeypatch.setattr(wire, "MAX_CHARS", 1_000)
    window = scripted.window()
    short = document("x = 'hunter22'\n")
    window.open_document(short)
    long = change(window, short, 2, TextEdit(5, 13, "M" * 2_000), ((5, 13),))
    change(window, long, 3, TextEdit(0, 2_000, "M"), ((9, 17),))
    scripted.settle(window)
    assert scripted.completer.hidden == []
    told = [call[1] for call in scripted.completer.calls if call[0] == "forget_secrets"]
    assert told == [("hunter22",), ("MMMMMMMM",)]


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_engines_are_told_what_became_a_secret_until_one_answers_and_none_elsewhere(
    scripted, monkeypatch, is_elsewhere
):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    window = scripted.window(ELSEWHERE if is_elsewhere else LOCAL)
    shown = document("x = 'hunter22'\n")
    window.open_document(shown)
    change(window, shown, 2, TextEdit(5, 13, "MASKED"), ((5, 13),))
    window.forget("learned", ((0, 6),))

    def told_next(n_made: int) -> set[str]:
        crash(scripted, n_made)
        until(lambda: len(scripted.made) > n_made and window._connection)
        scripted.settle(window)
        told = [call for call in scripted.completer.calls if call[1:2] != ("mark",)]
        assert ("forget_secrets", ("hunter22",)) in told or is_elsewhere
        return {call[0] for call in told if call[0].startswith("forget")}

    names = {"forget"} if is_elsewhere else {"forget", "forget_secrets"}
    assert told_next(1) == told_next(2) == names
    ask(window, version=2, offset=3).result(WAIT_S)
    crash(scripted, 3)
    until(lambda: len(scripted.made) > 3 and window._connection)
    ask(window, version=2, offset=3).result(WAIT_S)
    assert not [call for call in scripted.completer.calls if call[0].startswith("forget")]
