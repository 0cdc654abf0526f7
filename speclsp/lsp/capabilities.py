"""``initialize``: what the server reads of its parameters, and the capabilities in its answer.

lsprotocol and pygls are not imported here, because that takes 0.3 s and editors wait for the
answer: ``speclsp.lsp.serving`` sends it first and imports them afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from speclsp import __version__
from speclsp.lsp.client_settings import ClientSettings
from speclsp.settings import CompletionItems

_ENCODINGS: Final = ("utf-8", "utf-16", "utf-32")
_TRIGGER_CHARACTERS: Final = list(".([{,=: ")
_NEOVIM: Final = "Neovim"
_INCREMENTAL: Final = 2
"""LSP's ``TextDocumentSyncKind.Incremental``."""


class Command(StrEnum):
    """The commands of ``workspace/executeCommand``."""

    ACCEPTED = "speclsp.accepted"
    ACCEPTED_EDIT = "speclsp.acceptedEdit"
    DECLINED_EDIT = "speclsp.declinedEdit"
    SHOW_STATISTICS = "speclsp.showStatistics"
    REINDEX = "speclsp.reindex"
    TOGGLE = "speclsp.toggle"
    MODELS = "speclsp.models"
    PULL_MODEL = "speclsp.pullModel"
    USE_MODEL = "speclsp.useModel"
    SNOOZE = "speclsp.snooze"


class _Read(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of which the server reads some fields; a client may send others."""


class _General(_Read, frozen=True):
    position_encodings: list[str] | None = None


class _TextDocument(_Read, frozen=True):
    inline_completion: Any = None


class _Registration(_Read, frozen=True):
    dynamic_registration: bool | None = None


class _Workspace(_Read, frozen=True):
    configuration: bool | None = None
    did_change_configuration: _Registration | None = None


class _Window(_Read, frozen=True):
    work_done_progress: bool | None = None


class ClientCapabilities(_Read, frozen=True):
    """What a client can do."""

    general: _General | None = None
    text_document: _TextDocument | None = None
    notebook_document: dict[str, Any] | None = None
    workspace: _Workspace | None = None
    window: _Window | None = None

    @property
    def position_encoding(self) -> str:
        """The client's first choice among the encodings that the server knows, else UTF-16."""
        offered = (self.general and self.general.position_encodings) or ()
        return next((name for name in offered if name in _ENCODINGS), "utf-16")


class _Folder(_Read, frozen=True):
    uri: str


class _ClientInfo(_Read, frozen=True):
    name: str = ""


class InitializeParams(_Read, frozen=True):
    """The parameters of ``initialize``."""

    capabilities: ClientCapabilities
    client_info: _ClientInfo | None = None
    initialization_options: Any = None
    workspace_folders: list[_Folder] | None = None
    root_uri: str | None = None
    root_path: str | None = None


def initialize_params(params: Any) -> InitializeParams:
    """Return the parameters of ``initialize``.

    A section of the capabilities that is ``[]`` counts as missing: Lua and PHP may encode an empty
    object so.
    Raises ``msgspec.ValidationError``, which names the field.
    """
    if isinstance(params, dict) and isinstance(given := params.get("capabilities"), dict):
        sections = {name: value for name, value in given.items() if value != []}
        params = {**params, "capabilities": sections}
    return msgspec.convert(params, InitializeParams)


def initialize_result(params: InitializeParams, items: CompletionItems) -> dict[str, Any]:
    """Return LSP's ``InitializeResult`` for a client, and its setting ``completion_items``."""
    client = params.capabilities
    capabilities: dict[str, Any] = {
        "positionEncoding": client.position_encoding,
        "textDocumentSync": {
            "openClose": True,
            "change": _INCREMENTAL,
            "save": {"includeText": False},
        },
        "executeCommandProvider": {"commands": list(Command)},
        "inlineCompletionProvider": {},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
    }
    if client.notebook_document is not None:
        selector = [{"notebook": "*"}]
        capabilities["notebookDocumentSync"] = {"notebookSelector": selector, "save": True}
    if items == "always" or (items == "auto" and _shows_items(params)):
        capabilities["completionProvider"] = {
            "triggerCharacters": _TRIGGER_CHARACTERS,
            "resolveProvider": False,
        }
    return {
        "capabilities": capabilities,
        "serverInfo": {"name": "speclsp", "version": __version__},
    }


def _shows_items(params: InitializeParams) -> bool:
    """Whether a client may show no ghost text.

    Neovim announces inline completion always, and draws it once the user has enabled it.
    """
    text_document, info = params.capabilities.text_document, params.client_info
    is_neovim = info is not None and info.name == _NEOVIM
    return is_neovim or text_document is None or text_document.inline_completion is None


def answer_to_initialize(
    body: bytes, base_options: Mapping[str, Any]
) -> tuple[int | str, bytes] | None:
    """Return the id of an ``initialize`` request, and its answer.

    ``base_options`` are those of the command line.
    None for any other message and for malformed ones, which :mod:`speclsp.rpc.connection` answers.
    """
    try:
        match json.loads(body):
            case {"jsonrpc": "2.0", "id": int() | str() as msg_id, "method": "initialize", **rest}:
                params = initialize_params(rest.get("params"))
                str(msg_id).encode()  # with a lone surrogate it becomes another id
            case _:
                return None
    except (ValueError, RecursionError):  # msgspec's and Unicode's errors are ValueErrors
        return None
    if isinstance(msg_id, bool):
        return None
    settings = ClientSettings(base_options)
    settings.set_initialization(params.initialization_options)
    result = initialize_result(params, settings.current.completion_items)
    answer = {"jsonrpc": "2.0", "id": msg_id, "result": result}
    return msg_id, json.dumps(answer, separators=(",", ":")).encode()
