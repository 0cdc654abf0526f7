"""A small language client that drives a server process over stdio, as an editor does.

The benchmarks and the end-to-end tests type through it.  Positions are code points: the client
offers the position encoding utf-32 only.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from speclsp import __version__
from speclsp.errors import SpecLspError
from speclsp.lsp.execute_command import DID_PARTIALLY_ACCEPT
from speclsp.lsp.text_buffer import code_units
from speclsp.seam.documents import edit_between
from speclsp.seam.events import LogLevel, LogLine, Progress, StateChanged

_LEVELS: dict[int, LogLevel] = {1: "error", 2: "warning", 3: "info", 4: "debug", 5: "debug"}
_STDERR_LINES_KEPT = 50
_CAPABILITIES = types.ClientCapabilities(
    text_document=types.TextDocumentClientCapabilities(
        inline_completion=types.InlineCompletionClientCapabilities(),
        synchronization=types.TextDocumentSyncClientCapabilities(did_save=True),
    ),
    workspace=types.WorkspaceClientCapabilities(configuration=True, workspace_folders=True),
    window=types.WindowClientCapabilities(work_done_progress=True),
)


class ServerProcessError(SpecLspError):
    """The server process answered with an error, or ended."""


@dataclass(frozen=True, slots=True)
class InlineItem:
    """One suggestion: ``insert_text`` replaces ``start_character``..``end_character`` of ``line``.

    Lines and characters count from 0; characters are code points.
    """

    insert_text: str
    line: int
    start_character: int
    end_character: int
    command: str = ""
    """The command to run after insertion, empty for none."""
    arguments: tuple[Any, ...] = ()


def _ignore(_: object) -> None:
    """Ignore an event."""


class ServerProcess:
    """One language server process and the document that is open in it.

    The callbacks run on the event loop: ``on_log`` for window/logMessage, ``on_message`` for
    window/showMessage, ``on_progress`` for work-done progress, ``on_state`` for the
    $/speclsp/status notification.
    """

    def __init__(
        self,
        *,
        on_log: Callable[[LogLine], None] = _ignore,
        on_message: Callable[[LogLine], None] = _ignore,
        on_progress: Callable[[Progress], None] = _ignore,
        on_state: Callable[[StateChanged], None] = _ignore,
    ) -> None:
        self._client = LanguageClient("speclsp-client", __version__)
        self._options: dict[str, Any] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._stderr_task: asyncio.Task[None] | None = None
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES_KEPT)
        self._uri = ""
        """The open document, empty for none."""
        self._version = 1
        self._text = ""
        listeners: dict[str, Callable[[Any], Any]] = {
            types.WINDOW_LOG_MESSAGE: lambda params: on_log(_log_line(params)),
            types.WINDOW_SHOW_MESSAGE: lambda params: on_message(_log_line(params)),
            types.PROGRESS: lambda params: on_progress(_progress(params)),
            "$/speclsp/status": lambda params: on_state(
                StateChanged(state=params.state, message=params.message)
            ),
            types.WINDOW_WORK_DONE_PROGRESS_CREATE: lambda _: None,
            types.WORKSPACE_CONFIGURATION: lambda params: [self._options for _ in params.items],
        }
        for method, listener in listeners.items():
            self._client.feature(method)(listener)

    # --- life -----------------------------------------------------------------------------------

    async def start(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        options: Mapping[str, Any] | None = None,
        encoding: types.PositionEncodingKind = types.PositionEncodingKind.Utf32,
    ) -> None:
        """Start ``argv``, and initialize it on ``folder``.

        In another ``encoding`` than UTF-32 the caller converts positions.
        ``options`` are speclsp settings: sent as initializationOptions, and answered to
        workspace/configuration.
        Raises :class:`ServerProcessError` if the server does not answer.
        """
        self._options = dict(options or {})
        try:
            await self._client.start_io(argv[0], *argv[1:], cwd=str(folder))
        except OSError as error:
            raise ServerProcessError(f"cannot start {argv[0]}: {error}") from error
        self._process = self._client._server
        self._stderr_task = asyncio.create_task(self._drain_stderr())
        root = folder.resolve()
        params = types.InitializeParams(
            capabilities=attrs.evolve(
                _CAPABILITIES,
                general=types.GeneralClientCapabilities(position_encodings=[encoding]),
            ),
            client_info=types.ClientInfo(name="speclsp-client", version=__version__),
            root_uri=root.as_uri(),
            workspace_folders=[types.WorkspaceFolder(uri=root.as_uri(), name=root.name)],
            initialization_options=self._options,
        )
        await self._ask(self._client.initialize_async(params))
        self._client.initialized(types.InitializedParams())

    async def shutdown(self, timeout_s: float = 20.0) -> int:
        """Shut the server down and return its exit code; it is killed after ``timeout_s``."""
        process = self._process
        if process is None:
            return 0
        try:
            async with asyncio.timeout(timeout_s):
                if process.returncode is None:
                    await self._ask(self._client.shutdown_async(None))
                    self._client.exit(None)
                await process.wait()
        except (TimeoutError, ServerProcessError):
            if process.returncode is None:
                process.kill()
            await process.wait()
        with contextlib.suppress(asyncio.IncompleteReadError, BrokenPipeError):
            await self._client.stop()  # type: ignore[no-untyped-call]  # pygls left it bare
        if self._stderr_task is not None:
            await self._stderr_task
        return process.returncode if process.returncode is not None else -1

    @property
    def pid(self) -> int:
        """The id of the server's process.  Raises :class:`ServerProcessError` before the start."""
        if self._process is None:
            raise ServerProcessError("the server was not started.")
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The last lines that the server wrote to standard error."""
        return "\n".join(self._stderr)

    def push(self, settings: Mapping[str, Any]) -> None:
        """Send workspace/didChangeConfiguration with settings of speclsp."""
        params = types.DidChangeConfigurationParams({"speclsp": dict(settings)})
        self._client.workspace_did_change_configuration(params)

    # --- document -------------------------------------------------------------------------------

    def open(self, path: Path, text: str, language_id: str = "python") -> None:
        """Open ``path`` with ``text`` in its buffer, in place of the document that is open."""
        self.close_document()
        self._uri, self._version, self._text = path.resolve().as_uri(), 1, text
        item = types.TextDocumentItem(self._uri, language_id, self._version, text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def close_document(self) -> None:
        """Close the document, if one is open."""
        if self._uri:
            identifier = types.TextDocumentIdentifier(self._uri)
            self._client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))
        self._uri = ""

    def change(self, text: str) -> None:
        """Replace the buffer's text by ``text``; only the difference is sent."""
        edit = edit_between(self._text, text)
        start, end = (
            types.Position(*line_and_character(self._text, at)) for at in (edit.start, edit.end)
        )
        change = types.TextDocumentContentChangePartial(types.Range(start, end), edit.text)
        self._version += 1
        self._text = text
        identifier = types.VersionedTextDocumentIdentifier(version=self._version, uri=self._uri)
        self._client.text_document_did_change(
            types.DidChangeTextDocumentParams(identifier, [change])
        )

    def save(self) -> None:
        """Tell the server that the buffer was written to its file."""
        identifier = types.TextDocumentIdentifier(self._uri)
        self._client.text_document_did_save(types.DidSaveTextDocumentParams(identifier))

    # --- requests -------------------------------------------------------------------------------

    async def inline_completion(self, line: int, character: int) -> list[InlineItem]:
        """Ask for ghost text at a position (from 0, code points).

        Raises :class:`ServerProcessError` if the server answers with an error.
        """
        params = types.InlineCompletionParams(
            context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
            text_document=types.TextDocumentIdentifier(self._uri),
            position=types.Position(line, character),
        )
        result = await self._ask(self._client.text_document_inline_completion_async(params))
        return [_inline_item(item) for item in result.items]

    async def next_edit(self, line: int, character: int) -> list[dict[str, Any]]:
        """Ask for the next edit around a position (from 0, code points).

        Raises :class:`ServerProcessError` if the server answers with an error.
        """
        params = {
            "textDocument": {"uri": self._uri, "version": self._version},
            "position": {"line": line, "character": character},
        }
        answer = await self._ask(
            self._client.protocol.send_request_async("textDocument/copilotInlineEdit", params)
        )
        edits: list[dict[str, Any]] = _plain(answer)["edits"]
        return edits

    def did_show(self, edit: dict[str, Any]) -> None:
        """Tell the server that an edit is on screen."""
        params = {"item": {"command": edit["command"]}}
        self._client.protocol.notify("textDocument/didShowInlineEdit", params)

    async def execute_command(self, name: str, arguments: Sequence[Any] = ()) -> Any:
        """Run a command of the server and return its answer (plain JSON data).

        Raises :class:`ServerProcessError` if the server answers with an error.
        """
        params = types.ExecuteCommandParams(command=name, arguments=list(arguments))
        return await self._ask(self._client.workspace_execute_command_async(params))

    async def accept(self, item: InlineItem) -> None:
        """Run an item's command, as an editor does after it has inserted the item."""
        if item.command:
            await self.execute_command(item.command, item.arguments)

    def accept_partly(self, item: InlineItem, n_chars: int) -> None:
        """Report that the first ``n_chars`` characters of an item are inserted so far."""
        command = {"command": item.command, "arguments": list(item.arguments)}
        self._client.protocol.notify(
            DID_PARTIALLY_ACCEPT,
            {
                "item": {"insertText": item.insert_text, "command": command},
                "acceptedLength": code_units(item.insert_text[:n_chars], "utf-16"),
            },
        )

    async def _ask(self, answer: Any) -> Any:
        try:
            return await answer
        except JsonRpcException as error:
            raise ServerProcessError(f"the server answered {error.code}: {error.message}") from None
        except RuntimeError as error:  # pygls's error for open requests when the process ends
            raise ServerProcessError(f"{error}\n{self.stderr_tail}".strip()) from error

    async def _drain_stderr(self) -> None:
        stream = self._process.stderr if self._process else None
        while stream is not None and (line := await stream.readline()):
            self._stderr.append(line.decode("utf-8", "replace").rstrip())


class CaseServer(ServerProcess):
    """A server process with several open documents and with folders that change."""

    def __init__(self, **callbacks: Any) -> None:
        super().__init__(**callbacks)
        self._others: dict[str, tuple[int, str]] = {}

    def open_beside(self, uri: str, text: str, language_id: str) -> None:
        """Open one more document and make it the current one."""
        self._others[self._uri] = (self._version, self._text)
        self._uri, self._version, self._text = uri, 1, text
        item = types.TextDocumentItem(uri, language_id, 1, text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def go_to(self, uri: str) -> None:
        """Make another open document the current one."""
        self._others[self._uri] = (self._version, self._text)
        self._version, self._text = self._others.pop(uri)
        self._uri = uri

    def change_folders(self, added: Path | None, removed: Path | None) -> None:
        """Open one workspace folder and close another."""
        event = types.WorkspaceFoldersChangeEvent(_folders(added), _folders(removed))
        self._client.workspace_did_change_workspace_folders(
            types.DidChangeWorkspaceFoldersParams(event)
        )


def _plain(value: Any) -> Any:
    """Return an answer of a method that pygls does not know, whose objects are named tuples."""
    if hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _folders(path: Path | None) -> list[types.WorkspaceFolder]:
    return [] if path is None else [types.WorkspaceFolder(path.as_uri(), path.name)]


def _log_line(params: types.LogMessageParams | types.ShowMessageParams) -> LogLine:
    return LogLine(level=_LEVELS.get(params.type, "info"), message=params.message)


def _inline_item(item: types.InlineCompletionItem) -> InlineItem:
    """Convert an item; those of speclsp's server always have a range and a command."""
    assert isinstance(item.insert_text, str)
    assert item.range is not None
    assert item.command is not None
    return InlineItem(
        insert_text=item.insert_text,
        line=item.range.start.line,
        start_character=item.range.start.character,
        end_character=item.range.end.character,
        command=item.command.command,
        arguments=tuple(item.command.arguments or ()),
    )


def _progress(params: types.ProgressParams) -> Progress:
    """Convert a step of work-done progress."""
    value: dict[str, Any] = params.value or {}
    return Progress(
        token=str(params.token),
        stage=value["kind"],
        title=value.get("title") or "",
        message=value.get("message") or "",
        percentage=value.get("percentage"),
    )


def line_and_character(text: str, offset: int) -> tuple[int, int]:
    """Return the line and character of an offset, from 0, in code points; lines end at LF."""
    line_idx = text.count("\n", 0, offset)
    return line_idx, offset - (text.rfind("\n", 0, offset) + 1)
