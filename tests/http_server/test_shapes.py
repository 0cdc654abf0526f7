"""Each request's shape of answer: ours beside what a real llama-server answers.

``llama_server_shapes.json`` holds llama-server's, of llama.cpp in the locked llama-cpp-python; a
test compares it with a real one where there is one (tests/support/built_llama_server.py), and
``SPECLSP_RECORD_SHAPES=1`` writes it anew.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from built_llama_server import WHY_NOT, built_llama_server
from client_recordings import recorded_clients, recording
from llama_server_process import KEY, running_llama_server
from speclsp_http import HEAD, TIMEOUT_S, Server

pytestmark = pytest.mark.real

RECORD = Path(__file__).with_name("llama_server_shapes.json")
INFILL: Final = {"input_prefix": HEAD, "input_suffix": "\n", "n_predict": 6, "temperature": 0}
RAW: Final = {"prompt": HEAD, "n_predict": 6, "temperature": 0}
OPENAI: Final = {"prompt": HEAD, "max_tokens": 6, "temperature": 0}
LONG: Final = "x " * 9000

REQUESTS: dict[str, tuple[str, Any]] = {
    "infill": ("/infill", INFILL),
    "infill streamed": ("/infill", {**INFILL, "stream": True}),
    "infill with context": (
        "/infill",
        {**INFILL, "input_extra": [{"filename": "tax.py", "text": "TAX = 1\n"}]},
    ),
    "infill, chosen fields": (
        "/infill",
        {**INFILL, "response_fields": ["content", "timings/prompt_n", "nope"]},
    ),
    "infill, warming": ("/infill", {**INFILL, "n_predict": 0}),
    "infill, no suffix": ("/infill", {"input_prefix": ""}),
    "infill, bad context": ("/infill", {**INFILL, "input_extra": [{"filename": "a"}]}),
    "infill, bad number": ("/infill", {**INFILL, "n_predict": "x"}),
    "completion": ("/completion", RAW),
    "completion streamed": ("/completion", {**RAW, "stream": True}),
    "completion of tokens": ("/completion", {**RAW, "prompt": [100, 101, 102]}),
    "completion of a mixture": ("/completion", {**RAW, "prompt": ["def ", 100, "x"]}),
    "completion of two": ("/completion", {**RAW, "prompt": [HEAD, "x = "]}),
    "completion, scores": ("/completion", {**RAW, "n_probs": 2}),
    "completion, tokens": ("/completion", {**RAW, "return_tokens": True}),
    "completion, a stop": ("/completion", {**RAW, "n_predict": 40, "stop": ["\n"]}),
    "completion, too long": ("/completion", {**RAW, "prompt": LONG}),
    "completion, no prompt": ("/completion", {}),
    "completion, bad token": ("/completion", {**RAW, "prompt": [999999]}),
    "completion, half a character": ("/completion", {**RAW, "prompt": "é" * 60, "n_predict": 7}),
    "openai": ("/v1/completions", OPENAI),
    "openai streamed": ("/v1/completions", {**OPENAI, "stream": True}),
    "openai streamed, usage": (
        "/v1/completions",
        {**OPENAI, "stream": True, "stream_options": {"include_usage": True}},
    ),
    "openai, scores": ("/v1/completions", {**OPENAI, "logprobs": 2}),
    "openai of two": ("/v1/completions", {**OPENAI, "prompt": [HEAD, "x = "]}),
    "openai, a stop": ("/v1/completions", {**OPENAI, "max_tokens": 40, "stop": ["\n"]}),
    "openai, no prompt": ("/v1/completions", {}),
    "tokenize": ("/tokenize", {"content": "def é"}),
    "tokenize, pieces": ("/tokenize", {"content": "def é", "with_pieces": True}),
    "detokenize": ("/detokenize", {"tokens": [100, 101]}),
    "models": ("/v1/models", None),
    "health": ("/health", None),
    "props": ("/props", None),
    "nothing there": ("/nope", None),
    "no JSON": ("/completion", b"{bad"),
}

RECORDED: Final[dict[str, tuple[str, Any]]] = {
    f"{client} {number}": (entry["path"], entry["body"])
    for client in recorded_clients("http")
    for number, entry in enumerate(recording(client)["entries"], 1)
}
"""What plugins sent (tests/clients)."""
REQUESTS |= RECORDED

FEWER: Final = {
    "props": "the properties that plugins read",
    "generation_settings": "the settings that there are here",
    "meta": "the size of the vocabulary",
    "data": "the fields of OpenAI's API",
    "models": "the list of OpenAI's API alone",
}
"""Objects with fewer fields than llama-server's, and what they have."""
MORE: Final = {"draft_n", "draft_n_accepted"}
"""Fields of a llama-server that speculates; the recorded one does not."""
ENDS: Final = {"finish_reason 0", "stop_type"}
"""How a text ends; around a cursor it ends earlier here."""
EMPTY: Final = {"tokens"}
"""Lists that are empty here in the parts of a stream."""


def shape(value: Any) -> Any:
    """Return the kinds of values, a list's by its first one."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def said(value: Any) -> dict[str, Any]:
    """Return the values that mean something to a program, by their paths."""
    found: dict[str, Any] = {}
    for name in ("stop", "stop_type", "stopping_word", "truncated", "object", "index", "status"):
        if isinstance(value, dict) and name in value:
            found[name] = value[name]
    for choice in value.get("choices", []) if isinstance(value, dict) else []:
        found[f"finish_reason {choice['index']}"] = choice["finish_reason"]
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        found["error"] = [error["code"], error["type"]]
    return found


def ask(address: str, path: str, body: Any, key: str = "") -> Any:
    """Return the status, and what the answer or its first and last events look like and say."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(address + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    if not text.startswith("data: "):
        found = json.loads(text)
        return {"status": status, "shape": shape(found), "said": said(found)}
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    ends_with_done = events[-1] == "[DONE]"
    parts = [json.loads(event) for event in events if event != "[DONE]"]
    return {
        "status": status,
        "first": {"shape": shape(parts[0]), "said": said(parts[0])},
        "last": {"shape": shape(parts[-1]), "said": said(parts[-1])},
        "done": ends_with_done,
    }


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("shapes"), "--engine", "own")
    yield server
    assert server.close() == ""


def test_the_record_is_what_a_real_server_answers(tmp_path):
    if built_llama_server() is None:
        pytest.skip(WHY_NOT)
    # llama.vscode asks for three texts, each of which takes a slot.
    with running_llama_server(tmp_path, "--parallel", "4") as address:
        found = {name: ask(address, *request, key=KEY) for name, request in REQUESTS.items()}
    if os.environ.get("SPECLSP_RECORD_SHAPES"):
        lines = (f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in found)
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    assert found == json.loads(RECORD.read_text(encoding="utf-8"))


def test_plugins_were_recorded():
    clients = {name.rpartition(" ")[0] for name in RECORDED}
    assert {"llama.vim", "llama.vscode", "minuet-ai.nvim"} <= clients


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_look_like_llama_servers(name, server, recorded):
    ours, theirs = ask(server.address, *REQUESTS[name]), recorded[name]
    assert ours["status"] == theirs["status"]
    assert ours.keys() == theirs.keys()
    for part in ("first", "last") if "first" in theirs else ("",):
        found, expected = (ours[part], theirs[part]) if part else (ours, theirs)
        is_ended_here = name in RECORDED and "suffix" in REQUESTS[name][1]
        ends = ENDS if is_ended_here else set()
        assert found["said"].keys() == expected["said"].keys()
        assert {one: found["said"][one] for one in found["said"].keys() - ends} == {
            one: expected["said"][one] for one in expected["said"].keys() - ends
        }
        assert differences(found["shape"], expected["shape"], name) == []
    assert ours.get("done") == theirs.get("done")


def differences(ours: Any, theirs: Any, where: str) -> list[str]:
    """Return how a shape differs from llama-server's, but for what ``FEWER`` allows."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        more = sorted(ours.keys() - theirs.keys() - MORE)
        found = [f"{where}: more: {name}" for name in more]
        if where.rpartition("/")[2].rstrip("[]") not in FEWER:
            found += [f"{where}: fewer: {name}" for name in sorted(theirs.keys() - ours.keys())]
        for name in ours.keys() & theirs.keys():
            found += differences(ours[name], theirs[name], f"{where}/{name}")
        return found
    if isinstance(theirs, list) and isinstance(ours, list) and theirs and ours:
        return differences(ours[0], theirs[0], f"{where}[]")
    if not ours and where.rpartition("/")[2] in EMPTY and "streamed" in where:
        return []
    return [] if ours == theirs else [f"{where}: {ours!r} instead of {theirs!r}"]
