"""Methods beyond LSP, with their params in classes as lsprotocol has them.

Those that begin with ``textDocument`` have the names and params of Copilot's language server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import attrs


@attrs.define
class ItemCommand:
    """The command of an item, which tells whose item it is."""

    command: str
    arguments: list[Any] | None = None


@attrs.define
class ShownItem:
    """An item as the client got it."""

    command: ItemCommand | None = None


@attrs.define
class DidShowCompletionParams:
    """An item, or a next edit, is on screen."""

    item: ShownItem | None = None


def reported_id(item: ShownItem | None, accept: str) -> str | None:
    """Return the id in an item's command ``accept``; None if it is no such item of this server."""
    match item:
        case ShownItem(command=ItemCommand(command, [str(own_id), *_])) if command == accept:
            return own_id
    return None


class OwnMethod(NamedTuple):
    """A method that lsprotocol does not know."""

    handler: Callable[..., Any]
    """Takes the session and the params."""
    params: type[Any] | None
    """None where they are ignored."""
    is_request: bool


OWN_METHODS: Final[dict[str, OwnMethod]] = {}
"""By name, of the handlers in the modules that :mod:`speclsp.lsp.server` imports."""

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


def own_method(
    name: str, params: type[Any] | None = None, *, is_request: bool = False
) -> Callable[[_Handler], _Handler]:
    """Make the decorated function the handler of a method."""

    def add(handler: _Handler) -> _Handler:
        OWN_METHODS[name] = OwnMethod(handler, params, is_request)
        return handler

    return add
