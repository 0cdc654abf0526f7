"""Converts JSON to lsprotocol's types.

cattrs by itself coerces values (null to the string "None", "1" to the number 1), so that wrong
params would reach the handlers.
"""

from __future__ import annotations

import re
from functools import partial
from operator import eq
from types import NoneType
from typing import Any, get_args

import cattrs
from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.protocol import default_converter

from speclsp.lsp.completion_requests import OLD_INVOKED

_SNAKE = re.compile(r"_([a-z])")
"""lsprotocol's fields are in snake case; errors name them as the client writes them."""


def make_converter() -> cattrs.Converter:
    """Return pygls's converter with strict strings and numbers; no handler reads a boolean."""
    converter: cattrs.Converter = default_converter()  # type: ignore[no-untyped-call]  # pygls' own
    converter.register_structure_hook(str, _string)
    converter.register_structure_hook(int, _integer)
    converter.register_structure_hook(types.InlineCompletionTriggerKind, _trigger_kind)
    for union in (int | str, int | str | None):
        converter.register_structure_hook_func(partial(eq, union), _id_or_token)
    return converter


def structure_params(converter: cattrs.Converter, method: str, params: Any, cls: Any) -> Any:
    """Return a method's ``params`` as ``cls``.

    Raises JsonRpcInvalidParams, which names each wrong field.
    """
    try:
        return converter.structure(params, cls)
    except cattrs.BaseValidationError as error:
        reasons = "; ".join(transform_error(error, path="params"))
        wire_names = _SNAKE.sub(lambda m: m[1].upper(), reasons)
        raise JsonRpcInvalidParams(f"{method}: {wire_names}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise JsonRpcInvalidParams(f"{method}: params: {error}") from error


def _string(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r:.80}")
    return value


def _integer(value: Any, _: Any) -> int:
    # Some clients write whole numbers as 1.0.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise TypeError(f"expected a whole number, got {value!r:.80}")
    return int(value)


def _id_or_token(value: Any, union: Any) -> int | str | None:
    if isinstance(value, str) or (value is None and NoneType in get_args(union)):
        return value
    return _integer(value, int)


def _trigger_kind(value: Any, _: Any) -> int:
    number = _integer(value, int)
    if number == OLD_INVOKED:
        return number
    return types.InlineCompletionTriggerKind(number)
