"""Large texts pass late, in order, and never before they were looked through."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from concurrent.futures import Future

import pytest

from speclsp.cancellation import CancellationToken
from speclsp.completer.late_work import LateWork
from speclsp.completer.looked_through import LookedThrough
from speclsp.completer.private_text import PrivateText, Refusal
from speclsp.request import CompletionRequest, CompletionResult, Document, RequestStats
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings

URI = "file:///p/a.py"
SECRET = 'password = "hunter22"\n'
LARGE = "x = 1\n" * 20_000 + SECRET


def document(text: str, version: int = 1) -> Document:
    return Document(uri=URI, path="a.py", file="", language_id="python", version=version, text=text)


def request(prefix: str, *, supersede: bool = True) -> CompletionRequest:
    return CompletionRequest(
        uri=URI, path="a.py", repo_name="p", prefix=prefix, suffix="", supersede=supersede
    )


class Gate(PrivateText):
    """Looks through a text when the test lets it."""

    def __init__(self) -> None:
        super().__init__(Settings(), lambda _: False)
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.n_looked_through = 0

    def look_through(self, asked: Document | CompletionRequest) -> None:
        self.entered.set()
        assert self.opened.wait(60)
        self.n_looked_through += 1
        super().look_through(asked)


class Passed:
    """What came through."""

    def __init__(self) -> None:
        self.private = Gate()
        self.versions: list[int] = []
        self.texts: list[str] = []
        self.failures: list[Exception] = []
        self.asked: list[CompletionRequest | Refusal] = []
        self.through = LookedThrough(self.private, self._deliver, self.failures.append)

    def _deliver(self, document: Document) -> None:
        self.versions.append(document.version)
        self.texts.append(document.text)

    def ask(
        self, request: CompletionRequest, cancel: CancellationToken | None = None
    ) -> Future[CompletionResult]:
        return self.through.ask(request, cancel or CancellationToken(), self._answer)

    def _answer(self, private: CompletionRequest | Refusal) -> Future[CompletionResult]:
        self.asked.append(private)
        future: Future[CompletionResult] = Future()
        text = "text" if isinstance(private, CompletionRequest) else private
        future.set_result(
            CompletionResult(
                completion_id="", text=text, finish_reason="stop", stats=RequestStats()
            )
        )
        return future

    def let_through(self) -> None:
        self.private.opened.set()
        assert self.through.wait_done(60)


@pytest.fixture
def passed():
    passed = Passed()
    yield passed
    passed.private.opened.set()
    passed.through.close()


def test_what_is_small_passes_at_once(passed: Passed) -> None:
    passed.through.take(document(SECRET))
    assert passed.texts == [SECRET.replace("hunter22", PLACEHOLDER)]
    assert passed.ask(request(SECRET)).result(0).text == "text"
    assert passed.private.n_looked_through == 0


def test_a_large_text_passes_late_and_masked(passed: Passed) -> None:
    passed.through.take(document(LARGE))
    answer = passed.ask(request(LARGE))
    assert (passed.texts, passed.asked, answer.done()) == ([], [], False)
    passed.let_through()
    assert passed.texts == [LARGE.replace("hunter22", PLACEHOLDER)]
    assert answer.result(60).text == "text"
    asked = passed.asked[0]
    assert isinstance(asked, CompletionRequest)
    assert asked.prefix == passed.texts[0]


def test_an_older_version_never_follows_a_newer_one(passed: Passed) -> None:
    passed.through.take(document("a = 1\n", 1))
    passed.through.take(document(LARGE, 2))
    assert passed.private.entered.wait(60)
    passed.through.take(document("a = 1\nb", 3))
    passed.let_through()
    assert passed.versions == [1, 3]
    passed.private.opened.clear()
    passed.through.take(document("y = 2\n" * 20_000, 4))
    passed.through.take(document("y = 23\n" * 20_000, 5))
    passed.let_through()
    assert passed.versions == [1, 3, 5]


def test_a_closed_buffer_is_not_delivered(passed: Passed) -> None:
    passed.through.take(document(LARGE))
    passed.through.forget(URI)
    passed.let_through()
    assert passed.texts == []


def test_nothing_is_known_of_a_buffer_that_was_closed_while_it_was_looked_through(
    passed: Passed,
) -> None:
    passed.through.take(document(LARGE))
    answer = passed.ask(request(LARGE + "y"))
    assert passed.private.entered.wait(60)
    passed.through.forget(URI)
    passed.let_through()
    assert answer.result(60).text == "unknown"
    assert passed.private.request(request(LARGE)) == "unknown"
    assert passed.private.request(request(LARGE + "y")) == "unknown"


def test_work_that_is_done_is_let_go_of() -> None:
    work = LateWork(lambda _: None)
    text = Passed.__new__(Passed)
    kept = weakref.ref(text)
    work.put("key", functools.partial(setattr, text, "seen", True))
    del text
    assert work.wait_done(60)
    assert kept() is None
    work.close()


def test_a_buffer_that_was_opened_again_meanwhile_stays_known(passed: Passed) -> None:
    passed.through.take(document(LARGE))
    assert passed.private.entered.wait(60)
    passed.through.forget(URI)
    passed.through.take(document(LARGE, 2))
    passed.let_through()
    assert passed.versions == [2]
    assert isinstance(passed.private.request(request(LARGE)), CompletionRequest)


def test_a_newer_request_leaves_an_older_one_unasked(passed: Passed) -> None:
    first, second = passed.ask(request(LARGE)), passed.ask(request(LARGE + "x"))
    third = passed.ask(request("x"))
    passed.let_through()
    texts = [future.result(60).text for future in (first, second, third)]
    assert texts == ["unknown", "unknown", "text"]


def test_requests_that_stand_apart_are_all_asked(passed: Passed) -> None:
    asked = [passed.ask(request(LARGE + letter, supersede=False)) for letter in "abc"]
    passed.let_through()
    assert [future.result(60).text for future in asked] == ["text"] * 3


def test_a_cancelled_request_is_not_looked_through(passed: Passed) -> None:
    cancel = CancellationToken()
    passed.through.take(document(LARGE))
    answer = passed.ask(request("y" + LARGE), cancel)
    cancel.cancel()
    passed.let_through()
    assert answer.result(60).text == "unknown"
    assert passed.private.n_looked_through == 1


def test_closing_leaves_nobody_waiting(passed: Passed) -> None:
    passed.through.take(document(LARGE))
    assert passed.private.entered.wait(60)
    answer = passed.ask(dataclasses.replace(request(LARGE), uri="file:///p/b.py"))
    passed.private.opened.set()
    passed.through.close()
    assert answer.result(60).text in ("text", "unknown")
    assert passed.ask(request("y = 1\n" * 20_000)).result(60).text == "unknown"


def test_a_defect_reaches_who_waits(passed: Passed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(passed.private, "look_through", fail)
    with pytest.raises(RuntimeError, match="broken"):
        passed.ask(request(LARGE)).result(60)
    assert passed.ask(request("x")).result(60).text == "text"


class Failing(PrivateText):
    """Fails at one document."""

    def look_through(self, asked: Document | CompletionRequest) -> None:
        if asked.uri == URI:
            raise MemoryError
        super().look_through(asked)


def test_a_buffer_that_cannot_be_looked_through_holds_up_no_other() -> None:
    uris: list[str] = []
    failures: list[Exception] = []
    through = LookedThrough(
        Failing(Settings(), lambda _: False),
        lambda document: uris.append(document.uri),
        failures.append,
    )
    try:
        through.take(document(LARGE))
        through.take(dataclasses.replace(document(LARGE), uri="file:///other.py"))
        assert through.wait_done(60)
        assert uris == ["file:///other.py"]
        assert [type(failure) for failure in failures] == [MemoryError]
    finally:
        through.close()
