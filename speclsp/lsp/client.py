"""A small language client that drives a server process over stdio, as an editor does.

``speclsp demo``, the benchmarks and the end-to-end tests type through it.  Positions are code
points: the client offers the position encoding utf-32 only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from speclsp import __version__
from speclsp.errors import SpecLspError
from speclsp.lsp.execute_command import DID_PARTIALLY_ACCEPT
from speclsp.request import EngineState, LogLevel, LogLine, Progress, StateChanged

_LEVELS: dict[int, LogLevel] = {1: "error", 2: "warning", 3: "info", 4: "debug", 5: "debug"}
_STDERR_LINES_KEPT = 50


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


@dataclass(slots=True)
class _Buffer:
    version: int
    text: str


class ServerProcess:
    """One language server process and its open documents, one of them the current one.

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
        self._on_log = on_log
        self._on_message = on_message
        self._on_progress = on_progress
        self._on_state = on_state
        self._options: Mapping[str, Any] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._stderr_task: asyncio.Task[None] | None = None
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES_KEPT)
        self._buffers: dict[str, _Buffer] = {}
        self._uri = ""
        """The current document, empty for none."""
        self._listen()

    # --- life -----------------------------------------------------------------------------------

    async def start(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> types.ServerCapabilities:
        """Start ``argv``, initialize it on ``folder``, and return what it can do.

        ``options`` are speclsp settings: sent as initializationOptions, and answered to
        workspace/configuration.
        Raises :class:`ServerProcessError` if the server does not answer.
        """
        self._options = dict(options or {})
        try:
            await self._client.start_io(argv[0], *argv[1:], cwd=str(folder))
        except OSError as error:
            raise ServerProcessError(f"cannot start {argv[0]}: {error}") from error
        self._process = self._client._server  # noqa: SLF001  pygls keeps the process to itself
        self._stderr_task = asyncio.create_task(self._drain_stderr())
        root = folder.resolve()
        result = await self._ask(
            self._client.initialize_async(
                types.InitializeParams(
                    capabilities=_capabilities(),
                    process_id=None,
                    client_info=types.ClientInfo(name="speclsp-client", version=__version__),
                    root_uri=root.as_uri(),
                    workspace_folders=[types.WorkspaceFolder(uri=root.as_uri(), name=root.name)],
                    initialization_options=dict(self._options),
                )
            )
        )
        self._client.initialized(types.InitializedParams())
        return cast("types.InitializeResult", result).capabilities

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

    # --- document -------------------------------------------------------------------------------

    def open(self, path: Path, text: str, language_id: str = "python") -> None:
        """Open ``path`` with ``text`` in its buffer, in place of the current document."""
        self.close_document()
        self.open_beside(path.resolve().as_uri(), text, language_id)

    def open_beside(self, uri: str, text: str, language_id: str) -> None:
        """Open one more document and make it the current one."""
        self._uri = uri
        self._buffers[uri] = _Buffer(1, text)
        self._client.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, language_id, 1, text))
        )

    def go_to(self, uri: str) -> None:
        """Make another open document the current one."""
        self._uri = uri

    def close_document(self) -> None:
        """Close the current document, if any."""
        if self._buffers.pop(self._uri, None) is not None:
            self._client.text_document_did_close(
                types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(self._uri))
            )
        self._uri = ""

    def change(self, text: str) -> None:
        """Replace the buffer's text by ``text``; only the difference is sent."""
        buffer = self._buffers[self._uri]
        edit = edit_between(buffer.text, text)
        start, end = (
            types.Position(*line_and_character(buffer.text, offset)) for offset in edit[:2]
        )
        change = types.TextDocumentContentChangePartial(
            range=types.Range(start, end), text=edit.inserted
        )
        buffer.version += 1
        buffer.text = text
        self._client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version=buffer.version, uri=self._uri),
                [change],
            )
        )

    def change_folders(self, added: Path | None, removed: Path | None) -> None:
        """Open one workspace folder and close another."""

        def folders(path: Path | None) -> list[types.WorkspaceFolder]:
            return [] if path is None else [types.WorkspaceFolder(path.as_uri(), path.name)]

        event = types.WorkspaceFoldersChangeEvent(folders(added), folders(removed))
        self._client.workspace_did_change_workspace_folders(
            types.DidChangeWorkspaceFoldersParams(event)
        )

    def save(self) -> None:
        """Tell the server that the buffer was written to its file."""
        self._client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(self._uri))
        )

    # --- requests -------------------------------------------------------------------------------

    async def inline_completion(self, line: int, character: int) -> list[InlineItem]:
        """Ask for ghost text at a position (from 0, code points).

        Raises :class:`ServerProcessError` if the server answers with an error.
        """
        result = await self._ask(
            self._client.text_document_inline_completion_async(
                types.InlineCompletionParams(
                    context=types.InlineCompletionContext(
                        types.InlineCompletionTriggerKind.Automatic
                    ),
                    text_document=types.TextDocumentIdentifier(self._uri),
                    position=types.Position(line, character),
                )
            )
        )
        items = result.items if isinstance(result, types.InlineCompletionList) else result or []
        return [_inline_item(item, line, character) for item in items]

    async def execute_command(self, name: str, arguments: Sequence[Any] = ()) -> Any:
        """Run a command of the server and return its answer (plain JSON data).

        Raises :class:`ServerProcessError` if the server answers with an error.
        """
        return await self._ask(
            self._client.workspace_execute_command_async(
                types.ExecuteCommandParams(command=name, arguments=list(arguments))
            )
        )

    async def accept(self, item: InlineItem) -> None:
        """Run an item's command, as an editor does after it has inserted the item."""
        if item.command:
            await self.execute_command(item.command, item.arguments)

    def accept_partly(self, item: InlineItem, n_chars: int) -> None:
        """Report that the first ``n_chars`` characters of an item are inserted so far."""
        taken = item.insert_text[:n_chars]
        self._client.protocol.notify(
            DID_PARTIALLY_ACCEPT,
            {
                "item": {
                    "insertText": item.insert_text,
                    "command": {"command": item.command, "arguments": list(item.arguments)},
                },
                "acceptedLength": len(taken.encode("utf-16-le")) // 2,
            },
        )

    # --- inside ---------------------------------------------------------------------------------

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

    def _listen(self) -> None:
        def line_of(params: types.LogMessageParams | types.ShowMessageParams) -> LogLine:
            return LogLine(level=_LEVELS.get(params.type, "info"), message=params.message)

        def take_state(params: Any) -> None:
            state = cast("EngineState", params.state)
            self._on_state(StateChanged(state=state, message=params.message))

        listeners: dict[str, Callable[[Any], Any]] = {
            types.WINDOW_LOG_MESSAGE: lambda params: self._on_log(line_of(params)),
            types.WINDOW_SHOW_MESSAGE: lambda params: self._on_message(line_of(params)),
            types.PROGRESS: lambda params: self._on_progress(_progress(params)),
            "$/speclsp/status": take_state,
            types.WINDOW_WORK_DONE_PROGRESS_CREATE: lambda _: None,
            types.WORKSPACE_CONFIGURATION: lambda params: [
                dict(self._options) for _ in params.items
            ],
        }
        for method, listener in listeners.items():
            self._client.feature(method)(listener)


def _inline_item(item: types.InlineCompletionItem, line: int, character: int) -> InlineItem:
    text = item.insert_text
    range_ = item.range
    return InlineItem(
        insert_text=text if isinstance(text, str) else text.value,
        line=range_.start.line if range_ else line,
        start_character=range_.start.character if range_ else character,
        end_character=range_.end.character if range_ else character,
        command=item.command.command if item.command else "",
        arguments=tuple(item.command.arguments or ()) if item.command else (),
    )


def _capabilities() -> types.ClientCapabilities:
    """Return the client's capabilities."""
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(
            position_encodings=[types.PositionEncodingKind.Utf32]
        ),
        text_document=types.TextDocumentClientCapabilities(
            inline_completion=types.InlineCompletionClientCapabilities(),
            synchronization=types.TextDocumentSyncClientCapabilities(did_save=True),
        ),
        workspace=types.WorkspaceClientCapabilities(configuration=True, workspace_folders=True),
        window=types.WindowClientCapabilities(work_done_progress=True),
    )


def _progress(params: types.ProgressParams) -> Progress:
    """Convert a step of work-done progress."""
    value = params.value
    data: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    return Progress(
        token=str(params.token),
        stage=data.get("kind", "report"),
        title=data.get("title") or "",
        message=data.get("message") or "",
        percentage=data.get("percentage"),
    )


class Edit(NamedTuple):
    """``old[:start] + inserted + old[end:] == new``, offsets in code points."""

    start: int
    end: int
    inserted: str


def edit_between(old: str, new: str) -> Edit:
    """Return the edit between the texts' longest common beginning and end."""
    n_common = min(len(old), len(new))
    start = next((i for i in range(n_common) if old[i] != new[i]), n_common)
    n_tail = next(
        (i for i in range(n_common - start) if old[-1 - i] != new[-1 - i]), n_common - start
    )
    return Edit(start, len(old) - n_tail, new[start : len(new) - n_tail])


def line_and_character(text: str, offset: int) -> tuple[int, int]:
    """Return the line and character of an offset, from 0, in code points; lines end at LF."""
    line_idx = text.count("\n", 0, offset)
    return line_idx, offset - (text.rfind("\n", 0, offset) + 1)
