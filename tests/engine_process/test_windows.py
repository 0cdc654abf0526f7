"""Several windows on one engine: what they share, what is their own, and whose turn it is."""

import dataclasses
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from scripted_models import ScriptedLoader
from shared_engine import ThreadedEngine
from typed_requests import TypedWindow, request_between
from waiting import until

from speclsp.completer.engine import Engine
from speclsp.completer.local import LocalCompleter
from speclsp.engine_process import server
from speclsp.engine_process.client import SharedCompleter
from speclsp.errors import EngineUnavailableError, SettingsError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.documents import AcceptedText, WorkspaceFolder
from speclsp.seam.events import LogLine, Problem, StateChanged
from speclsp.settings import Settings
from speclsp.window.window import Window

WAIT_S = 60
PLAIN = Settings(mode="chain", persist=False, suggestion_memory=False, n_context=0)
TEXT = "return self.total_amount_of_everything"


pytestmark = pytest.mark.usefixtures("private_folders")


class Windows:
    """An engine with a scripted model, and its windows."""

    def __init__(self, text: str = TEXT) -> None:
        self.loader = ScriptedLoader(text)
        self.engine = Engine(PLAIN, loader=self.loader)
        self.threaded = ThreadedEngine(self._completer)
        self.completers: list[LocalCompleter] = []
        self.clients: list[SharedCompleter] = []

    def _completer(self, settings: Settings) -> LocalCompleter:
        self.completers.append(LocalCompleter(settings, engine=self.engine))
        return self.completers[-1]

    def open(self, settings: Settings = PLAIN) -> TypedWindow:
        client = self.threaded.window(settings)
        self.clients.append(client)
        client.start()
        n_windows = len(self.clients)
        until(lambda: len(self.completers) == n_windows)
        if settings.enabled:
            until(lambda: client.state() == "ready")
        return TypedWindow(Window(client, settings))

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.threaded.close()
        self.engine.close()


@pytest.fixture
def windows() -> Iterator[Windows]:
    made = Windows()
    yield made
    made.close()


def ask(window: TypedWindow, prefix: str = "def f():\n    ", **fields):
    known = {"language_id": "python", "deadline_ms": 60_000}
    return window.complete(request_between(prefix, **{**known, **fields}), CancellationToken())


def events(window: TypedWindow) -> list[object]:
    seen = []
    while (event := window.next_event(0.2)) is not None:
        seen.append(event)
    return seen


def test_windows_share_one_model_and_its_memory(windows):
    first, second = windows.open(), windows.open()
    assert [
        ask(first).result(WAIT_S).generated.text,
        ask(second).result(WAIT_S).generated.text,
    ] == [TEXT, TEXT]
    assert len(windows.loader.targets) == 1
    first.close()
    assert ask(second, prefix="def g():\n    ").result(WAIT_S).generated.text == TEXT
    assert not windows.loader.targets[0].closed


def test_a_window_whose_answer_cannot_be_made_is_connected_again(windows, monkeypatch):
    window = windows.open()
    answer_of = server._answer_of

    def fail(*_: object) -> None:
        monkeypatch.setattr(server, "_answer_of", answer_of)
        raise MemoryError

    monkeypatch.setattr(server, "_answer_of", fail)
    assert ask(window).result(WAIT_S).generated.finish_reason == "cancelled"
    until(lambda: len(windows.completers) == 2)
    assert ask(window, prefix="def g():\n    ").result(WAIT_S).generated.text == TEXT


def test_documents_of_the_same_name_are_each_windows_own(windows):
    first, second = windows.open(), windows.open()
    ask(first, prefix="first = 1\n").result(WAIT_S)
    ask(second, prefix="second = 2\n").result(WAIT_S)
    assert ask(first, prefix="first = 1\nx").result(WAIT_S).generated.text
    documents = [completer._documents.newest() for completer in windows.completers]
    assert [document.text for of_window in documents for document in of_window] == [
        "first = 1\nx",
        "second = 2\n",
    ]
    # Neither window drafts from the other's buffer.
    for completer in windows.completers:
        tokenize = windows.loader.tokenizer(PLAIN).vocabulary.tokenize
        (buffer,) = completer.tokens.others(request_between("", uri="none"), tokenize)
        assert buffer.size == len(completer._documents.newest()[0].text)


def test_a_request_sets_no_more_than_a_request_may(windows):
    window = windows.open()
    wrong = {"bogus": 1, "max_lines": "12", "mask_secrets": False, "model": "/etc/passwd"}
    own = {"n_predict": 3, **wrong}
    result = ask(window, prefix="def f():\n", settings=own, overrides=wrong).result(WAIT_S)
    assert result.generated.text == TEXT[:3]
    placed = request_between("x", settings=wrong, overrides=wrong)
    assert placed.settings_over(PLAIN) == PLAIN
    assert ask(window, prefix="def g():\n    ").result(WAIT_S).generated.text == TEXT


def test_a_windows_settings_leave_the_others_alone(windows):
    first, second = windows.open(), windows.open()
    first.apply_settings(dataclasses.replace(PLAIN, n_predict=3))
    until(lambda: windows.completers[0].settings.n_predict == 3)
    assert ask(first, prefix="def f():\n").result(WAIT_S).generated.text == TEXT[:3]
    assert ask(second).result(WAIT_S).generated.text == TEXT
    assert ask(second).result(WAIT_S).stats.n_accepted > 0
    first.apply_settings(dataclasses.replace(PLAIN, speculation=False))
    until(lambda: not windows.completers[0].settings.speculation)
    assert ask(first).result(WAIT_S).stats.n_drafted == 0
    assert ask(second).result(WAIT_S).stats.n_drafted > 0


def test_a_window_without_speculation_leaves_the_others_the_draft_model(windows, monkeypatch):
    loaded_for_drafts, weights = [], windows.loader.weights

    def load(settings: Settings, *rest):
        loaded_for_drafts.append(settings.speculation)
        return weights(settings, *rest)

    monkeypatch.setattr(windows.loader, "weights", load)
    first, second = windows.open(), windows.open(dataclasses.replace(PLAIN, speculation=False))
    windows.engine.apply_settings(windows.completers[1], reload=True)
    for window in (first, second, first):
        assert ask(window, wait_for_model=True).result(WAIT_S).generated.text == TEXT
    assert loaded_for_drafts == [True, True]


def test_a_request_chooses_whether_tokens_are_drafted(windows):
    window = windows.open()
    assert ask(window).result(WAIT_S).generated.text == TEXT
    assert ask(window).result(WAIT_S).stats.n_drafted > 0
    assert ask(window, speculation=False).result(WAIT_S).stats.n_drafted == 0
    window.apply_settings(dataclasses.replace(PLAIN, speculation=False))
    until(lambda: not windows.completers[0].settings.speculation)
    assert ask(window, speculation=True).result(WAIT_S).stats.n_drafted > 0
    assert ask(window).result(WAIT_S).stats.n_drafted == 0


def test_a_setting_that_fails_requests_is_a_problem_of_its_window_until_changed(windows):
    def told(found: list[object]) -> list[LogLine]:
        return [e for e in found if isinstance(e, LogLine) and "n_prompt = 1" in e.message]

    wrong = dataclasses.replace(PLAIN, n_prompt=1)
    opened = [windows.open(wrong), windows.open(wrong), windows.open()]
    for number in range(2):
        seen = []
        for window in opened[:2]:
            for _ in range(2):
                with pytest.raises(SettingsError, match="n_prompt = 1"):
                    ask(window).result(WAIT_S)
        for window, n_lines in zip(opened, (2, 2, 0), strict=True):
            found: list[object] = []
            until(lambda w=window, n=n_lines, f=found: f.extend(events(w)) or len(told(f)) >= n)
            assert {line.level for line in told(found)} <= {"warning"}
            problems = [e.remedy for e in found if isinstance(e, Problem)]
            assert {*problems} <= {"Raise n_prompt or ctx_size."}
            seen.append((len(problems), len(told(found))))
        assert seen == [(1, 2), (0 if number else 1, 2), (0, 0)]
        assert len(windows.loader.targets) == 1
        for settings in (PLAIN, wrong):
            opened[0].apply_settings(settings)
            until(lambda to=settings: windows.completers[0].settings.n_prompt == to.n_prompt)


def test_completion_is_switched_off_in_one_window_only(windows):
    first, second = windows.open(), windows.open()
    events(first), events(second)
    off = dataclasses.replace(PLAIN, enabled=False)
    first.apply_settings(off)
    until(lambda: first.window.completer.state() == "off")
    with pytest.raises(EngineUnavailableError, match="switched off"):
        ask(first).result(WAIT_S)
    assert ask(second).result(WAIT_S).generated.text == TEXT
    assert not [e for e in events(second) if isinstance(e, StateChanged)]
    third = windows.open(off)
    until(lambda: third.window.completer.state() == "off")
    second.apply_settings(off)
    until(lambda: windows.loader.target.closed)  # nobody wants it any more
    first.apply_settings(PLAIN)
    until(lambda: first.window.completer.state() == "ready")
    assert ask(first).result(WAIT_S).generated.text == TEXT
    with pytest.raises(EngineUnavailableError):
        ask(second).result(WAIT_S)


def test_a_folder_of_two_windows_is_indexed_once_and_closed_with_the_last(windows, tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "c.py").write_text(f"def g():\n    {TEXT}\n")
    folder = WorkspaceFolder(root=str(tmp_path / "p"), name="p")
    settings = dataclasses.replace(PLAIN, speculation=True)
    first, second = windows.open(settings), windows.open(settings)
    for window in (first, second):
        window.open_folder(folder)
        until(lambda w=window: w.statistics().index.n_tokens > 0)
    indexes = windows.engine.indexes._indexes
    assert len(indexes) == 1
    # A file that is open in one window is drafted from in the other.
    uri, file = (tmp_path / "p" / "c.py").as_uri(), str(tmp_path / "p" / "c.py")
    ask(first, uri=uri, file=file, prefix="# nothing here yet\n").result(WAIT_S)
    assert ask(second).result(WAIT_S).stats.n_accepted > 10
    second.apply_settings(dataclasses.replace(settings, exclude=["*.md"]))
    until(lambda: len(indexes) == 2)
    second.close()
    until(lambda: len(indexes) == 1)
    first.close()
    until(lambda: not indexes)


def test_what_one_window_accepted_the_other_drafts_from(windows):
    first, second = windows.open(), windows.open()
    text = f"    {TEXT}\n"
    first.window.completer.learn(AcceptedText(path="a.py", file="", before="", text=text))
    until(lambda: windows.engine.accepted(PLAIN).of_root("").tokens.size)
    assert ask(second).result(WAIT_S).stats.n_accepted > 10


def test_log_lines_of_a_request_go_to_its_window(windows):
    first, second = windows.open(), windows.open()
    events(first), events(second)
    windows.loader.target.before_decode = Mock(side_effect=ZeroDivisionError)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        ask(first).result(WAIT_S)
    assert [e for e in events(first) if isinstance(e, LogLine) and e.level == "error"]
    assert not events(second)


class Order:
    """Whose decode is whose, by the first character of the prompt's prefix."""

    def __init__(self, windows: Windows) -> None:
        self.target = windows.loader.target
        self.seen: list[str] = []
        self.marks: dict[str, int] = {}
        self.hold = threading.Event()
        self.reached = threading.Event()
        self.hold_at = 0
        decode = self.target.decode

        def watched(tokens, n_logits):
            self.seen.append(self.whose(tokens))
            if len(self.seen) == self.hold_at:
                self.reached.set()
                assert self.hold.wait(WAIT_S)
            return decode(tokens, n_logits)

        self.target.decode = watched

    def whose(self, tokens) -> str:
        held = bytes(t for t in [*self.target.cached, *tokens] if t < 256)
        return next(name for name in "ABC" if f"window_{name}".encode() in held)


def text_of(name: str) -> str:
    return f"window_{name} = 0\ndef f():\n    "


def two_in_order(windows: Windows, hold_at: int) -> tuple[TypedWindow, TypedWindow, Order]:
    """Open two windows without drafts on an engine that is held up at a decode."""
    slow = dataclasses.replace(PLAIN, speculation=False)
    first, second = windows.open(slow), windows.open(slow)
    order = Order(windows)
    order.hold_at = hold_at
    return first, second, order


def test_who_types_waits_for_one_decode_of_another_window(windows):
    """The other's request is put off, and gets its whole text later."""
    first, second, order = two_in_order(windows, hold_at=4)  # in the first window's generation
    running = ask(first, prefix=text_of("A"))
    assert order.reached.wait(WAIT_S)
    typed = ask(second, prefix=text_of("B"))
    until(windows.engine.thread._queue.waiting)
    order.hold.set()
    assert typed.result(WAIT_S).generated.text == TEXT
    assert running.result(WAIT_S).generated.text == TEXT
    assert order.seen[:5] == ["A", "A", "A", "A", "B"]
    n_second = order.seen.count("B")
    assert order.seen[4 : 4 + n_second] == ["B"] * n_second


def test_who_goes_on_typing_waits_for_one_decode_at_each_key(windows):
    first, second, order = two_in_order(windows, hold_at=3)
    queue = windows.engine.thread._queue
    running = ask(first, prefix=text_of("A"))
    assert order.reached.wait(WAIT_S)
    for n_keys in range(1, 4):
        # Each key contradicts what is generated for the last one.
        order.reached.clear()
        order.hold_at, hold, order.hold = len(order.seen) + 3, order.hold, threading.Event()
        typed = ask(second, prefix=text_of("B") + "x" * n_keys)
        until(lambda n=n_keys: len(queue.editors_jobs()) == min(n, 2))  # the first one's waits, too
        n_before = len(order.seen)
        hold.set()
        assert order.reached.wait(WAIT_S)
        assert order.seen[n_before:].count("A") <= 1
    order.hold.set()
    assert typed.result(WAIT_S).generated.finish_reason == "stop"
    assert running.result(WAIT_S).generated.text == TEXT


def test_headless_requests_and_idle_work_yield_to_who_types(windows):
    first, second, order = two_in_order(windows, hold_at=2)
    waiting = [ask(first, prefix=text_of("A"), origin="program") for _ in range(5)]
    assert order.reached.wait(WAIT_S)
    typed = ask(second, prefix=text_of("B"))
    until(windows.engine.thread._queue.editors_jobs)
    order.hold.set()
    assert typed.result(WAIT_S).generated.text == TEXT
    assert [future.result(WAIT_S).generated.text for future in waiting] == [TEXT] * 5
    assert order.seen[:3] == ["A", "A", "B"]


def test_a_prefetch_that_is_put_off_is_not_done_again(windows):
    first, second, order = two_in_order(windows, hold_at=2)
    prefetch = ask(first, prefix=text_of("A"), is_prefetch=True)
    assert order.reached.wait(WAIT_S)
    typed = ask(second, prefix=text_of("B"))
    until(windows.engine.thread._queue.waiting)
    order.hold.set()
    assert typed.result(WAIT_S).generated.text == TEXT
    assert prefetch.result(WAIT_S).generated.finish_reason == "cancelled"
    assert order.seen.count("A") == 2
