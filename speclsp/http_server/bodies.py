"""What programs ask for: bodies of requests as llama-server and OpenAI's API have them.

Where llama-server refuses a body, so does this, with its status, its kind of error and its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from speclsp.seam.text import TextRequest
from speclsp.settings import SettingValue

MAX_PROMPTS: Final = 16
"""Most prompts of one request."""
MAX_DOCUMENT: Final = 4 << 20
"""Most characters before and after a cursor."""
MAX_PROMPT: Final = 1 << 20
"""Most characters of a request's prompts, and of its prediction; 32,768 are tokenised in 20 ms."""
MAX_EXTRA: Final = 64
"""Most chunks of ``input_extra``: the engine keeps the tokens of so many."""
MAX_EXTRA_CHARS: Final = 1 << 19
"""Most characters of these chunks: the engine tokenises them, and others wait for that."""
MAX_STRINGS: Final = 64
"""Most strings of ``stop`` and of ``response_fields``."""
MAX_STRING_CHARS: Final = 1 << 13
"""Most characters of these strings together."""
_MAX_INT: Final = 2**31 - 1
_MAX_SEED: Final = 2**32 - 1
_UNKNOWN: Final = ("grammar", "json_schema", "lora", "logit_bias")
"""Fields that change the text, and that this server has nothing for."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READ: Final = _words(
    """
    input_prefix input_suffix input_extra prompt suffix prediction n_predict max_tokens
    max_completion_tokens n_cmpl n stop n_indent t_max_predict_ms samplers temperature top_k
    top_p min_p seed logprobs n_probs stream return_tokens response_fields raw
    """
)
_WITHOUT_EFFECT: Final = _words(
    "model user id_slot cache_prompt t_max_prompt_ms stream_options timings_per_token"
)
"""Fields that change no text here: they choose a slot, or are about the server's work."""

MAX_TEXTS: Final = 16
"""Most texts that one prompt may be asked for."""

_T = TypeVar("_T")


class BodyError(Exception):
    """A body that cannot be answered, with the error that llama-server gives."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "invalid_request_error"):
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBody:
    """A request for a text, by whichever endpoint it came."""

    request: TextRequest
    """What the engine is asked for, without its document and its prompt."""
    prompts: tuple[str | tuple[int | str, ...], ...] = ()
    """Prompts as they are; empty for a text around a cursor."""
    has_many: bool = False
    """Whether the answers are a list: to a list of prompts, or to a wish for several texts."""
    prefixes: tuple[str, ...] = ()
    """Where there are no prompts: what is before the cursor, of each text."""
    suffix: str = ""
    """What is after it, the same for all."""
    prediction: str = ""
    """A text that the answer may repeat (OpenAI's predicted outputs)."""
    returns_tokens: bool = False
    response_fields: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Fields that have a value, and that this server has nothing for."""


def read_json(data: bytes) -> dict[str, Any]:
    """Return a body's object.  Raises BodyError."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(f"the body is no JSON: {error}", status=500, kind="server_error") from error
    except RecursionError as error:
        raise BodyError("the body's objects and lists stand too deep in each other") from error
    if not isinstance(body, dict):
        message = f"the body must be an object, and is a {type(body).__name__}"
        raise BodyError(message, status=500, kind="server_error")
    return body


def infill_body(body: Mapping[str, Any], *, is_raw: bool = False) -> TextBody:
    """Read the body of ``/infill``; ``is_raw`` is its field ``raw`` where it has none.

    Raises BodyError.
    """
    for name in ("input_suffix", "input_prefix"):
        if name not in body:
            raise BodyError(f"key '{name}' not found", status=500, kind="server_error")
        if not isinstance(body[name], str):
            raise BodyError(f"{name} must be a string", status=500, kind="server_error")
    prompt = body.get("prompt", "")
    behind = prompt if isinstance(prompt, str) else ""
    check_length(
        (body["input_prefix"], behind, body["input_suffix"]),
        MAX_DOCUMENT,
        "input_prefix, prompt and input_suffix",
    )
    return _with_options(
        body,
        is_raw=is_raw,
        prefixes=(body["input_prefix"] + behind,),
        suffix=body["input_suffix"],
        extra=_extra(body.get("input_extra", [])),
    )


def completion_body(body: Mapping[str, Any]) -> TextBody:
    """Read the body of ``/completion``.  Raises BodyError."""
    if "prompt" not in body:
        raise BodyError("key 'prompt' not found")
    prompts, has_many = _prompts(body["prompt"])
    return _with_options(body, prompts=prompts, has_many=has_many)


def openai_body(body: Mapping[str, Any], *, is_raw: bool = False) -> TextBody:
    """Read the body of ``/v1/completions``; one with a ``suffix`` asks for what stands before it.

    ``is_raw`` is the field ``raw`` of such a one where it has none.  Raises BodyError.
    """
    if "prompt" not in body:
        raise BodyError("key 'prompt' not found")
    own = dict(body)
    own.setdefault("n_predict", body.get("max_tokens") or body.get("max_completion_tokens") or -1)
    if body.get("max_tokens") == 0:
        own["n_predict"] = 0
    own["n_probs"] = _field(body, "logprobs", _count, 0)
    predicted = body.get("prediction")
    content = predicted.get("content") if isinstance(predicted, dict) else ""
    prediction = content if isinstance(content, str) else ""
    suffix = body.get("suffix")
    check_length((prediction,), MAX_PROMPT, "prediction")
    if isinstance(suffix, str) and suffix:
        prefixes = _prefixes(body["prompt"])
        check_length((*prefixes, suffix), MAX_DOCUMENT, "prompt and suffix")
        return _with_options(
            own, is_raw=is_raw, prefixes=prefixes, suffix=suffix, prediction=prediction
        )
    prompts, has_many = _prompts(body["prompt"])
    return _with_options(own, prompts=prompts, has_many=has_many, prediction=prediction)


def _prefixes(value: Any) -> tuple[str, ...]:
    """Return the texts before a suffix: a prompt, or each of a list."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise BodyError('"prompt" with a "suffix" must be a string, or a list of strings')
    if not 1 <= len(texts) <= MAX_PROMPTS:
        raise BodyError(f"between 1 and {MAX_PROMPTS} prompts are answered at once")
    return tuple(texts)


def _with_options(
    body: Mapping[str, Any],
    *,
    is_raw: bool = False,
    extra: tuple[tuple[str, str], ...] = (),
    **given: Any,
) -> TextBody:
    for name in _UNKNOWN:
        if body.get(name):
            raise BodyError(f"Field '{name}': this server has no {name}")
    n_texts = _field(body, "n_cmpl", _n_texts, _field(body, "n", _n_texts, 1))
    if body.get("echo"):
        raise BodyError("Field 'echo': this server gives no prompt back")
    samplers = body.get("samplers", [])
    sampling: dict[str, SettingValue] = {
        "temperature": _field(body, "temperature", _number, 0.8),
        "top_k": _field(body, "top_k", _count, 40),
        "top_p": min(1.0, _field(body, "top_p", _number, 0.95)),
        "min_p": min(1.0, _field(body, "min_p", _number, 0.05)),
        "seed": _field(body, "seed", _seed, -1),
    }
    request = TextRequest(
        uri="",
        version=0,
        offset=0,
        wait_for_model=True,
        settings=sampling,
        extra=extra,
        n_predict=_field(body, "n_predict", _count_or_all, -1),
        stops=_field(body, "stop", _stops, ()),
        n_indent=_field(body, "n_indent", _count, 0),
        t_max_predict_ms=_field(body, "t_max_predict_ms", _count, 0),
        n_probs=_field(body, "n_probs", _count, 0),
        has_infill_sampler=isinstance(samplers, list) and "infill" in samplers,
        is_streamed=_field(body, "stream", _flag, default=False),
        is_fitted=not _field(body, "raw", _flag, default=is_raw) and "prefixes" in given,
        n_texts=n_texts,
    )
    given["has_many"] = given.get("has_many", False) or n_texts > 1
    return TextBody(
        request=request,
        returns_tokens=_field(body, "return_tokens", _flag, default=False),
        response_fields=_field(body, "response_fields", _strings, ()),
        ignored=tuple(name for name in body if body[name] and name not in _READ | _WITHOUT_EFFECT),
        **given,
    )


def _field(body: Mapping[str, Any], name: str, read: Callable[[Any], _T], default: _T) -> _T:
    value = body.get(name)
    if value is None:
        return default
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        raise BodyError(f"Field '{name}': {error}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"type must be number, but is {type(value).__name__}")
    if not 0 <= value <= _MAX_INT:
        raise ValueError(f"Value must be between 0 <= value <= {_MAX_INT}, but got {value}")
    return float(value)


def _count(value: Any) -> int:
    return int(_number(value))


def _count_or_all(value: Any) -> int:
    return -1 if value == -1 else _count(value)


def _n_texts(value: Any) -> int:
    number = _count(value)
    if not 1 <= number <= MAX_TEXTS:
        raise ValueError(f"Value must be between 1 <= value <= {MAX_TEXTS}, but got {number}")
    return number


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _MAX_SEED:
        raise ValueError(f"a seed is a whole number from -1 to {_MAX_SEED}")
    # llama-server takes the largest number for a seed at random, and has 32 bits of them.
    return -1 if value == _MAX_SEED else value % _MAX_INT if value >= 0 else -1


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"type must be boolean, but is {type(value).__name__}")
    return value


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError("type must be a list of strings")
    if len(value) > MAX_STRINGS or sum(map(len, value)) > MAX_STRING_CHARS:
        raise ValueError(f"at most {MAX_STRINGS} strings of {MAX_STRING_CHARS} characters together")
    return tuple(value)


def _stops(value: Any) -> tuple[str, ...]:
    return _strings([value] if isinstance(value, str) else value)


def check_length(texts: Iterable[str], n_max: int, name: str) -> None:
    """Raise BodyError where texts have more than ``n_max`` characters together."""
    if sum(map(len, texts)) > n_max:
        raise BodyError(f"{name}: at most {n_max} characters")


def _extra(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        message = '"input_extra" must be an array of {"filename": string, "text": string}'
        raise BodyError(message)
    found: list[tuple[str, str]] = []
    for chunk in value:
        text = chunk.get("text") if isinstance(chunk, dict) else None
        if not isinstance(text, str):
            raise BodyError('extra_context chunk must contain a "text" field with a string value')
        name = chunk.get("filename", "tmp")
        if not isinstance(name, str):
            raise BodyError('extra_context chunk: "filename" must be a string')
        found.append((name.replace("\n", " "), text))
    if len(found) > MAX_EXTRA:
        raise BodyError(f"input_extra: at most {MAX_EXTRA} chunks")
    check_length((part for chunk in found for part in chunk), MAX_EXTRA_CHARS, "input_extra")
    return tuple(found)


def _prompts(value: Any) -> tuple[tuple[str | tuple[int | str, ...], ...], bool]:
    if isinstance(value, str):
        _check_prompts((value,))
        return (value,), False
    if not isinstance(value, list):
        message = '"prompt" must be a string, an list of tokens, a list of mixed strings & tokens'
        raise BodyError(message)
    if not value:
        raise BodyError('"prompt" must not be empty')
    if all(isinstance(one, str | list) for one in value):
        if len(value) > MAX_PROMPTS:
            raise BodyError(f"at most {MAX_PROMPTS} prompts are answered at once")
        many = tuple(one if isinstance(one, str) else _mixed(one) for one in value)
        _check_prompts(many)
        return many, True
    prompt = _mixed(value)
    _check_prompts((prompt,))
    return (prompt,), False


def _check_prompts(prompts: Sequence[str | tuple[int | str, ...]]) -> None:
    """Raise BodyError where prompts are too long; a token counts as a character."""
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    parts = [part for prompt in prompts if not isinstance(prompt, str) for part in prompt]
    all_texts = texts + [part if isinstance(part, str) else " " for part in parts]
    check_length(all_texts, MAX_PROMPT, '"prompt"')


def _mixed(value: list[Any]) -> tuple[int | str, ...]:
    if len(value) > MAX_PROMPT:
        raise BodyError(f'"prompt": at most {MAX_PROMPT} tokens')
    if not all(isinstance(one, int | str) and not isinstance(one, bool) for one in value):
        raise BodyError("a prompt is a string, or a list of tokens and strings")
    if not all(isinstance(one, str) or 0 <= one <= _MAX_INT for one in value):
        raise BodyError("Prompt contains invalid tokens")
    return tuple(value)
