import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from scripted_completer import Asked, ScriptedCompleter
from typed_requests import result_of
from waiting import until

from speclsp.cli.headless import (
    HeadlessConnection,
    HeadlessOptions,
    HeadlessServer,
    completion_object,
)
from speclsp.rpc import connection
from speclsp.seam.completion import GeneratedText, PlacedCompletion
from speclsp.seam.statistics import SessionStats
from speclsp.settings import Settings
from speclsp.window.window import Window


def echo(asked: Asked) -> None:
    asked.answer(f"<{asked.request.prefix}>")


class Pipe:
    """A headless connection on a thread of its own; messages and answers are Python values."""

    def __init__(self, **options: Any) -> None:
        self.answers: list[Any] = []
        self.completer = ScriptedCompleter(Settings(), echo)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        window = Window(self.completer, Settings())
        self.connection = HeadlessServer(window, HeadlessOptions(**options)).protocol
        self.connection.connect(lambda body: self.answers.append(json.loads(body)))

    def send(self, *messages: Any) -> bool:
        """Send messages that arrive at once; return whether more are read."""

        async def receive() -> bool:
            for message in messages:
                raw = message if isinstance(message, bytes) else json.dumps(message).encode()
                self.connection.receive(raw)
            return not self.connection.shutting_down

        return asyncio.run_coroutine_threadsafe(receive(), self._loop).result(10)

    def run(self, *messages: Any) -> list[Any]:
        """Send all, end the input, and return the answers."""
        self.send(*messages)
        asyncio.run_coroutine_threadsafe(self.connection.close(), self._loop).result(10)
        return self.answers

    @property
    def requests(self) -> list[PlacedCompletion]:
        """What the completer was asked for."""
        return [asked.request for asked in self.completer.asked]

    def kinds(self) -> list[str]:
        """Return what became of documents."""
        names = (call[0].partition("_document") for call in self.completer.calls)
        return [kind for kind, is_of_document, _ in names if is_of_document]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def call(id_: Any, method: str, params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id_, "method": method}
    return message if params is None else {**message, "params": params}


def bugs(caplog: pytest.LogCaptureFixture) -> list[type[BaseException] | None]:
    """Return the exceptions that were reported in the log."""
    return [r.exc_info[0] for r in caplog.records if r.levelno == logging.ERROR and r.exc_info]


def completing(id_: Any, prefix: str = "x", **params: Any) -> dict[str, Any]:
    return call(id_, "complete", {"prefix": prefix, **params})


def test_ten_requests_get_ten_answers(pipe):
    answers = pipe.run(*(completing(i, f"p{i}", path="a.py", suffix="s") for i in range(10)))
    assert [answer["id"] for answer in answers] == list(range(10))
    assert [answer["result"]["text"] for answer in answers] == [f"<p{i}>" for i in range(10)]
    assert answers[0]["result"] == {
        "text": "<p0>",
        "nReplaced": 0,
        "finishReason": "stop",
        "stats": {
            "nPrompt": 7,
            "nPromptEvaluated": 0,
            "nPredicted": 3,
            "nTargetPasses": 0,
            "nDrafted": 0,
            "nAccepted": 0,
            "drafters": {},
            "msPrompt": 0.0,
            "msPredict": 0.0,
            "msDraft": 0.0,
        },
    }


def test_params_reach_the_request(pipe):
    pipe.run(
        completing(
            "a",
            "pre",
            suffix="suf",
            path="pkg/mod.py",
            repoName="repo",
            languageId="python",
            singleLine=True,
            nPredict=64,
            temperature=0,
            topK=3,
            topP=0.5,
            minP=0.1,
            seed=4,
            deadlineMs=100,
            maxLines=2,
            nCandidates=4,
            trigger="automatic",
        )
    )
    (request,) = pipe.requests
    assert (request.prefix, request.suffix, request.path) == ("pre", "suf", "pkg/mod.py")
    assert (request.repo_name, request.language_id) == ("repo", "python")
    assert request.plain.settings == {
        "multiline": "never",
        "n_predict": 64,
        "temperature": 0.0,
        "top_k": 3,
        "top_p": 0.5,
        "min_p": 0.1,
        "seed": 4,
        "deadline_ms": 100,
        "max_lines": 2,
    }
    assert request.plain.origin == "program"
    assert (request.plain.n_candidates, request.plain.trigger) == (4, "automatic")


def test_one_text_that_is_never_withheld_and_has_no_deadline_unless_asked_otherwise(pipe):
    pipe.run(completing(1))
    (request,) = pipe.requests
    assert (request.plain.n_candidates, request.plain.trigger) == (1, "invoked")
    assert request.plain.settings["deadline_ms"] > 24 * 3600 * 1000
    assert "n_predict" not in request.plain.settings


@pytest.mark.parametrize("id_", [0, -1, 2**70, "", "ü\n"])
def test_ids_come_back_as_they_are(pipe, id_):
    (answer,) = pipe.run(completing(id_))
    assert answer["id"] == id_
    assert type(answer["id"]) is type(id_)


@pytest.mark.parametrize(
    ("raw", "code", "id_"),
    [
        (b"{", -32700, None),
        (b"hello", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"complete","params":{"prefix":"\xff"}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"statistics\\ud8', -32700, None),
        (b"1", -32600, None),
        (b"null", -32600, None),
        (b"[]", -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"1.0","id":"x","method":"complete"}', -32600, "x"),
        (b'{"id":3,"method":"complete"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"complete"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"complete"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"complete"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"complete"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"initialize"}', -32601, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":""}', -32601, 7),
    ],
)
def test_broken_messages(pipe, raw, code, id_):
    broken, good = pipe.run(raw, completing(99))
    assert broken["error"]["code"] == code
    assert broken["error"]["message"]
    assert broken["id"] == id_
    assert "result" not in broken
    assert good["result"]["text"] == "<x>"


@pytest.mark.parametrize(
    ("written", "prefix"),
    [
        (r"a\ud800b", "a\ufffdb"),
        (r"\uDFFF", "\ufffd"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\ud83d\ude00", "😀"),
        (r"\\ud800\ud800", r"\ud800" + "\ufffd"),
        (r"\"\\\ud800\n", '"\\\ufffd\n'),
    ],
)
def test_lone_surrogates_are_replaced(pipe, written, prefix):
    body = f'{{"jsonrpc":"2.0","id":1,"method":"complete","params":{{"prefix":"{written}"}}}}'
    (answer,) = pipe.run(body.encode())
    assert answer["id"] == 1
    assert answer["result"]["text"] == f"<{prefix}>"


@pytest.mark.parametrize(
    ("owner", "broken", "id_"),
    [
        (connection, "read_message", None),
        (HeadlessConnection, "_receive", None),
        (HeadlessConnection, "structure_params", 1),
    ],
)
def test_a_bug_of_ours_ends_nothing(pipe, owner, broken, id_, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(owner, broken, Mock(side_effect=ZeroDivisionError("oh")))
        assert pipe.send(completing(1))
    first, second = pipe.run(completing(2))
    assert (first["id"], first["error"]["code"]) == (id_, -32603)
    assert bugs(caplog) == [ZeroDivisionError]
    assert second["result"]["text"] == "<x>"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (None, "$.params.prefix"),
        ({}, "$.params.prefix"),
        ([], "$.params"),
        (["x"], "$.params"),
        (5, "$.params"),
        ({"prefix": 1}, "$.params.prefix"),
        ({"prefix": None}, "$.params.prefix"),
        ({"prefix": "", "suffix": []}, "$.params.suffix"),
        ({"prefix": "", "path": 1}, "$.params.path"),
        ({"prefix": "", "nPredict": "many"}, "$.params.nPredict"),
        ({"prefix": "", "nPredict": 0}, "$.params.nPredict"),
        ({"prefix": "", "nPredict": 1.5}, "$.params.nPredict"),
        ({"prefix": "", "nPredict": True}, "$.params.nPredict"),
        ({"prefix": "", "temperature": -1}, "$.params.temperature"),
        ({"prefix": "", "temperature": "hot"}, "$.params.temperature"),
        ({"prefix": "", "topK": -1}, "$.params.topK"),
        ({"prefix": "", "topP": 1.1}, "$.params.topP"),
        ({"prefix": "", "minP": -0.1}, "$.params.minP"),
        ({"prefix": "", "seed": -2}, "$.params.seed"),
        ({"prefix": "", "deadlineMs": 0}, "$.params.deadlineMs"),
        ({"prefix": "", "maxLines": 0}, "$.params.maxLines"),
        ({"prefix": "", "singleLine": 1}, "$.params.singleLine"),
        ({"prefix": "", "n_predict": 4}, "$.params.n_predict"),
        ({"prefix": "", "prefx": "y"}, "$.params.prefx"),
    ],
)
def test_wrong_params_are_named(pipe, params, field):
    broken, good = pipe.run(call(1, "complete", params), completing(2))
    assert broken["id"] == 1
    assert broken["error"]["code"] == -32602
    assert broken["error"]["data"] == {"field": field}
    assert field in broken["error"]["message"]
    assert good["id"] == 2


def test_wrong_params_of_other_methods(pipe):
    wrong = [
        *(call(n, "cancel", params) for n, params in enumerate(({}, {"id": None}, {"id": 1.5})))
    ]
    answers = pipe.run(*wrong, call(3, "statistics", {"x": 1}))
    assert [answer["error"]["code"] for answer in answers] == [-32602] * 4


def test_notifications_get_no_answer(pipe):
    def note(method: str, params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": method, "params": params}

    answers = pipe.run(
        note("complete", {"prefix": "x"}),
        note("complete", {}),
        note("unknown", {}),
        note("statistics", {}),
        note("cancel", {"id": 4}),
        completing(1),
    )
    assert [answer["id"] for answer in answers] == [1]
    assert len(pipe.requests) == 1


def test_an_id_in_use_is_refused_and_an_answered_one_is_not(pipe):
    answers = pipe.run(completing(1, "a"), completing(1, "b"), completing("1", "c"))
    assert answers[0]["error"]["code"] == -32600
    assert answers[0]["error"]["data"] == {"field": "$.id"}
    pipe.run(completing(1, "d"))
    assert [answer["result"]["text"] for answer in answers[1:]] == ["<a>", "<c>", "<d>"]


def test_cancel_while_it_runs(pipe):
    held: list[Asked] = []
    pipe.completer.script = lambda asked: echo(asked) if held else held.append(asked)
    pipe.send(completing(1), completing(2))
    until(lambda: held)
    pipe.send(call(3, "cancel", {"id": 1}), call(4, "cancel", {"id": 77}))
    pipe.send(call(5, "cancel", {"id": "1"}))
    assert held[0].cancel.cancelled
    held[0].answer("", finish_reason="cancelled")
    pipe.run()
    by_id = {answer["id"]: answer["result"] for answer in pipe.answers}
    assert by_id[3] == {"cancelled": True}
    assert by_id[4] == by_id[5] == {"cancelled": False}
    assert by_id[1]["finishReason"] == "cancelled"
    assert by_id[2]["finishReason"] == "stop"
    assert len(pipe.answers) == 5


def test_cancel_while_it_waits(pipe):
    pipe.completer.engine_state = "loading"
    pipe.send(completing(1), completing(2))
    pipe.send(call("c", "cancel", {"id": 1}))
    pipe.send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": 2}})
    pipe.run()
    assert pipe.answers[0] == {"jsonrpc": "2.0", "id": "c", "result": {"cancelled": True}}
    assert [answer["result"]["finishReason"] for answer in pipe.answers[1:]] == ["cancelled"] * 2
    assert pipe.requests == []


def test_requests_wait_until_the_model_is_loaded(pipe):
    pipe.completer.engine_state = "loading"
    pipe.send(completing(1))
    pipe.completer.engine_state = "ready"
    pipe.run()
    assert pipe.answers[0]["result"]["text"] == "<x>"


@pytest.mark.parametrize("state", ["failed", "off"])
def test_an_engine_that_cannot_answer(pipe, state):
    pipe.completer.engine_state = state
    answers = pipe.run(completing(1), completing(2), call(3, "statistics"))
    for answer in answers[:2]:
        assert answer["error"]["code"] == -32000
        assert answer["error"]["data"] == {"type": "EngineUnavailableError", "remedy": "Look up."}
    assert "result" in answers[2]


def test_a_bug_is_answered_reported_and_survived(pipe, caplog):
    def fail_once(asked: Asked) -> None:
        pipe.completer.script = lambda asked: asked.answer("fine")
        asked.future.set_exception(ZeroDivisionError("oops"))

    pipe.completer.script = fail_once
    broken, good = pipe.run(completing(1), completing(2))
    assert broken["error"]["code"] == -32603
    assert bugs(caplog) == [ZeroDivisionError]
    assert good["result"]["text"] == "fine"


def test_statistics_count_what_was_asked_before(pipe):
    answers = pipe.run(completing(1), completing(2), call(3, "statistics", {}))
    assert answers[2]["result"]["nRequests"] == 2
    n_fields = len(SessionStats.__dataclass_fields__)
    assert len(answers[2]["result"]) == n_fields


def test_what_was_accepted_is_learned(pipe):
    answers = pipe.run(
        completing(1, "a\nb\nc = d", path="m.py"),
        call(2, "accepted", {"id": 1}),
        completing(3, "e"),
        call(4, "accepted", {"id": 3, "text": "part"}),
        call(5, "accepted", {"text": "own", "prefix": "f", "path": "n.py"}),
        call(6, "accepted", {"text": ""}),
        call(7, "statistics"),
    )
    assert [answer["result"] for answer in answers[1:6:2]] == [
        {"nChars": 11}, {"nChars": 4}, {"nChars": 0},
    ]  # fmt: skip
    learned = [(text.path, text.before, text.text) for text in pipe.completer.learned]
    said = "<a\nb\nc = d>"
    assert learned == [("m.py", "b\nc = d", said), ("", "e", "part"), ("n.py", "f", "own")]
    assert answers[6]["result"]["learned"] == {"nTexts": 3, "nChars": 11 + 4 + 3}


def test_secrets_and_blank_texts_are_not_learned(pipe):
    secret = 'password = "q8Zr2hTn5WvXc9Lp4KdM"\n'
    answers = pipe.run(
        call(1, "accepted", {"text": secret, "path": "a.py"}),
        call(2, "accepted", {"text": "A=1", "path": ".env"}),
        call(3, "accepted", {"text": " \n"}),
        call(4, "statistics"),
    )
    assert [answer["result"] for answer in answers[:3]] == [{"nChars": 0}] * 3
    assert "learned" not in answers[3]["result"]
    assert pipe.completer.learned == []


def test_only_completions_can_be_accepted_and_only_once(pipe):
    answers = pipe.run(
        completing(1), call(2, "accepted", {"id": 1}), call(3, "accepted", {"id": 1}),
        call(4, "accepted", {"id": "other"}),
    )  # fmt: skip
    assert answers[1]["result"] == {"nChars": len("<x>")}
    for answer in answers[2:]:
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"] == {"field": "$.params.id"}


def test_shutdown_answers_what_came_before_it_and_reads_no_more(pipe):
    assert pipe.send(completing(1))
    assert not pipe.send(call(2, "shutdown"))
    pipe.run()
    assert [answer["id"] for answer in pipe.answers] == [1, 2]
    assert pipe.answers[1]["result"] is None


def test_a_shutdown_notification_ends_too(pipe):
    assert not pipe.send({"jsonrpc": "2.0", "method": "shutdown"})
    pipe.run()
    assert pipe.answers == []


def test_batches(pipe):
    note = {"jsonrpc": "2.0", "method": "statistics"}
    answers = pipe.run([completing(1), 5, note, call(2, "nope")], [note, note], completing(3))
    assert isinstance(answers[0], list)
    assert {answer["id"] for answer in answers[0]} == {1, 2, None}
    assert answers[1]["id"] == 3
    assert len(answers) == 2


def test_a_projects_file_is_hidden_behind_the_requests_text(tmp_path):
    pipe = Pipe(project=tmp_path, repo_name="repo")
    pipe.run(
        completing(1, "a", suffix="b", path="m.py"),
        completing(2, "c", path="m.py"),
        *(completing(f"n{i}", path=f"f{i}.py") for i in range(40)),
    )
    uri = (tmp_path / "m.py").as_uri()
    assert pipe.kinds()[:3] == ["open", "change", "open"]
    opened = pipe.completer.opened[0]
    assert (opened.uri, opened.text, opened.path) == (uri, "ab", "m.py")
    assert ("close_document", uri) in pipe.completer.calls
    assert pipe.kinds().count("close") == 41 - 32
    assert {request.repo_name for request in pipe.requests} == {"repo"}


@pytest.mark.parametrize(
    ("path", "file"),
    [("pkg/m.py", "pkg/m.py"), ("./a/../m.py", "m.py"), ("", None), ("a\0b", None)],
)
def test_file_of_a_request_in_a_project(tmp_path, path, file):
    pipe = Pipe(project=tmp_path)
    pipe.run(completing(1, path=path))
    (request,) = pipe.requests
    (opened,) = pipe.completer.opened
    expected = "" if file is None else str(tmp_path / file)
    assert (request.file, opened.file) == (expected, expected)


def test_without_a_project_there_is_no_file(pipe):
    pipe.run(completing(1, path="/etc/passwd"), completing(2, path="/etc/hosts"))
    assert [opened.file for opened in pipe.completer.opened] == ["", ""]
    (request,) = pipe.requests
    assert (request.path, request.file) == ("/etc/hosts", "")


def test_uris_differ_by_path_without_a_project(pipe):
    pipe.run(completing(1, path="a.py"), completing(2, path="b.py"))
    assert len({request.uri for request in pipe.requests}) == 2
    assert pipe.kinds() == ["open", "close"] * 2


def test_what_a_text_replaces_is_always_told_and_how_probable_it_is_beside_others():
    other = GeneratedText(completion_id="o", text="b", mean_logprob=-0.123456)
    result = result_of("a)", n_replaced=1, mean_logprob=-0.1, alternatives=(other,))
    for n_candidates in (1, 2):
        made = completion_object(result, cancelled=False, n_candidates=n_candidates)
        assert (made["text"], made["nReplaced"]) == ("a)", 1)
        assert made.get("meanLogprob") == (-0.1 if n_candidates == 2 else None)
        others = [{"text": "b", "nReplaced": 0, "meanLogprob": -0.1235}]
        assert made.get("alternatives") == (others if n_candidates == 2 else None)
