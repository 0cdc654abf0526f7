"""The endpoints of a real ``speclsp http`` process with the embedded model."""

import json
import shutil
import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
from speclsp_http import CODE, HEAD, INFILL, TIMEOUT_S, Server
from waiting import until

from speclsp.cli import http as http_command
from speclsp.cli.window_completer import make_completer
from speclsp.engine_process.restarts import MAX_ENDS
from speclsp.errors import SettingsError
from speclsp.settings import Settings

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("http"), "--engine", "own", "--mode", "tree")
    yield server
    assert server.close() == ""


def test_infill_writes_what_stands_between(server):
    answer = server.ask("/infill", INFILL)
    assert "total" in answer["content"]
    assert answer["stop"] is True
    assert answer["tokens_predicted"] == answer["timings"]["predicted_n"] > 1
    assert answer["timings"]["draft_n_accepted"] > 0
    again = server.ask("/infill", {**INFILL, "response_fields": ["content", "timings/prompt_n"]})
    assert again == {"content": answer["content"], "timings/prompt_n": 1}


def test_a_streamed_text_is_the_whole_one(server):
    # No draft gives it whole; on a busy machine the last parts come with the result.
    body = {**INFILL, "input_prefix": "def merge(a, b):\n    ", "n_predict": 60}
    whole = server.ask("/infill", body)["content"]
    *parts, last = server.events("/infill", body)
    assert "".join(part["content"] for part in parts) == whole
    assert len(parts) > 1
    assert (last["content"], last["stop"], last["stop_type"]) == ("", True, "limit")


def test_raw_prompts_are_continued(server):
    body = {"prompt": HEAD, "n_predict": 8, "temperature": 0}
    answer = server.ask("/completion", body)
    assert answer["prompt"] == HEAD
    tokens = server.ask("/tokenize", {"content": HEAD})["tokens"]
    assert server.ask("/completion", {**body, "prompt": tokens})["content"] == answer["content"]
    many = server.ask("/completion", {**body, "prompt": [HEAD, "x = "]})
    assert [one["index"] for one in many] == [0, 1]
    assert many[0]["content"] == answer["content"]


def test_a_text_around_a_cursor_is_what_an_editor_would_insert(server):
    """Without a limit of its own it ends with its block, and the model's own text goes on."""
    body = {"input_prefix": HEAD, "input_suffix": "\n", "temperature": 0}
    fitted = server.ask("/infill", body)
    assert fitted["content"].rstrip().endswith("return total")
    assert "def " not in fitted["content"]
    assert fitted["timings"]["predicted_n"] == fitted["tokens_predicted"] < 60
    own = server.ask("/infill", {**body, "raw": True, "n_predict": 200})
    assert own["content"].startswith(fitted["content"])
    assert own["tokens_predicted"] > fitted["tokens_predicted"]
    assert own["content"].count("def ") > 0
    asked = {"prompt": HEAD, "suffix": "\n", "temperature": 0}
    (choice,) = server.ask("/v1/completions", asked)["choices"]
    assert (choice["text"], choice["finish_reason"]) == (fitted["content"], "stop")
    (choice,) = server.ask("/v1/completions", {**asked, "raw": True, "max_tokens": 200})["choices"]
    assert choice["text"] == own["content"]
    closed = {**body, "input_prefix": f"{CODE}add_hats(", "input_suffix": ")\n"}
    assert not server.ask("/infill", closed)["content"].endswith(")")


def test_it_ends_where_the_model_is_unsure(tmp_path):
    """Beside the same server without a threshold, streamed or whole, one text or several."""
    server = Server(tmp_path, "--engine", "own", "--mode", "tree", "--min-probability", "0.5")
    try:
        asked = {"temperature": 0, "n_predict": 40}
        body = {**asked, "input_prefix": f"{CODE}def add_", "input_suffix": "\n"}
        own = server.ask("/infill", {**body, "raw": True})
        cut = server.ask("/infill", body)
        assert cut["content"]
        assert own["content"].startswith(cut["content"])
        assert cut["tokens_predicted"] < own["tokens_predicted"]
        assert (cut["stop_type"], cut["timings"]["predicted_n"]) == (
            "limit",
            cut["tokens_predicted"],
        )
        parts = server.events("/infill", {**body, "stream": True})
        assert "".join(part["content"] for part in parts) == cut["content"]
        first, *others = server.ask("/infill", {**body, "n_cmpl": 3})
        assert first["content"] == cut["content"]
        assert all(one["tokens_predicted"] <= 16 for one in others)
        between = {**asked, "prompt": body["input_prefix"], "suffix": "\n"}
        (choice,) = server.ask("/v1/completions", between)["choices"]
        assert (choice["text"], choice["finish_reason"]) == (cut["content"], "stop")
        plain = {**asked, "prompt": body["input_prefix"]}
        assert server.ask("/completion", plain)["tokens_predicted"] == 40
    finally:
        assert server.close() == ""


PLACE = "import os\n\n\n"
"""A place where several beginnings are likely."""


def test_several_texts_are_a_list_whose_first_is_the_one_alone(server):
    """As llama.vscode asks at every key: n_cmpl is 3."""
    body = {"input_prefix": PLACE, "input_suffix": "", "n_predict": 16, "temperature": 0}
    alone = server.ask("/infill", body)
    found = server.ask("/infill", {**body, "n_cmpl": 3})
    texts = [one["content"] for one in found]
    assert texts[0] == alone["content"]
    assert 2 <= len(set(texts)) == len(texts) <= 3
    assert [one["index"] for one in found] == [*range(len(found))]
    assert all(one["tokens_predicted"] and one["stop"] for one in found)
    by_n = server.ask("/infill", {**body, "n": 3, "response_fields": ["content"]})
    assert [one["content"] for one in by_n] == texts


def test_where_one_beginning_is_likely_there_is_one_text(server):
    found = server.ask("/infill", {**INFILL, "n_cmpl": 3})
    assert [one["content"] for one in found] == [server.ask("/infill", INFILL)["content"]]


def test_several_texts_are_streamed_one_after_the_other(server):
    body = {"prompt": PLACE, "max_tokens": 8, "temperature": 0, "n": 2}
    whole = server.ask("/v1/completions", body)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    texts = ["", ""]
    ends = []
    for event in server.events("/v1/completions", body)[:-1]:
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["text"]
        ends += [choice["index"]] * (choice["finish_reason"] is not None)
    assert texts == [choice["text"] for choice in whole["choices"]]
    assert texts[0] != texts[1]
    assert ends == [0, 1]
    n_predicted = whole["usage"]["completion_tokens"]
    assert n_predicted == 16
    scored = server.ask("/completion", {"prompt": PLACE, "n_predict": 4, "n": 2, "n_probs": 1})
    assert [len(one["completion_probabilities"]) for one in scored] == [4, 4]


def test_a_prediction_is_drafted_from(server):
    words = {"prompt": "zebra_", "max_tokens": 16, "temperature": 0}
    plain = server.ask("/v1/completions", words, User_Agent="plain")
    text = plain["choices"][0]["text"]
    prediction = {"type": "content", "content": f"zebra_{text}"}
    predicted = server.ask(
        "/v1/completions", {**words, "prediction": prediction}, User_Agent="predicting"
    )
    assert predicted["choices"][0]["text"] == text
    assert predicted["timings"].get("draft_n_accepted", 0) > 0


def test_tokens_and_texts(server):
    text = "def f é🙂 <|fim_middle|>"
    tokens = server.ask("/tokenize", {"content": text})["tokens"]
    assert server.ask("/detokenize", {"tokens": tokens})["content"] == text
    plain = server.ask("/tokenize", {"content": "<|fim_middle|>", "parse_special": False})
    assert len(plain["tokens"]) > 1
    pieces = server.ask("/tokenize", {"content": "é", "with_pieces": True})["tokens"]
    assert [piece["piece"] for piece in pieces] == [[0xC3], [0xA9]]


def test_what_is_not_there_is_not_found(server):
    (model,) = server.ask("/v1/models")["data"]
    assert model["id"] == server.ask("/props")["model_alias"] == "embedded-target-f16"
    unknown = "/v1/models/another/one"
    for path, body in (("/nope", None), ("/infill", None), ("/health", {}), (unknown, None)):
        status, text = server.send(path, body)
        assert (status, json.loads(text)["error"]["type"]) == (404, "not_found_error")
    assert model["id"] in text
    assert server.ask("/health") == {"status": "ok"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/slots", "/metrics", "/v1/embeddings"])
def test_what_llama_server_has_beside_says_what_this_one_does(path, server):
    body = None if path in ("/slots", "/metrics") else {"messages": [], "stream": True}
    status, text = server.send(path, body)
    answer = json.loads(text)
    assert (status, answer["error"]["type"]) == (501, "not_supported_error")
    assert "speclsp http completes code" in answer["error"]["message"]
    if "chat" in path:  # llama.vim shows the message of a choice, whatever the status
        assert answer["choices"][0]["message"]["content"] == answer["error"]["message"]


WRONG = {
    "empty": ("/completion", b'{"prompt":""}', 400),
    "empty stream": ("/completion", b'{"prompt":"","stream":true}', 400),
    "streams": ("/completion", b'{"prompt":["a","b"],"stream":true}', 400),
    "large": ("/completion", b" " * (17 << 20), 413),
    "huge token": ("/completion", b'{"prompt":[1180591620717411303424]}', 400),
    "negative token": ("/completion", b'{"prompt":[-1]}', 400),
    "deep lists": ("/infill", b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}", 400),
    "deep objects": ("/infill", b'{"a":' * 9000 + b"1" + b"}" * 9000, 400),
    "detokenize": ("/detokenize", b'{"tokens":[99999]}', 500),
    "huge token as text": ("/detokenize", b'{"tokens":[1180591620717411303424]}', 500),
    "no token": ("/detokenize", b'{"tokens":[true]}', 500),
}
"""Beside what test_shapes.py compares with llama-server's answers, and test_bodies.py reads."""


@pytest.mark.parametrize("name", WRONG)
def test_errors_have_a_status_and_a_kind(name, server):
    path, raw, status = WRONG[name]
    found, text = server.send(path, raw=raw)
    error = json.loads(text)["error"]
    kind = "server_error" if status == 500 else "invalid_request_error"
    assert (found, error["code"], error["type"]) == (status, status, kind)
    assert error["message"]


def test_pages_and_other_hosts_are_refused(server):
    assert server.send("/infill", INFILL, Origin="http://evil.example")[0] == 403
    assert server.send("/health", Host="evil.example")[0] == 403
    assert server.send("/health", Host=f"localhost:{server.port}")[0] == 200


def hang_up(server: Server, body: dict[str, Any]) -> None:
    """Ask, and leave before the answer."""
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)
        if body.get("stream"):
            assert connection.recv(16)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_hangs_up_is_cancelled(is_streamed, server):
    """Otherwise thousands of tokens would come before the next answer."""
    endless = {
        **INFILL,
        "raw": True,
        "input_suffix": "",
        "n_predict": -1,
        "temperature": 2.0,
        "min_p": 0,
    }
    for _ in range(4):
        hang_up(server, {**endless, "stream": is_streamed})
    assert server.ask("/infill", INFILL)["content"]


def test_a_text_whose_engine_dies_ends_with_an_error_and_the_next_has_another(tmp_path):
    server = Server(tmp_path, "--engine-exit-seconds", "1")
    long = {"prompt": HEAD, "n_predict": -1, "temperature": 0, "stream": True}
    stream = urllib.request.Request(f"{server.address}/completion", json.dumps(long).encode())
    try:
        for _ in range(MAX_ENDS):
            with urllib.request.urlopen(stream, timeout=TIMEOUT_S) as answer:
                assert json.loads(answer.readline().removeprefix(b"data: "))["content"]
                for engine in engines_of(server):
                    engine.kill()
                last = answer.read().strip().split(b"\n\n")[-1]
            assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == 503
        with ThreadPoolExecutor() as pool:
            bodies = [asked(name) for name in ("ash", "birch", "cedar")]
            answers = pool.map(lambda body: server.ask("/infill", body), bodies)
            assert all(answer["prompt"] for answer in answers)
    finally:
        server.close()


def engines_of(server: Server) -> list[psutil.Process]:
    """Return the processes of a server's engine, which have the server's environment."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "environ"])
        if "run" in (process.info["cmdline"] or ())
        and (process.info["environ"] or {}).get("XDG_RUNTIME_DIR") == str(server.run)
    ]


def test_clients_at_once_are_answered_by_their_own_texts(server):
    names = ("ash", "birch", "cedar", "dogwood")
    prompts: dict[str, list[str]] = {name: [] for name in names}

    def run(name: str) -> None:
        for _ in range(5):
            answer = server.ask("/infill", asked(name), User_Agent=name)
            prompts[name].append(answer["prompt"])

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    for name, sent in prompts.items():
        assert len(sent) == 5
        for prompt in sent:
            assert [other for other in names if f"# {other}\n" in prompt] == [name]


def test_a_program_is_told_of_its_own_earlier_prompts_only(server):
    """Otherwise a guess of another's next token shows as one more cached token."""
    body = {**INFILL, "input_prefix": f"{HEAD}    # of one program\n"}
    fields = {"response_fields": ["timings/cache_n", "timings/prompt_n", "tokens_evaluated"]}
    server.ask("/infill", body, User_Agent="one")
    first = server.ask("/infill", {**body, **fields}, User_Agent="another")
    n_prompt = first["tokens_evaluated"]
    assert first == {
        "timings/cache_n": 0,
        "timings/prompt_n": n_prompt,
        "tokens_evaluated": n_prompt,
    }
    again = server.ask("/infill", {**body, **fields}, User_Agent="another")
    assert again["timings/cache_n"] == n_prompt - 1
    usage = server.ask("/v1/completions", {"prompt": "one ", "max_tokens": 1}, User_Agent="one")
    usage = server.ask("/v1/completions", {"prompt": "one ", "max_tokens": 1}, User_Agent="other")
    assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def asked(name: str) -> dict[str, Any]:
    return {**INFILL, "input_prefix": f"{HEAD}    # {name}\n"}


def test_other_machines_need_a_key(tmp_path):
    server = Server(tmp_path, "--host", "0.0.0.0")
    assert server.line == ""
    _, errors = server.process.communicate(timeout=TIMEOUT_S)
    assert "no API key is set" in errors
    assert server.process.returncode == 1
    shutil.rmtree(server.run)


def test_a_port_in_use_is_one_line_with_a_remedy():
    with http_command._listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SettingsError, match=f"^Port {port} of 127.0.0.1 .*: Address already"):
            http_command._listener("127.0.0.1", port)


def test_no_answers_body_waits_for_the_clients_delayed_acknowledgement():
    with (
        http_command._listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_editors_and_programs_share_one_engine(tmp_path, monkeypatch):
    server = Server(tmp_path, "--engine-exit-seconds", "1")
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(server.run))
    window = make_completer(Settings(threads=1, engine_exit_seconds=1))
    try:
        assert server.ask("/infill", INFILL)["content"]
        window.start()
        until(lambda: window.state() == "ready")
        assert len([*server.run.rglob("*.sock")]) == 1
        assert server.ask("/infill", INFILL)["content"]
    finally:
        window.close()
        assert server.end() == ""
    shutil.rmtree(server.run)


@pytest.mark.usefixtures("private_folders")
def test_an_engine_of_its_own_is_one_for_all_clients():
    make, close = http_command._completers(Settings(engine="own", persist=False))
    clients = [make(), make()]
    first, second = (getattr(client, "_engine", None) for client in clients)
    assert first is second is not None
    for client in clients:
        client.close()
    close()


def test_programs_share_an_engine_and_leave_nothing_on_disk(tmp_path):
    """The project's files are drafted from; what was sent is in no file."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "shop.py").write_text(CODE)
    server = Server(tmp_path, "--project", str(project), "--engine-exit-seconds", "1")
    try:
        mark = "quokka_secret_of_the_client"
        body = {**INFILL, "input_prefix": f"# {mark}\ndef add_socks(items):\n"}
        until(lambda: server.ask("/infill", body)["timings"].get("draft_n_accepted"))
    finally:
        assert server.end() == ""
    kept = server.kept(tmp_path)
    assert kept
    assert [path for path in kept if mark.encode() in path.read_bytes()] == []
    shutil.rmtree(server.run)
