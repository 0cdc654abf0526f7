"""A raw JSON-RPC client of a server in the same event loop: no framing, no types, no mercy."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from scripted_completer import ScriptedCompleter

from speclsp.log import logging_to
from speclsp.lsp.server import SpecLanguageServer
from speclsp.seam.completer import Completer
from speclsp.settings import Settings
from speclsp.window.ledger import Ledger

URI = "file:///home/user/project/pkg/mod.py"
FOLDER = "file:///home/user/project"
INLINE = "textDocument/inlineCompletion"
TIMEOUT_S = 60.0


class LspWire:
    """``answers`` maps methods of the server's own requests to a result or a callable of params.

    An exception among the answers is sent as an error; a method that is not there gets null.
    """

    def __init__(
        self,
        factory: Callable[[Settings], Completer] | None = None,
        base_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.completers: list[ScriptedCompleter] = []
        # Each request is to reach the completer here; what the ledger knows has tests of its own.
        plain = {"suggestion_memory": False, "automatic_filters": False}
        self.server = SpecLanguageServer(factory or self._make, {**plain, **(base_options or {})})
        self.conversation = self.server.protocol
        self.conversation.connect(self.send)
        self.messages: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.unanswered: set[str] = set()
        self._next_id = 0
        self._arrived = asyncio.Event()
        self._resources = ExitStack()
        self._resources.enter_context(logging_to(self.server.session.editor.log))
        self._resources.enter_context(numbered_ids())
        self._resources.enter_context(recorded_ledger(self._record))

    def _record(self, *call: Any) -> None:
        self.completer.calls.append(call)

    def _make(self, settings: Settings) -> ScriptedCompleter:
        self.completers.append(ScriptedCompleter(settings))
        return self.completers[-1]

    @property
    def completer(self) -> ScriptedCompleter:
        return self.completers[-1]

    # --- the server's writer -------------------------------------------------------------------

    def send(self, body: bytes) -> None:
        message = json.loads(body)
        self.messages.append(message)
        self._arrived.set()
        method = message.get("method")
        if method is not None and "id" in message and method not in self.unanswered:
            asyncio.get_running_loop().call_soon(self._reply, message)

    def _reply(self, message: dict[str, Any]) -> None:
        answer = self.answers.get(message["method"])
        if callable(answer):
            answer = answer(message.get("params"))
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if isinstance(answer, Exception):
            reply["error"] = {"code": -32603, "message": str(answer)}
        else:
            reply["result"] = answer
        self.raw(json.dumps(reply).encode())

    # --- to the server ---------------------------------------------------------------------------

    def raw(self, body: bytes) -> None:
        self.conversation.receive(body)

    def notify(self, method: str, params: Any = None) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def request(self, method: str, params: Any = None) -> int:
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self.raw(json.dumps(message).encode())
        return self._next_id

    async def ask(self, method: str, params: Any = None) -> Any:
        """Return a request's result."""
        answer = await self.answer(self.request(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    async def refusal(self, method: str, params: Any = None) -> int:
        """Return the code of a request's error."""
        answer = await self.answer(self.request(method, params))
        assert "error" in answer, answer
        return int(answer["error"]["code"])

    async def hold(self, params: Any = None, method: str = INLINE) -> int:
        """Send a request that the completer leaves open, and wait until it has it."""
        n_asked = len(self.completer.asked)
        self.completer.script = lambda _: None
        msg_id = self.request(method, params or at(0, 1))
        await self.until(lambda: len(self.completer.asked) > n_asked)
        return msg_id

    # --- from the server -------------------------------------------------------------------------

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds after some message."""
        async with asyncio.timeout(TIMEOUT_S):
            while not (found := condition()):
                self._arrived.clear()
                try:
                    await asyncio.wait_for(self._arrived.wait(), 0.02)
                except TimeoutError:
                    continue
        return found

    def answers_to(self, msg_id: int | None) -> list[dict[str, Any]]:
        return [m for m in self.messages if "method" not in m and m.get("id") == msg_id]

    async def answer(self, msg_id: int | None) -> dict[str, Any]:
        found = await self.until(lambda: self.answers_to(msg_id))
        return dict(found[0])

    def params_of(self, method: str) -> list[Any]:
        return [m.get("params") for m in self.messages if m.get("method") == method]

    @property
    def logged(self) -> str:
        return "\n".join(p["message"] for p in self.params_of("window/logMessage"))

    @property
    def shown(self) -> list[str]:
        return [p["message"] for p in self.params_of("window/showMessage")]

    async def settle(self) -> None:
        """Let the loop turn until all that was sent has had its effect.

        Client, server and completer run in this loop alone, so that turns count and not time.
        """
        for _ in range(100):
            await asyncio.sleep(0)

    # --- common steps ----------------------------------------------------------------------------

    async def initialize(self, *arguments: Any, **params: Any) -> Any:
        """Initialize as ``initialize_only`` does, and wait until the completer runs."""
        result = await self.initialize_only(*arguments, **params)
        await self.until(lambda: self.server.session.window is not None)
        return result

    async def initialize_only(
        self,
        capabilities: Mapping[str, Any] | None = None,
        *,
        folders: tuple[str, ...] = (FOLDER,),
        encoding: str | None = None,
        **params: Any,
    ) -> Any:
        able: dict[str, Any] = {"textDocument": {"inlineCompletion": {}}, **(capabilities or {})}
        if encoding is not None:
            able["general"] = {"positionEncodings": [encoding]}
        everything = {
            "processId": None,
            "rootUri": None,
            "capabilities": able,
            "workspaceFolders": [{"uri": f, "name": "any"} for f in folders],
            **params,
        }
        result = await self.ask("initialize", everything)
        self.notify("initialized", {})
        return result

    def open(
        self, text: str, *, uri: str = URI, language: str = "python", version: int = 1
    ) -> None:
        document = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, version: int, *changes: Any, uri: str = URI) -> None:
        identifier = {"uri": uri, "version": version}
        params = {"textDocument": identifier, "contentChanges": list(changes)}
        self.notify("textDocument/didChange", params)

    async def ghost(self, line: int, character: int, *, uri: str = URI, **context: Any) -> Any:
        """Return the items of an inline completion."""
        result = await self.ask(INLINE, at(line, character, uri=uri, **context))
        assert isinstance(result, dict)
        return result["items"]

    async def close(self) -> None:
        await self.conversation.close()
        self._resources.close()


@contextmanager
def numbered_ids() -> Iterator[None]:
    """Number the windows' completions instead of drawing their ids."""
    numbers = itertools.count(1)
    with patch("speclsp.window.window.new_id", lambda: f"completion-{next(numbers)}"):
        yield


@contextmanager
def recorded_ledger(record: Callable[..., None]) -> Iterator[None]:
    """Record what becomes of suggestions, when it is new."""
    shown, accepted = Ledger.shown, Ledger.accepted

    def recording_shown(ledger: Ledger, completion_id: str, now: float) -> Any:
        found = shown(ledger, completion_id, now)
        if found is not None:
            record("shown", completion_id)
        return found

    def recording_accepted(ledger: Ledger, completion_id: str, n_chars: int | None) -> Any:
        suggestion = ledger.get(completion_id)
        n_before = suggestion.n_taken if suggestion is not None else 0
        learned = accepted(ledger, completion_id, n_chars)
        if suggestion is not None and suggestion.n_taken > n_before:
            record("accepted", completion_id, n_chars)
        return learned

    with (
        patch.object(Ledger, "shown", recording_shown),
        patch.object(Ledger, "accepted", recording_accepted),
    ):
        yield


def at(line: int, character: int, *, uri: str = URI, **context: Any) -> dict[str, Any]:
    """Return inline completion's params."""
    return {
        "textDocument": {"uri": uri},
        "position": {"line": line, "character": character},
        "context": {"triggerKind": 2, **context},
    }


def span(line: int, start: int, end: int, end_line: int | None = None) -> dict[str, Any]:
    """Return a range, on one line unless told otherwise."""
    last = line if end_line is None else end_line
    return {"start": {"line": line, "character": start}, "end": {"line": last, "character": end}}
