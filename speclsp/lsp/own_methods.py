"""Methods beyond LSP, with their params in classes as lsprotocol has them.

Those that begin with ``textDocument`` have the names and params of Copilot's language server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import attrs
from lsprotocol import types

STATISTICS: Final = "speclsp/statistics"
"""A request that returns the same as ``speclsp.showStatistics``, and logs nothing."""
NEXT_EDIT: Final = "textDocument/copilotInlineEdit"
DID_SHOW_EDIT: Final = "textDocument/didShowInlineEdit"
DID_SHOW: Final = "textDocument/didShowCompletion"
DID_PARTIALLY_ACCEPT: Final = "textDocument/didPartiallyAcceptCompletion"


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


@attrs.define
class DidPartiallyAcceptCompletionParams:
    """The user has accepted the first ``accepted_length`` UTF-16 units of an item's text."""

    accepted_length: int
    item: ShownItem | None = None


def reported_id(item: ShownItem | None, accept: str) -> str | None:
    """Return the id in an item's command ``accept``; None if it is no such item of this server."""
    match item:
        case ShownItem(command=ItemCommand(command, [str(own_id), *_])) if command == accept:
            return own_id
    return None


class OwnMethod(NamedTuple):
    """A method that lsprotocol does not know."""

    params: type[Any] | None
    """None where they are ignored."""
    is_request: bool


OWN_METHODS: Final[Mapping[str, OwnMethod]] = {
    STATISTICS: OwnMethod(None, is_request=True),
    NEXT_EDIT: OwnMethod(types.TextDocumentPositionParams, is_request=True),
    DID_SHOW_EDIT: OwnMethod(DidShowCompletionParams, is_request=False),
    DID_SHOW: OwnMethod(DidShowCompletionParams, is_request=False),
    DID_PARTIALLY_ACCEPT: OwnMethod(DidPartiallyAcceptCompletionParams, is_request=False),
}
