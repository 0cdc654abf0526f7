"""A second kind of request on the engine thread, made up here: it repeats a line in capitals."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from scripted_models import END, ScriptedLoader
from typed_requests import document_of
from waiting import until

from speclsp.completer import local
from speclsp.completer.jobs import DraftSources, Job, Plan, Workbench
from speclsp.completer.local import LocalCompleter
from speclsp.decoding.sampling import GreedySampler
from speclsp.decoding.speculate import Generation
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import DraftContext
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.request import FinishReason, Request, Result
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings

WAIT_S = 20.0
URIS = ("file:///a.py", "file:///b.py")


class LoudResult(Result, frozen=True, kw_only=True):
    completion_id: str
    finish_reason: FinishReason
    text: str

    @property
    def is_empty(self) -> bool:
        return not self.text


class LoudRequest(Request[LoudResult], frozen=True, kw_only=True):
    kind: ClassVar[str] = "loud"
    urgency: ClassVar[int] = 1
    n_more: int = 0
    """Texts after the first one."""

    def empty(self, reason: Any, source: Any = "model") -> LoudResult:
        return LoudResult(
            completion_id=self.completion_id, text="", finish_reason=reason, stats=RequestStats()
        )


class Heard:
    so_far = ""

    def feed(self, token: int, logprob: float = 0.0) -> bool:
        self.so_far += chr(token) if token < 256 else ""
        return token == END


@dataclass(slots=True, kw_only=True)
class LoudPlan(Plan[LoudResult]):
    between: ClassVar[Callable[[], object]] = lambda: None
    """Called before a further text."""
    completion_id: str
    n_more: int
    said: str = ""

    def following(self, generation: Generation) -> "LoudPlan | None":
        if not self.n_more or generation.finish_reason == "cancelled":
            return None
        LoudPlan.between()
        return replace(
            self,
            n_more=self.n_more - 1,
            said=self.said + self.output.so_far,
            output=Heard(),
            scores=TokenScores(),
        )

    def finish(self, generation: Generation, interrupted: object) -> LoudResult:
        return LoudResult(
            completion_id=self.completion_id,
            text=(self.said + self.output.so_far).upper(),
            finish_reason=generation.finish_reason,
            stats=generation.stats,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class LoudJob(Job[LoudRequest, LoudResult]):
    def plan(self, bench: Workbench, sources: DraftSources, clock: Callable[[], float]) -> LoudPlan:
        prompt = [*bench.tokenizer.vocabulary.tokenize(self.request.text).tolist(), 258]
        return LoudPlan(
            completion_id=self.request.completion_id,
            n_more=self.request.plain.n_more,
            context=DraftContext(prompt=prompt),
            output=Heard(),
            sampler=GreedySampler(),
            scores=TokenScores(),
            n_predict=8,
        )


class Bench:
    """A completer whose model is held up while the jobs are queued, and what is answered when."""

    def __init__(self) -> None:
        self.loader = ScriptedLoader("ok")
        self.completer = LocalCompleter(Settings(persist=False), loader=self.loader)
        for uri in URIS:
            self.completer.open_document(document_of("x = 1\n", uri=uri, language_id="python"))
        self.completer.start()
        until(lambda: self.completer.state() == "ready")
        self.order: list[str] = []
        self.lock = threading.Lock()

    def ask(self, name: str, uri: str = URIS[0], **fields: Any) -> Future[Any]:
        kind = LoudRequest if name.startswith("loud") else CompletionRequest
        request: Request[Any] = kind(uri=uri, version=1, offset=6, **fields)
        future = self.completer.submit(request, CancellationToken())
        future.add_done_callback(lambda _: self.order.append(name))
        return future

    def hold(self) -> None:
        self.loader.target.gate.clear()
        self.loader.target.decoding.clear()

    def until_decoding(self) -> None:
        assert self.loader.target.decoding.wait(WAIT_S)

    def go_on(self) -> None:
        self.loader.target.gate.set()


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setitem(local.JOBS, LoudRequest, LoudJob)
    made = Bench()
    yield made
    made.go_on()
    made.completer.close()


def test_a_made_up_kind_is_decoded_and_answered(bench):
    result = bench.ask("loud", completion_id="7").result(WAIT_S)
    assert (result.text, result.finish_reason, result.completion_id) == ("OK", "stop", "7")
    assert result.stats.n_predicted == 3
    assert result.stats.ms_total >= result.stats.ms_queue


def test_kinds_of_one_document_do_not_end_each_other(bench):
    bench.hold()
    typed = bench.ask("typed")
    bench.until_decoding()
    older, newer = bench.ask("loud 1"), bench.ask("loud 2")
    bench.go_on()
    assert typed.result(WAIT_S).generated.text == "ok"
    assert older.result(WAIT_S).finish_reason == "cancelled"
    assert newer.result(WAIT_S).text == "OK"
    assert bench.order == ["loud 1", "typed", "loud 2"]
    assert bench.completer.statistics().n_coalesced == 0


@pytest.mark.parametrize("uri", URIS)
def test_a_typed_completion_puts_off_a_running_edit(bench, uri):
    bench.hold()
    loud = bench.ask("loud")
    bench.until_decoding()
    typed = bench.ask("typed", uri)
    program = bench.ask("program", uri, origin="program")
    idle = bench.ask("idle", uri, is_prefetch=True)
    bench.go_on()
    assert (typed.result(WAIT_S).generated.text, loud.result(WAIT_S).text) == ("ok", "OK")
    assert [one.result(WAIT_S).generated.text for one in (program, idle)] == ["ok", "ok"]
    assert bench.order == ["typed", "loud", "program", "idle"]


def test_an_edit_that_is_put_off_in_its_last_text_gets_all_of_them(bench, monkeypatch):
    typed: list[Future[Any]] = []
    monkeypatch.setattr(LoudPlan, "between", lambda: typed or typed.append(bench.ask("typed")))
    assert bench.ask("loud", n_more=1).result(WAIT_S).text == "OKOK"
    assert typed[0].result(WAIT_S).generated.text == "ok"
    assert bench.order == ["typed", "loud"]
