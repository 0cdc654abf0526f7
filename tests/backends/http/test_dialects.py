"""Each kind of server: what it is asked, and what is read from answers in its format.

The answers are as the servers' documentation and source give them, with the fields that matter.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from scripted_http import Request, ScriptedServer, response, scripted_server, stream
from waiting import until

from speclsp.backends.http.engine import HttpEngine
from speclsp.backends.http.messages import (
    Piece,
    RemoteModel,
    RemoteParams,
    RemotePrompt,
    RemoteStats,
)
from speclsp.errors import RemoteError

DONE = b"data: [DONE]\n\n"
BOTH = RemotePrompt(
    prefix="a = ", suffix="\n", path="m.py", chunks=(("n.py", "b = 2\n"),), text="<P>a = <S>\n<M>"
)
FIELDS = RemotePrompt(prefix="a = ", suffix="\n", path="m.py", chunks=(("n.py", "b = 2\n"),))
IDS = RemotePrompt(prefix="a = ", suffix="\n", text="<P>a = <S>\n<M>", tokens=(7, 8, 9))
CONTEXT = {"prompt": "# n.py\nb = 2\n\n\n# m.py\na = ", "suffix": "\n"}

LLAMA_PROPS = {
    "default_generation_settings": {"params": {}, "n_ctx": 4096},
    "total_slots": 4,
    "model_alias": "coder",
}
LLAMA_MODELS = {"models": [{}], "data": [{"id": "coder", "meta": {"n_vocab": 152064}}]}


def llama_event(text: str, token: int, **more: object) -> dict[str, object]:
    return {"index": 0, "content": text, "tokens": [token], "stop": False, "id_slot": 1, **more}


def timings(n_predicted: int, **drafts: int) -> dict[str, object]:
    counts = {"cache_n": 90, "prompt_n": 10, "prompt_ms": 0.25, "predicted_n": n_predicted}
    return {"timings": {**counts, "predicted_ms": 1.0, "predicted_per_token_ms": None, **drafts}}


def choice(text: str, **more: object) -> dict[str, object]:
    chosen = {"index": 0, "text": text, "logprobs": None, "finish_reason": None, **more}
    return {"id": "cmpl-1", "object": "text_completion", "model": "coder", "choices": [chosen]}


def usage(**counts: object) -> dict[str, object]:
    return {"id": "cmpl-1", "choices": [], "usage": {"total_tokens": 12, **counts}}


def ollama_line(text: str, **more: object) -> bytes:
    return json.dumps({"model": "coder", "response": text, "done": False, **more}).encode() + b"\n"


@contextmanager
def served(answers: dict[str, object]) -> Iterator[ScriptedServer]:
    """Serve answers by path, which may be functions of the request; 404 elsewhere.

    Bytes are sent as they are, objects as JSON, and lists as streams.
    """

    def script(request: Request) -> Iterable[bytes | float]:
        answer = answers.get(request.path, response(404))
        if callable(answer):
            answer = answer(request.json)
        if isinstance(answer, list):
            return stream(*answer)
        return [answer if isinstance(answer, bytes) else response(200, answer)]

    with scripted_server(script) as server:
        yield server


def streamed(
    server: ScriptedServer, prompt: RemotePrompt, kind: str = "auto", **params: Any
) -> tuple[RemoteModel, list[Piece], RemoteStats, Any]:
    """Return what a server is, its answer, and the request for that."""
    engine = HttpEngine(server.url, kind)
    model = engine.connect()
    given = RemoteParams(**{"n_predict": 8, **params})
    pieces = list(engine.stream(prompt, given, lambda: False, 60.0))
    stats = engine.stats
    engine.close()
    # Ollama is asked to load the model, too.
    asked = [request for request in server.requests if b'"prompt"' in request.body]
    return model, pieces, stats, asked[-1]


def test_llama_server():
    events = [
        llama_event(" 1", 352, **timings(1), completion_probabilities=[{"logprob": -0.25}]),
        llama_event("é", 200, **timings(4, draft_n=3, draft_n_accepted=2)),
        {"content": "", "tokens": [], "stop": True, **timings(5, draft_n=3, draft_n_accepted=2)},
    ]
    slots = ((0, 12), (1, 30), (2, 8), (3, 21))
    answers = {
        "/props": LLAMA_PROPS,
        "/v1/models": LLAMA_MODELS,
        "/slots": response(200, [{"id": idx, "id_task": task} for idx, task in slots]),
        "/completion": events,
    }
    with served(answers) as server:
        model, pieces, stats, request = streamed(
            server, IDS, wants_logprobs=True, stop=("<E>",), begins_with='"x'
        )
    assert model == RemoteModel(
        kind="llama-server",
        name="coder",
        n_ctx=4096,
        n_vocab=152064,
        n_slots=4,
        slot=2,
        takes_tokens=True,
        takes_text=True,
        logprobs=True,
        constrains=True,
    )
    # The ids of a character's first tokens are missing, so that none is passed on.
    assert pieces == [Piece(" 1", (352,), (-0.25,)), Piece("é")]
    assert (stats.n_prompt, stats.n_cached, stats.n_generated) == (100, 90, 5)
    assert (stats.n_drafted, stats.n_accepted) == (3, 2)
    assert 0.0 < stats.ms_network == pytest.approx(stats.ms_first - 0.25)
    sent = request.json
    assert (sent["prompt"], sent["id_slot"], sent["n_probs"]) == ([7, 8, 9], 2, 1)
    assert (sent["cache_prompt"], sent["stop"]) == (True, ["<E>"])
    assert sent["grammar"] == 'root ::= "\\x22x" [^\\x00]*'


@pytest.mark.parametrize(
    ("slots", "chosen"),
    [
        ([{"id_task": 3}, {"id_task": 0}, {}, {"id_task": 9}], {2}),
        ([{}, {"id_task": 0}, {}, {}], {0, 2, 3}),
        ([{"id_task": 3}], {-1}),
        (response(501, {"error": {"message": "--no-slots"}}), {-1}),
    ],
    ids=["one is unused", "several are unused", "fewer than announced", "not listed"],
)
def test_a_window_takes_the_slot_that_was_used_longest_ago(slots, chosen):
    listed = slots if isinstance(slots, bytes) else response(200, slots)
    answers = {"/props": LLAMA_PROPS, "/v1/models": LLAMA_MODELS, "/slots": listed}
    with served({**answers, "/completion": [llama_event("1", 16)]}) as server:
        now = [0.0]
        engine = HttpEngine(server.url, clock=lambda: now[0])
        slot = engine.connect().slot
        assert slot in chosen
        answers["/slots"] = response(200, [{"id_task": 99}] * 4)
        for now[0] in (0.0, 60.0):  # the server is looked at again after a pause
            list(engine.stream(BOTH, RemoteParams(n_predict=1), lambda: False, 60.0))
            assert server.requests[-1].json["id_slot"] == slot
        engine.close()


def test_llama_server_lays_out_what_we_cannot():
    answers = {"/props": LLAMA_PROPS, "/v1/models": LLAMA_MODELS, "/infill": [llama_event("1", 16)]}
    with served(answers) as server:
        _, pieces, _, request = streamed(server, FIELDS)
    assert pieces == [Piece("1", (16,))]
    sent = request.json
    assert (sent["input_prefix"], sent["input_suffix"]) == ("a = ", "\n")
    assert sent["input_extra"] == [{"filename": "n.py", "text": "b = 2\n"}]


def test_a_router_is_asked_for_one_of_its_models():
    router = {"role": "router", "default_generation_settings": {"n_ctx": 0}}
    answers = {
        "/props": router,
        "/v1/models": {"data": [{"id": "a/b c"}, {"id": "other"}]},
        "/props?model=a%2Fb%20c": LLAMA_PROPS,
        "/completion": [llama_event("1", 16)],
    }
    with served(answers) as server:
        vague, engine = HttpEngine(server.url), HttpEngine(server.url, model="a/b c")
        with pytest.raises(RemoteError, match="lists 2 models") as found:
            vague.connect()
        assert "a/b c, other" in found.value.remedy
        assert (engine.connect().name, engine.connect().n_slots) == ("a/b c", 4)
        list(engine.stream(BOTH, RemoteParams(n_predict=1), lambda: False, 60.0))
        assert server.requests[-1].json["model"] == "a/b c"
        vague.close()
        engine.close()


@pytest.mark.parametrize("owner", ["vllm", "sglang"])
def test_vllm_and_sglang_take_token_ids(owner):
    events = [
        choice(" 1", logprobs={"tokens": [" 1"], "token_logprobs": [-0.5], "top_logprobs": [{}]}),
        choice("23", logprobs={"tokens": ["23"], "token_logprobs": [None]}, finish_reason="stop"),
        usage(prompt_tokens=10, completion_tokens=2, prompt_tokens_details={"cached_tokens": 8}),
        DONE,
    ]
    listed = {"object": "list", "data": [{"id": "coder", "owned_by": owner, "max_model_len": 9}]}
    answers = {"/v1/models": listed, "/v1/completions": events, "/tokenize": {"tokens": [1, 2]}}
    with served(answers) as server:
        model, pieces, stats, request = streamed(
            server, IDS, temperature=0.5, seed=3, wants_logprobs=True, stop=tuple("abcdef")
        )
        engine = HttpEngine(server.url)
        engine.connect()
        assert engine.tokenize("x") == [1, 2]
        engine.close()
    assert (model.kind, model.name, model.n_ctx) == ("openai", "coder", 9)
    assert model.takes_tokens
    assert model.logprobs
    assert pieces == [Piece(" 1", (), (-0.5,)), Piece("23")]
    assert (stats.n_prompt, stats.n_cached, stats.n_generated) == (10, 8, 2)
    sent = request.json
    assert (sent["prompt"], sent["logprobs"], sent["seed"]) == ([7, 8, 9], 1, 3)
    assert (sent["top_k"], sent["stop"]) == (-1, list("abcd"))
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert "suffix" not in sent


def test_other_servers_with_openais_api_take_text():
    listed = {"data": [{"id": "coder", "object": "model", "owned_by": "organization_owner"}]}
    with served({"/v1/models": listed, "/v1/completions": [choice("1"), DONE]}) as server:
        model, pieces, stats, request = streamed(server, IDS, wants_logprobs=True)
        assert request.json["prompt"] == IDS.text
        assert not {"suffix", "logprobs", "seed", "stop", "top_k"} & request.json.keys()
        *_, request = streamed(server, FIELDS)
        assert request.json["suffix"] == "\n"
    assert not model.takes_tokens
    assert pieces == [Piece("1")]
    assert stats.n_generated == 1


def test_a_provider_serves_models_that_it_does_not_list():
    for listing in ({"data": [{"id": "chat"}]}, [{"id": "chat"}]):
        answers = {"/v1/models": response(200, listing), "/v1/completions": [choice("1")]}
        with served(answers) as server:
            engine = HttpEngine(server.url, model="coder")
            assert engine.connect() == RemoteModel(kind="openai", name="coder", takes_text=True)
            assert list(engine.stream(BOTH, RemoteParams(n_predict=1), lambda: False, 60.0))
            assert server.requests[-1].json["model"] == "coder"
            engine.close()


def test_ollama():
    lines = [
        ollama_line(" 1", logprobs=[{"token": " 1", "logprob": -0.5, "bytes": [32, 49]}]),
        ollama_line(
            "",
            done=True,
            done_reason="stop",
            prompt_eval_count=5,
            prompt_eval_duration=250_000,
            eval_count=1,
            total_duration=9_000_000,
        ),
    ]
    answers = {
        "/api/version": {"version": "0.12.11"},
        "/api/tags": {"models": [{"name": "coder:latest", "model": "coder:latest"}]},
        "/api/show": {"parameters": 'stop "<E>"\nnum_ctx                        8192'},
        "/api/generate": lines,
    }
    with served(answers) as server:
        model, pieces, stats, request = streamed(server, BOTH, wants_logprobs=True, seed=3)
        assert (request.json["prompt"], request.json["raw"]) == (BOTH.text, True)
        assert request.json["options"]["num_predict"] == 8
        assert request.json["options"]["seed"] == 3
        *_, request = streamed(server, FIELDS)
        assert {name: request.json[name] for name in ("prompt", "suffix")} == CONTEXT
        assert "raw" not in request.json
    assert (model.kind, model.name, model.n_ctx) == ("ollama", "coder:latest", 8192)
    assert pieces == [Piece(" 1", (), (-0.5,))]
    assert (stats.n_prompt, stats.n_generated) == (5, 1)
    assert stats.ms_network == pytest.approx(stats.ms_first - 0.25)


def test_ollama_loads_a_model_though_requests_are_cancelled():
    """It gives up loading where a request that needs the model is cancelled."""
    is_loaded = False

    def generate(request: dict[str, object]) -> object:
        # 60 s: the server waits for the client to leave.
        return [ollama_line("1")] if is_loaded else [60.0] if "prompt" in request else {}

    answers = {
        "/api/version": {"version": "0.12.11"},
        "/api/tags": {"models": [{"model": "coder:latest"}]},
        "/api/generate": generate,
    }
    with served(answers) as server:
        engine = HttpEngine(server.url)

        def loads() -> int:
            found = [r for r in server.requests if r.path == "/api/generate"]
            return sum(request.json == {"model": "coder:latest"} for request in found)

        engine.connect()
        until(lambda: loads() == 1)
        asked = engine.stream(
            BOTH, RemoteParams(n_predict=1), lambda: "prompt" in server.requests[-1].json, 60.0
        )
        assert list(asked) == []
        until(lambda: loads() == 2)
        is_loaded = True
        asked = engine.stream(BOTH, RemoteParams(n_predict=1), lambda: False, 60.0)
        assert [piece.text for piece in asked] == ["1"]
        assert loads() == 2
        engine.close()


def test_mistral():
    def chunk(text: str, **more: object) -> dict[str, object]:
        delta = {"role": "assistant", "content": text}
        chosen = {"index": 0, "delta": delta, "finish_reason": None}
        return {"id": "1", "object": "chat.completion.chunk", "choices": [chosen], **more}

    counts = {"usage": {"prompt_tokens": 9, "total_tokens": 11, "completion_tokens": 2}}
    events = [chunk(""), chunk(" 1"), chunk("2", **counts), DONE]
    listed = {"data": [{"id": "codestral-latest", "max_context_length": 256000}]}
    with served({"/v1/models": listed, "/v1/fim/completions": events}) as server:
        model, pieces, stats, request = streamed(server, BOTH, "mistral", seed=3, stop=("E",))
    assert (model.name, model.n_ctx) == ("codestral-latest", 256000)
    assert not model.takes_text
    assert [piece.text for piece in pieces] == [" 1", "2"]
    assert (stats.n_prompt, stats.n_generated) == (9, 2)
    assert request.json == {
        "model": "codestral-latest",
        **CONTEXT,
        "max_tokens": 8,
        "temperature": 0.0,
        "top_p": 1.0,
        "stream": True,
        "stop": ["E"],
        "random_seed": 3,
    }


def test_deepseek():
    counts = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}
    events = [choice(" 1"), choice("2", finish_reason="length"), usage(**counts), DONE]
    listed = {"data": [{"id": "deepseek-chat", "owned_by": "deepseek"}]}
    with served({"/models": listed, "/beta/completions": events}) as server:
        server.url += "/beta"
        model, pieces, stats, request = streamed(server, BOTH, "deepseek", wants_logprobs=True)
    assert (model.name, model.takes_text) == ("deepseek-chat", False)
    assert [piece.text for piece in pieces] == [" 1", "2"]
    assert (stats.n_prompt, stats.n_cached, stats.n_generated) == (9, 4, 2)
    assert request.json == {
        "model": "deepseek-chat",
        **CONTEXT,
        "max_tokens": 8,
        "temperature": 0.0,
        "top_p": 1.0,
        "stream": True,
        "logprobs": 1,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("status", [401, 403])
def test_a_gateway_that_refuses_unknown_paths_is_found(status):
    refused = response(status, {"error": {"message": "no access"}})
    listed = {"data": [{"id": "coder", "object": "model"}]}
    paths = ("/props", "/api/version", "/api/tags")
    answers = {**dict.fromkeys(paths, refused), "/v1/completions": [choice("1"), DONE]}
    with served({**answers, "/v1/models": listed}) as server:
        model, pieces, _, _ = streamed(server, BOTH)
        assert (model.kind, pieces) == ("openai", [Piece("1")])
    with served({**answers, "/v1/models": refused}) as server:
        engine = HttpEngine(server.url)
        with pytest.raises(RemoteError, match="refuses the key") as found:
            engine.connect()
        assert "engine_kind" in found.value.remedy
        engine.close()


@pytest.mark.parametrize("kind", ["auto", "llama-server", "openai", "ollama"])
def test_what_is_no_engine_is_told(kind):
    with served({"/props": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"}) as server:
        engine = HttpEngine(server.url, kind)
        with pytest.raises(RemoteError, match="does not answer like") as found:
            engine.connect()
        assert "engine_kind" in found.value.remedy
        engine.close()


ODD = {
    "default_generation_settings": 5,
    "role": "router",
    "total_slots": "many",
    "version": None,
    "parameters": 5,
    "capabilities": 5,
    "models": [{"model": "x"}],
    "data": [{"id": "x", "meta": [], "max_model_len": -5}],
}


@pytest.mark.parametrize(
    "answer", [[], "text", 5, {"data": 5}, {"data": [5]}, {"data": [{}]}, ODD], ids=repr
)
def test_odd_answers_are_no_crash(answer):
    paths = (
        "/props",
        "/props?model=x",
        "/slots",
        "/slots?model=x",
        "/v1/models",
        "/api/version",
        "/api/tags",
        "/api/show",
    )
    with served(dict.fromkeys((*paths, "/models"), answer)) as server:
        for kind in ("auto", "llama-server", "openai", "ollama", "mistral", "deepseek"):
            engine = HttpEngine(server.url, kind)
            with suppress(RemoteError):
                assert engine.connect().n_ctx >= 0
            engine.close()
