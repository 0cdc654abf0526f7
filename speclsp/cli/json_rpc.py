"""JSON-RPC 2.0: reading calls, and the objects that answer them.

Specification: https://www.jsonrpc.org/specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from speclsp.errors import SpecLspError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
ENGINE_ERROR = -32000
"""The engine cannot answer, or a file of ours is broken; ``data.remedy`` says what to do."""

CallId = int | str
Params = TypeVar("Params")

_PLACE = re.compile(r" - at `\$(?P<place>[^`]*)`")
_FIELD = re.compile(r"field `(?P<field>[^`]*)`")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair of surrogates
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)


class RpcError(Exception):
    """A call that is answered with an error object."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Call(msgspec.Struct, frozen=True):
    """One request, or a notification where ``id`` is unset."""

    jsonrpc: Literal["2.0"]
    method: str
    id: CallId | msgspec.UnsetType = msgspec.UNSET
    params: Any = msgspec.UNSET


def parse(body: bytes) -> Any:
    """Return the JSON value of a message.  Raises :class:`RpcError` with PARSE_ERROR.

    A lone surrogate, which JavaScript's JSON.stringify writes as an escape, becomes U+FFFD: UTF-8
    has no form for it.
    """
    try:
        return _decoded(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # What is not UTF-8 is a ValueError, which msgspec passes on as it is.
        raise RpcError(PARSE_ERROR, f"Parse error: {error}.") from error


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        mended = _ESCAPE.sub(lambda m: rb"\ufffd" if m["lone"] else m[0], body)
        if mended == body:
            raise
    return msgspec.json.decode(mended)


def read_call(value: Any) -> Call:
    """Return a message's call.  Raises :class:`RpcError` with INVALID_REQUEST."""
    try:
        return msgspec.convert(value, Call)
    except msgspec.ValidationError as error:
        raise _error_with_field(INVALID_REQUEST, "Invalid request", error) from error


def call_id(value: Any) -> CallId | None:
    """Return the id to answer a broken request with: its own where that can be read, else None."""
    if isinstance(value, dict):
        found = value.get("id")
        if isinstance(found, (int, str)) and not isinstance(found, bool):
            return found
    return None


def read_params(call: Call, params_type: type[Params]) -> Params:
    """Return a call's params as ``params_type``; no params are an empty object.

    Raises :class:`RpcError` with INVALID_PARAMS, which names the field.
    """
    given = {} if call.params is msgspec.UNSET or call.params is None else call.params
    try:
        return msgspec.convert(given, params_type)
    except msgspec.ValidationError as error:
        raise _error_with_field(INVALID_PARAMS, "Invalid params", error, "$.params") from error


def result_object(id_: CallId | None, result: Any) -> dict[str, Any]:
    """Return the answer to a call that succeeded."""
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def error_object(id_: CallId | None, error: RpcError) -> dict[str, Any]:
    """Return the answer to a call that failed."""
    members: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        members["data"] = error.data
    return {"jsonrpc": "2.0", "id": id_, "error": members}


def engine_error(error: SpecLspError) -> RpcError:
    """Map one of our errors; the remedy stands in the message and apart from it."""
    data = {"type": type(error).__name__, "remedy": error.remedy}
    return RpcError(ENGINE_ERROR, str(error), data)


def _error_with_field(
    code: int, title: str, error: msgspec.ValidationError, root: str = "$"
) -> RpcError:
    text = str(error)
    place = _PLACE.search(text)
    field = root + (place.group("place") if place else "")
    if inner := _FIELD.search(text):
        field += f".{inner.group('field')}"
    reason = _PLACE.sub("", text)
    return RpcError(code, f"{title}: {field}: {reason}.", {"field": field})
