"""A remote engine behind the completer: what is sent, what comes back, and what it lacks."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from recording_server import RecordingServer, recording_server
from scripted_http import response, scripted_server
from scripted_models import ByteVocabulary, ScriptedLoader
from scripted_remote import DEAD, ScriptedRemote
from secret_forms import planted_secrets
from typed_requests import TypedWindow, request_at, typed_completer
from waiting import until

from speclsp.backends.http.engine import HttpEngine
from speclsp.backends.http.messages import Piece, RemoteModel
from speclsp.backends.http.target import RemoteLoader, StandInVocabulary, api_key
from speclsp.errors import EngineUnavailableError, OtherModelError, SettingsError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import Problem
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings

WAIT_S = 60
URL = "http://desk:8080"
HEALING = RemoteModel(
    kind="llama-server", name="qwen2.5-coder-7b", takes_text=True, logprobs=True, constrains=True
)
PLAIN = RemoteModel(kind="mistral", name="codestral-latest")


class Desk:
    """A window whose engine is scripted and elsewhere."""

    def __init__(self, engine: ScriptedRemote, *, waits: bool = True, **settings: Any) -> None:
        self.engine = engine
        self.settings = Settings(engine_url=URL, persist=False, debounce_ms=0, **settings)
        loader = RemoteLoader(ScriptedLoader(), lambda _settings, _key: engine)
        self.window: TypedWindow = typed_completer(self.settings, loader=loader)
        self.window.start()
        if waits:
            until(lambda: self.window.state() != "loading")

    def ask(self, text: str, **fields: Any) -> CompletionResult:
        request = request_at(text, **fields)
        return self.window.complete(request, CancellationToken()).result(WAIT_S)

    def close(self) -> None:
        self.window.close()

    def events_until(self, words: str) -> list[Any]:
        """Take events up to a line of the log or a state's message with some words."""
        found: list[Any] = []
        until(lambda: self._took(found) and words in getattr(found[-1], "message", ""))
        return found

    def _took(self, found: list[Any]) -> bool:
        event = self.window.next_event(0.05)
        found += [event] if event is not None else []
        return event is not None


@pytest.fixture
def desk(closed):
    return lambda engine, **settings: closed(Desk(engine, **settings))


def test_a_known_family_gets_the_anchored_prompt_as_text(desk):
    engine = ScriptedRemote("a", " + b", "\n", "def other():\n")
    found = desk(engine).ask("def add(a, b):\n    total = ¦\n    return total\n")
    assert found.generated.text == "a + b"
    (prompt, params), *_ = engine.sent
    assert prompt.text == (
        "<|repo_name|>p\n<|file_sep|>a.py\n<|fim_prefix|>def add(a, b):\n"
        "<|fim_suffix|>\n    return total\n<|fim_middle|>    total = "
    )
    assert prompt.tokens == ()
    assert params.wants_logprobs
    assert engine.n_given == 3, "the stream is closed where a stop rule ends the text"


def test_without_a_family_prefix_and_suffix_are_sent_with_line_ends_of_unix(desk):
    engine = ScriptedRemote("a + b", model=PLAIN)
    found = desk(engine).ask("def add(a, b):\r\n    return ¦\r\n\r\nprint(add(1, 2))\r\n")
    assert found.generated.text == "a + b"
    (prompt, _), *_ = engine.sent
    assert (prompt.text, prompt.tokens) == ("", ())
    assert prompt.prefix == "def add(a, b):\n    return "
    assert prompt.suffix == "\n\nprint(add(1, 2))\n"
    assert engine.prefilled == []


def test_token_ids_are_sent_only_where_the_server_has_the_vocabulary(desk):
    sample = "def area_of(self, box):\n    return box.width * box.height  # in m²\n"
    model = RemoteModel(kind="llama-server", name="any", takes_tokens=True, takes_text=True)
    known = dataclasses.replace(model, name="qwen2.5-coder-7b")
    same, other = ScriptedRemote("1", model=model), ScriptedRemote("1", model=known)
    same.vocabulary[sample] = ByteVocabulary().tokenize(sample).tolist()
    other.vocabulary[sample] = [1, 2, 3]
    for engine in (same, other):
        one = desk(engine, model="here.gguf")
        one.ask("x = ¦\n")
    # Its special tokens and its healing would be another model's.
    assert one.window.statistics().model.startswith("qwen2.5-coder-7b")
    assert (
        "runs qwen2.5-coder-7b, whose vocabulary is not"
        in one.events_until("vocabulary")[-1].message
    )
    (ids, _), (text, _) = same.sent[0], other.sent[0]
    middle = [*b"x = "]
    assert (list(ids.tokens[-len(middle) :]), ids.text) == (middle, "")
    assert text.tokens == ()
    assert text.text.endswith("<|fim_middle|>x = ")


def test_an_end_token_in_the_stream_ends_the_text(desk):
    engine = ScriptedRemote("one", "<|file_sep|>", "b.py\n")
    assert desk(engine).ask("x = ¦\n").generated.text == "one"
    assert engine.n_given == 2


def test_unsure_texts_are_withheld_by_the_servers_probabilities(desk):
    engine = ScriptedRemote()
    engine.pieces = [Piece("maybe", logprobs=(math.log(0.01),))]
    found = desk(engine).ask("x = ¦\n", trigger="automatic")
    assert (found.generated.text, found.is_withheld) == ("", True)
    assert found.unsure == pytest.approx(0.01)


def test_a_piece_that_repeats_typed_text_counts_by_its_share(desk):
    engine = ScriptedRemote(model=HEALING)
    engine.pieces = [Piece(" wid", logprobs=(-0.8,)), Piece("th", logprobs=(-0.3,))]
    found = desk(engine).ask("x = box. wi¦\n", trigger="invoked")
    (prompt, params), *_ = engine.sent
    assert params.begins_with == " wi"
    assert prompt.text.endswith("x = box.")
    assert found.generated.text == "dth"
    assert found.generated.mean_logprob == pytest.approx((-0.8 / 4 - 0.3) / 2)


def test_an_answer_that_does_not_begin_with_what_was_typed_is_refused(desk):
    one = desk(ScriptedRemote("other", model=HEALING))
    with pytest.raises(EngineUnavailableError, match="does not begin with what was typed") as error:
        one.ask("x = wi¦\n")
    assert "`healing`" in error.value.remedy


def asked_at(places: dict[str, str], root: Path, repo_name: str = "p") -> RecordingServer:
    """Return a server that was asked at a place of each file of a project."""
    with recording_server("qwen2.5-coder-7b", "area_of_1(box)") as server:
        window = typed_completer(Settings(engine_url=server.address, persist=False, n_prompt=4000))
        window.open_folder(WorkspaceFolder(root=str(root), name="p"))
        window.start()
        try:
            for name, text in places.items():
                request = request_at(
                    text,
                    path=name,
                    file=str(root / name),
                    repo_name=repo_name,
                    uri=f"file:///{name}",
                    origin="program",
                    wait_for_model=True,
                )
                window.complete(request, CancellationToken()).result(WAIT_S)
        finally:
            window.close()
    return server


@pytest.mark.slow
def test_no_secret_is_in_the_bytes_that_leave(tmp_path):
    """A hundred kinds of secrets, in open documents and in the project's files."""
    every = planted_secrets()
    for idx, planted in enumerate(every):
        for folder in (tmp_path / f"package_{idx}", tmp_path / f"other_{idx}"):
            file = folder / planted.name
            file.parent.mkdir(parents=True)
            file.write_text(planted.lines)
        (folder / f"boxes_{idx}.py").write_text(f"def area_of_{idx}(box):\n    return box\n")
    places = {
        f"package_{idx}/{one.name}": f"{one.lines}\n\nbox = Box()\nprint(area_of_{idx}¦)\n"
        for idx, one in enumerate(every)
    }
    server = asked_at(places, tmp_path)
    received = server.received.replace('\\"', '"').replace("\\\\", "\\")
    assert len(server.prompts) > 60
    assert "def area_of_" in received
    assert PLACEHOLDER in received
    for planted in every:
        for secret in planted.secrets:
            assert secret not in received, planted.kind


def test_no_token_in_a_files_name_leaves(tmp_path):
    token = "ghp_" + "aB3dE6gH9j" * 3 + "kL5mN8"
    names = [f"notes_{token}.py", f"{token}/boxes.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("def area_of_it(box):\n    return box\n")
    places = dict.fromkeys(names, "box = Box()\nprint(area_of_it¦)\n")
    server = asked_at(places, tmp_path, repo_name=token)
    assert len(server.prompts) == len(names)
    assert PLACEHOLDER in server.received
    assert token[4:] not in server.received


def test_a_dead_engine_fails_requests_at_once_and_comes_back_by_itself(desk):
    engine = ScriptedRemote("1")
    one = desk(engine)
    assert one.ask("x = ¦\n").generated.text == "1"
    engine.error = DEAD
    for text in ("y = ¦\n", "z = ¦\n", "yz = ¦\n", "zy = ¦\n"):
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            one.ask(text)
    assert one.window.state() == "ready"
    engine.error = None
    assert one.ask("w = ¦\n").generated.text == "1"
    said = one.events_until("answers again")
    assert [event.message for event in said if isinstance(event, Problem)] == [DEAD.message]


def test_another_model_on_the_server_is_taken_by_itself(desk):
    engine = ScriptedRemote("1")
    one = desk(engine)
    one.ask("x = ¦\n")
    engine.model = PLAIN
    engine.error = OtherModelError("The remote engine runs codestral-latest now.")
    engine.errors_end_with_connect = True
    with pytest.raises(EngineUnavailableError, match="codestral-latest"):
        one.ask("y = ¦\n")
    until(lambda: one.window.state() == "ready" and engine.n_connects == 2)
    assert one.ask("z = ¦\n").generated.text == "1"
    assert (engine.sent[-1][0].text, engine.sent[-1][0].prefix) == ("", "z = ")
    said = one.events_until("codestral-latest at desk")
    assert not [event for event in said if isinstance(event, Problem)]


def test_an_engine_that_is_not_there_yet_is_found_by_a_later_request(desk):
    engine = ScriptedRemote("1")
    engine.error = DEAD
    one = desk(engine)
    assert one.window.state() == "failed"
    for _ in range(3):
        n_before = engine.n_connects
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            one.ask("x = ¦\n")
        until(lambda n=n_before: engine.n_connects > n)
    engine.error = None
    with pytest.raises(EngineUnavailableError):
        one.ask("x = ¦\n")
    until(lambda: one.window.state() == "ready")
    assert one.ask("x = ¦\n").generated.text == "1"
    said = one.events_until("qwen2.5-coder-7b at desk")
    assert [event.message for event in said if isinstance(event, Problem)] == [DEAD.message]


def test_an_engine_that_never_connected_is_closed():
    settings = Settings(engine_url=URL)
    for end in (RemoteLoader.close, lambda loader: loader.tokenizer(Settings())):
        engine = ScriptedRemote()
        engine.error = DEAD
        loader = RemoteLoader(ScriptedLoader(), lambda _settings, _key, made=engine: made)
        with pytest.raises(EngineUnavailableError):
            loader.tokenizer(settings)
        end(loader)
        assert engine.is_closed


def test_a_window_that_closes_does_not_wait_for_a_server_that_hangs(desk):
    engine = ScriptedRemote()
    engine.hangs = True
    one = desk(engine, waits=False)
    until(lambda: engine.n_connects == 1)
    one.window.close()
    until(lambda: engine.is_closed)


def test_explain_shows_the_request_that_would_be_sent(desk):
    engine = ScriptedRemote("1")
    one = desk(engine)
    request = request_at("x = ¦\n", origin="program")
    explained = one.window.explain(request).result(WAIT_S)
    one.ask("x = ¦\n", origin="program")
    path, body = engine.request(*engine.sent[0])
    assert explained.request.partition("\n")[0] == f"POST {path}"
    assert json.loads(explained.request.partition("\n")[2]) == body


def test_a_stalled_stream_ends_at_the_deadline_with_the_text_so_far(desk):
    engine = ScriptedRemote("one", " + two")
    one = desk(engine)
    engine.go_on.clear()
    found = one.ask("x = ¦\n", deadline_ms=200)
    assert (found.generated.text, found.generated.finish_reason) == ("one", "deadline")


def test_a_text_that_broke_off_is_not_called_finished(desk):
    engine = ScriptedRemote("one")
    engine.stats.is_cut = True
    assert desk(engine).ask("x = ¦\n").generated.finish_reason == "deadline"


def test_a_server_that_accepts_and_never_answers_is_reported(desk):
    models = response(200, {"data": [{"id": "coder"}]})
    with scripted_server(lambda got: [models if got.method == "GET" else 60.0]) as server:
        one = desk(HttpEngine(server.url, "openai"))
        for text in ("x = ¦\n", "y = ¦\n"):
            assert one.ask(text, deadline_ms=100).generated.finish_reason == "deadline"
        with pytest.raises(EngineUnavailableError, match="did not begin to answer"):
            one.ask("z = ¦\n", deadline_ms=100)


def test_a_newer_request_leaves_a_stalled_stream(desk):
    engine = ScriptedRemote("one", " + two")
    one = desk(engine)
    engine.go_on.clear()
    stalled = one.window.complete(request_at("x = ¦\n"), CancellationToken())
    until(lambda: engine.n_given == 1)
    newer = one.window.complete(request_at("x = 7 * ¦\n"), CancellationToken())
    assert stalled.result(WAIT_S).generated.finish_reason == "cancelled"
    engine.go_on.set()
    assert newer.result(WAIT_S).generated.text == "one + two"


def test_idle_time_has_the_server_evaluate_what_the_next_prompts_begin_with(desk):
    engine = ScriptedRemote("1")
    one = desk(engine)
    long = "".join(f"def function_{idx}(argument):\n    return {idx}\n\n" for idx in range(400))
    one.ask(long + "x = ¦\n")
    assert one.window.wait_idle(WAIT_S)
    asked, planned = engine.sent[0][0].text, engine.prefilled[-1].text
    assert len(engine.prefilled) == 1
    assert len(planned) > 3 * len(asked)
    one.ask(long + "x = 5 + ¦\n")
    assert engine.sent[-1][0].text.startswith(planned[:-20])


def test_statistics_name_the_engine_and_what_it_lacks(desk):
    one = desk(ScriptedRemote("1", model=PLAIN))
    one.ask("x = ¦\n")
    stats = one.window.statistics()
    assert stats.engine == "mistral at desk:8080"
    assert stats.model == "codestral-latest (mistral at desk:8080)"
    assert "no drafts of this machine" in stats.lacks
    assert "no token healing" in stats.lacks
    assert (stats.totals.n_prompt, stats.totals.n_prompt_evaluated) == (7, 2)
    assert stats.totals.ms_network == 2.0


@pytest.mark.parametrize(
    "text", ["", "x = 1\n\n\n", "ΔΣ = '€'  # ok", "\ttab\r\n", "a_very_long_identifier_name"]
)
def test_the_stand_in_vocabulary_gives_back_every_text(text):
    vocabulary = StandInVocabulary("any", lambda _name: False)
    tokens = vocabulary.tokenize(text).tolist()
    assert b"".join(map(vocabulary.piece, tokens)).decode() == text
    assert vocabulary.tokenize(text).tolist() == tokens


def test_the_key_comes_from_the_file_or_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLSP_ENGINE_KEY", "from-environment")
    file = tmp_path / "key"
    file.write_text("from-file\n")
    assert api_key(Settings(engine_url=URL)) == "from-environment"
    assert api_key(Settings(engine_url=URL, engine_key_file=str(file))) == "from-file"
    for name in (str(tmp_path / "none"), "~nobody-of-this-name/key"):
        with pytest.raises(SettingsError, match="cannot be read"):
            api_key(Settings(engine_url=URL, engine_key_file=name))
    # A device ends nowhere.
    assert len(api_key(Settings(engine_url=URL, engine_key_file="/dev/zero"))) == 1 << 16
