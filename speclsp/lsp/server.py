"""The language server, and the function that handles each method."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from speclsp import __version__
from speclsp.lsp import (
    completion_methods,
    document_methods,
    execute_command,
    next_edit,  # noqa: F401  its methods are in OWN_METHODS then
    workspace,
)
from speclsp.lsp.converter import make_converter
from speclsp.lsp.own_methods import OWN_METHODS
from speclsp.lsp.protocol import SpecProtocol
from speclsp.lsp.session import CompleterFactory, Session

logger = logging.getLogger(__name__)

_METHODS: Mapping[str, Callable[..., Any]] = {
    types.INITIALIZE: workspace.initialize,
    types.INITIALIZED: workspace.initialized,
    types.SHUTDOWN: workspace.shutdown,
    types.TEXT_DOCUMENT_DID_OPEN: document_methods.did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: document_methods.did_change,
    types.TEXT_DOCUMENT_DID_SAVE: document_methods.did_save,
    types.TEXT_DOCUMENT_DID_CLOSE: document_methods.did_close,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: document_methods.did_open_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: document_methods.did_change_notebook,
    types.NOTEBOOK_DOCUMENT_DID_SAVE: document_methods.did_save_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: document_methods.did_close_notebook,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: workspace.did_change_configuration,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: workspace.did_change_workspace_folders,
    types.WORKSPACE_EXECUTE_COMMAND: execute_command.execute_command,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: execute_command.cancel_progress,
    types.TEXT_DOCUMENT_INLINE_COMPLETION: completion_methods.inline_completion,
    types.TEXT_DOCUMENT_COMPLETION: completion_methods.completion,
}


class SpecLanguageServer(LanguageServer):
    """One client's server; the handlers share its ``session``."""

    protocol: SpecProtocol

    def __init__(
        self, completer_factory: CompleterFactory, base_options: Mapping[str, Any]
    ) -> None:
        """``completer_factory`` is called once with the settings, on a thread: it imports slowly.

        ``base_options`` come from the command line; the client's settings override them.
        """
        super().__init__(
            "speclsp",
            __version__,
            protocol_cls=SpecProtocol,
            converter_factory=make_converter,
        )
        self.session = Session(self.protocol, completer_factory, base_options)
        self.protocol.note_arrival = self.session.note_arrival
        own = {name: method.handler for name, method in OWN_METHODS.items()}
        for name, function in (*_METHODS.items(), *own.items()):
            self.feature(name)(partial(function, self.session))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log an exception of a handler, without a message to the user."""
        logger.error("%s: %s", getattr(source, "__name__", source), error, exc_info=error)
