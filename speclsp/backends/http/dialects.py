"""The APIs of remote engines: what a request contains, and how a streamed event is read.

Sources: llama.cpp's tools/server/README.md; the API references of OpenAI, vLLM and Fireworks
(completions), Ollama (docs/api.md), Mistral (FIM) and DeepSeek (FIM, beta).
This module computes; :mod:`speclsp.backends.http.engine` sends and receives.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from speclsp.backends.http.messages import (
    Kind,
    Piece,
    RemoteModel,
    RemoteParams,
    RemotePrompt,
    RemoteStats,
)
from speclsp.errors import KeyRefusedError, RemoteError

JsonObject = dict[str, Any]
Fetch = Callable[..., Awaitable[Any]]
"""``await fetch(path, body=None)`` sends a GET, or a POST with ``body``, and returns the answer's
JSON; None where the server has no such path or refuses the request."""


_MAX_NAME: Final = 256
"""Characters of a model's longest name; what is longer is no name."""


class Dialect(Protocol):
    """One API."""

    async def probe(self, fetch: Fetch, name: str) -> RemoteModel | None:
        """Return what the server is; None where it does not speak this API.

        ``name`` is the model that the user named, or empty.
        Raises :class:`~speclsp.errors.RemoteError` where the server lacks that model.
        """

    def request(
        self, model: RemoteModel, prompt: RemotePrompt, params: RemoteParams
    ) -> tuple[str, JsonObject]:
        """Return the path and the body of the request that streams an answer."""

    def read(self, line: bytes, stats: RemoteStats) -> Piece:
        """Read the JSON of one event, and add its counts to ``stats``.

        Raises ``msgspec.DecodeError`` where it is malformed.
        """


class _TokenProbability(msgspec.Struct):
    logprob: float = 0.0


class _Timings(msgspec.Struct):
    cache_n: int = 0
    prompt_n: int = 0
    prompt_ms: float | None = None
    predicted_n: int = 0
    draft_n: int = 0
    draft_n_accepted: int = 0


class _LlamaEvent(msgspec.Struct):
    content: str = ""
    tokens: tuple[int, ...] = ()
    completion_probabilities: tuple[_TokenProbability, ...] = ()
    timings: _Timings | None = None


class _LlamaServer:
    """llama-server: ``/completion`` with token ids or text, ``/infill`` where neither is known."""

    async def probe(self, fetch: Fetch, name: str) -> RemoteModel | None:
        props = _object(await fetch("/props"))
        if "default_generation_settings" not in props:
            return None
        listed = _listed(await fetch("/v1/models"))
        of_model = ""
        if props.get("role") == "router":
            name = _chosen(name, listed)
            of_model = f"?model={quote(name, safe='')}"
            props = _object(await fetch(f"/props{of_model}"))
        ids = {entry["id"]: entry for entry in listed}
        entry = ids.get(name) or (listed[0] if len(listed) == 1 else {})
        n_slots = _number(props, "total_slots")
        return RemoteModel(
            kind="llama-server",
            name=name or _name(props.get("model_alias")) or entry.get("id", ""),
            n_ctx=_number(props.get("default_generation_settings"), "n_ctx"),
            n_vocab=_number(entry.get("meta"), "n_vocab"),
            n_slots=n_slots,
            slot=_oldest_slot(await fetch(f"/slots{of_model}"), n_slots),
            takes_tokens=True,
            takes_text=True,
            logprobs=True,
            constrains=True,
        )

    def request(
        self, model: RemoteModel, prompt: RemotePrompt, params: RemoteParams
    ) -> tuple[str, JsonObject]:
        body: JsonObject = {
            **_sampling(params),
            "n_predict": params.n_predict,
            # Our samplers in our order: the server may have been started with others.
            "samplers": ["top_k", "top_p", "min_p", "temperature"],
            "seed": params.seed,
            "id_slot": model.slot,
            "cache_prompt": True,
            "stream": True,
            # Without this only the last event has the timings, and a stream that is cut lacks it.
            "timings_per_token": True,
            # Without them the last event repeats the whole prompt.
            "response_fields": ["content", "timings"],
            **({"n_probs": 1} if params.wants_logprobs else {}),
            **({"grammar": _beginning(params.begins_with)} if params.begins_with else {}),
            **({"model": model.name} if model.name else {}),
        }
        if prompt.tokens or prompt.text:
            return "/completion", {"prompt": list(prompt.tokens) or prompt.text, **body}
        extra = [{"filename": path, "text": text} for path, text in prompt.chunks]
        given = {"input_prefix": prompt.prefix, "input_suffix": prompt.suffix, "prompt": ""}
        return "/infill", {**given, "input_extra": extra, **body}

    def read(self, line: bytes, stats: RemoteStats) -> Piece:
        event = msgspec.json.decode(line, type=_LlamaEvent)
        if (timings := event.timings) is not None:
            stats.n_prompt = timings.cache_n + timings.prompt_n
            stats.n_cached = timings.cache_n
            stats.n_generated = timings.predicted_n
            stats.n_drafted = timings.draft_n
            stats.n_accepted = timings.draft_n_accepted
            stats.ms_prompt = timings.prompt_ms or 0.0
        logprobs = tuple(entry.logprob for entry in event.completion_probabilities)
        # The ids of a character's first tokens are not sent.
        tokens = event.tokens if event.content.isascii() else ()
        return Piece(event.content, tokens, logprobs)


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class _Logprobs(msgspec.Struct):
    token_logprobs: tuple[float | None, ...] | None = None


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    logprobs: _Logprobs | None = None


class _OpenAIEvent(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None


class _OpenAI:
    """``/v1/completions`` of vLLM, SGLang, LM Studio, TabbyAPI, llama-cpp-python and others."""

    async def probe(self, fetch: Fetch, name: str) -> RemoteModel | None:
        listing = await fetch("/v1/models")
        if listing is None:
            return None
        listed = _listed(listing)
        # Providers serve models that they do not list.
        name = name or _chosen(name, listed)
        entry = next((entry for entry in listed if entry["id"] == name), {})
        # These two take token ids and send log probabilities; others may refuse a request with
        # either.
        extended = entry.get("owned_by") in {"vllm", "sglang"}
        return RemoteModel(
            kind="openai",
            name=name,
            n_ctx=_number(entry, "max_model_len"),
            takes_tokens=extended,
            takes_text=True,
            logprobs=extended,
        )

    def request(
        self, model: RemoteModel, prompt: RemotePrompt, params: RemoteParams
    ) -> tuple[str, JsonObject]:
        usage: JsonObject = {"include_usage": True}
        if model.takes_tokens:
            usage["continuous_usage_stats"] = True
        body = {**_openai_body(model, params), "stream_options": usage}
        if params.temperature > 0.0:
            # All tokens: -1 for vLLM and SGLang, 0 for those that are llama.cpp inside.
            all_tokens = -1 if model.takes_tokens else 0
            body |= {"top_k": params.top_k or all_tokens, "min_p": params.min_p}
        if params.wants_logprobs and model.logprobs:
            body["logprobs"] = 1
        if model.takes_tokens and prompt.tokens:
            return "/v1/completions", {"prompt": list(prompt.tokens), **body}
        if prompt.text:
            return "/v1/completions", {"prompt": prompt.text, **body}
        return "/v1/completions", {**_prefix_and_suffix(prompt), **body}

    def read(self, line: bytes, stats: RemoteStats) -> Piece:
        event = msgspec.json.decode(line, type=_OpenAIEvent)
        if (usage := event.usage) is not None:
            details = usage.prompt_tokens_details or _PromptDetails()
            stats.n_prompt = usage.prompt_tokens or 0
            stats.n_cached = usage.prompt_cache_hit_tokens or details.cached_tokens or 0
            stats.n_generated = usage.completion_tokens or 0
        if not event.choices:
            return Piece("")
        choice = event.choices[0]
        text = choice.text or (choice.delta.content if choice.delta else "") or ""
        if usage is None and text:
            stats.n_generated += 1
        numbers = (choice.logprobs and choice.logprobs.token_logprobs) or ()
        return Piece(text, (), tuple(number for number in numbers if number is not None))


class _DeepSeek(_OpenAI):
    """DeepSeek's ``/beta/completions``, with prefix and suffix."""

    async def probe(self, fetch: Fetch, name: str) -> RemoteModel | None:
        listed = _listed(await fetch("/models"))
        name = name or next((entry["id"] for entry in listed), "deepseek-chat")
        return RemoteModel(kind="deepseek", name=name, logprobs=True)

    def request(
        self, model: RemoteModel, prompt: RemotePrompt, params: RemoteParams
    ) -> tuple[str, JsonObject]:
        body = {**_prefix_and_suffix(prompt), **_openai_body(model, params)}
        body.pop("seed", None)
        if params.wants_logprobs:
            body["logprobs"] = 1
        return "/beta/completions", {**body, "stream_options": {"include_usage": True}}


class _Mistral(_OpenAI):
    """Mistral's ``/v1/fim/completions``, with prefix and suffix."""

    async def probe(self, fetch: Fetch, name: str) -> RemoteModel | None:
        name = name or "codestral-latest"
        # The Codestral endpoint lists no models; the other one checks the key here.
        listed = _listed(await fetch("/v1/models"))
        entry = next((entry for entry in listed if entry["id"] == name), {})
        return RemoteModel(kind="mistral", name=name, n_ctx=_number(entry, "max_context_length"))

    def request(
        self, model: RemoteModel, prompt: RemotePrompt, params: RemoteParams
    ) -> tuple[str, JsonObject]:
        body = {**_prefix_and_suffix(prompt), **_openai_body(model, params)}
        if "seed" in body:
            body["random_seed"] = body.pop("seed")
        return "/v1/fim/completions", body


class _OllamaEvent(msgspec.Struct):
    response: str = ""
    logprobs: tuple[_TokenProbability, ...] | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None


class _Ollama:
    """Ollama's ``/api/generate``: FIM text as it is (``raw``), else prefix and suffix."""

    async def probe(self, fetch: Fetch, name: str) -> RemoteModel | None:
        if "version" not in _object(await fetch("/api/version")):
            return None
        listed = _listed(await fetch("/api/tags"), "models", "model")
        if f"{name}:latest" in {entry["id"] for entry in listed}:
            name = f"{name}:latest"
        name = _chosen(name, listed)
        shown = _object(await fetch("/api/show", {"model": name}))
        n_ctx = dict(pairwise(str(shown.get("parameters")).split())).get("num_ctx", "")
        return RemoteModel(
            kind="ollama",
            name=name,
            # Ollama cuts longer prompts in the middle without an error; 4096 is its least default.
            n_ctx=int(n_ctx) if n_ctx.isdecimal() and len(n_ctx) < 10 else 4096,
            takes_text=True,
            logprobs=True,
        )

    def request(
        self, model: RemoteModel, prompt: RemotePrompt, params: RemoteParams
    ) -> tuple[str, JsonObject]:
        options: JsonObject = {
            **_sampling(params),
            "num_predict": params.n_predict,
            "repeat_penalty": 1.0,
            **({"seed": params.seed} if params.seed >= 0 else {}),
        }
        body: JsonObject = {"model": model.name, "stream": True, "options": options}
        if params.wants_logprobs:
            body["logprobs"] = True
        if prompt.text:
            return "/api/generate", {"prompt": prompt.text, "raw": True, **body}
        return "/api/generate", {**_prefix_and_suffix(prompt), **body}

    def read(self, line: bytes, stats: RemoteStats) -> Piece:
        event = msgspec.json.decode(line, type=_OllamaEvent)
        stats.n_generated = event.eval_count or stats.n_generated + bool(event.response)
        stats.n_prompt = event.prompt_eval_count or stats.n_prompt
        stats.ms_prompt = (event.prompt_eval_duration or 0) / 1e6 or stats.ms_prompt
        return Piece(event.response, (), tuple(entry.logprob for entry in event.logprobs or ()))


DIALECTS: Final[Mapping[Kind, Dialect]] = {
    "llama-server": _LlamaServer(),
    "ollama": _Ollama(),
    "openai": _OpenAI(),
    "mistral": _Mistral(),
    "deepseek": _DeepSeek(),
}
_PROVIDERS: Final[Mapping[str, Kind]] = {"mistral.ai": "mistral", "deepseek.com": "deepseek"}
_PROBED: Final[Sequence[Kind]] = ("llama-server", "ollama", "openai")
"""OpenAI's API comes last: llama-server and Ollama also speak it, with fewer options."""


async def find_model(fetch: Fetch, kind: str, host: str, name: str) -> RemoteModel:
    """Return what a server runs, and of which kind it is; ``kind`` may be ``auto``.

    Raises :class:`~speclsp.errors.RemoteError`, also where no dialect fits.
    """
    domain = ".".join(host.split(".")[-2:])
    kinds = [found for found in DIALECTS if found == kind] or (
        [_PROVIDERS[domain]] if domain in _PROVIDERS else _PROBED
    )
    refusal: KeyRefusedError | None = None
    for found in kinds:
        try:
            model = await DIALECTS[found].probe(fetch, name)
        except KeyRefusedError as error:
            # Some gateways answer an unknown path as they answer a wrong key.
            refusal = error
            continue
        if model is not None:
            return model
    raise refusal or RemoteError(
        f"The server at {host} does not answer like {' or '.join(kinds)}.",
        remedy="Check engine_url, and name the kind of server in engine_kind.",
    )


def tokenize_body(model: RemoteModel, text: str, *, special: bool) -> JsonObject | None:
    """Return the body for ``/tokenize``; None where a server has no such path."""
    body: JsonObject = {"model": model.name}
    if model.kind == "llama-server":
        return {**body, "content": text, "add_special": False, "parse_special": special}
    # vLLM and SGLang, which always read special tokens by their names.
    return {**body, "prompt": text, "add_special_tokens": False} if model.takes_tokens else None


def _oldest_slot(slots: Any, n_slots: int) -> int:
    """Return llama-server's least recently used slot; -1 where the server does not list them.

    The numbers of tasks rise, and a slot without one was never used.  Of several such slots the
    process id chooses, so that windows which connect at the same time seldom take the same one.
    """
    if not isinstance(slots, list) or len(slots) != n_slots:
        return -1
    order = [(os.getpid() + idx) % n_slots for idx in range(n_slots)]
    return min(order, key=lambda idx: _number(slots[idx], "id_task", -1), default=-1)


def _beginning(text: str) -> str:
    """Return the grammar (GBNF) of all texts that begin with ``text``."""
    escaped = "".join(
        f"\\x{ord(one):02x}" if ord(one) < 32 or one in '"\\' else one for one in text
    )
    return f'root ::= "{escaped}" [^\\x00]*'


def _sampling(params: RemoteParams) -> JsonObject:
    """Return the fields that llama-server and Ollama name alike."""
    names = ("temperature", "top_k", "top_p", "min_p", "stop")
    return {name: getattr(params, name) for name in names}


def _openai_body(model: RemoteModel, params: RemoteParams) -> JsonObject:
    return {
        "model": model.name,
        "max_tokens": params.n_predict,
        "temperature": params.temperature,
        "top_p": params.top_p if params.temperature > 0.0 else 1.0,
        "stream": True,
        **({"seed": params.seed} if params.seed >= 0 else {}),
        # OpenAI takes at most four.  The stop rules here apply all of them in any case.
        **({"stop": params.stop[:4]} if params.stop else {}),
    }


def _prefix_and_suffix(prompt: RemotePrompt) -> JsonObject:
    """Return the fields ``prompt`` and ``suffix``; other files come first, each after its path."""
    above = "".join(f"# {path}\n{text}\n\n" for path, text in prompt.chunks)
    own = f"# {prompt.path}\n" if prompt.chunks else ""
    return {"prompt": f"{above}{own}{prompt.prefix}", "suffix": prompt.suffix}


def _chosen(name: str, listed: Sequence[JsonObject]) -> str:
    """Return ``name`` where the server lists it, or the only model where no name is given.

    Raises :class:`~speclsp.errors.RemoteError` where there is no such model, or several.
    """
    ids: list[str] = [entry["id"] for entry in listed]
    if name in ids:
        return name
    if not name and len(ids) == 1:
        return ids[0]
    raise RemoteError(
        f"The server has no model {name}." if name else f"The server lists {len(ids)} models.",
        remedy=f"Set engine_model to one of: {', '.join(ids[:10])}."
        if ids
        else "Set engine_model.",
    )


def _listed(listing: Any, field: str = "data", name: str = "id") -> list[JsonObject]:
    """Return the entries of a list of models, each with its name as ``id``."""
    entries = _object(listing).get(field)
    found = map(_object, entries if isinstance(entries, list) else ())
    return [{**entry, "id": entry[name]} for entry in found if _name(entry.get(name))]


def _name(found: Any) -> str:
    """Return a model's name; empty where it is none."""
    return found if isinstance(found, str) and len(found) <= _MAX_NAME else ""


def _object(answer: Any) -> JsonObject:
    return answer if isinstance(answer, dict) else {}


def _number(answer: Any, field: str, default: int = 0) -> int:
    found = _object(answer).get(field)
    return found if isinstance(found, int) and found >= 0 else default
