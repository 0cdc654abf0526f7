"""A real server that gets a recorded client's messages, one after the other."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from client_recordings import recording

TIMEOUT_S = 60.0
_IDS = re.compile(r'"([0-9a-f]{32})"')
"""Ids that the server gives to suggestions and edits."""


class ReplayedClient:
    """Sends a recording's messages, with this server's ids in place of the recorded one's.

    ``answers`` holds the answers to the requests by method, and ``messages`` what the server said
    otherwise.
    """

    def __init__(self, client: str, folder: Path, *options: str) -> None:
        self.entries: list[Any] = recording(client)["entries"]
        self._folder = folder
        self._ids: dict[str, str] = {}
        self._recorded = {
            message["id"]: message for name, message in self.entries if name == "server"
        }
        self._settings = next(
            (
                message["result"]
                for name, message in self.entries
                if name == "client" and isinstance(message.get("result"), list)
            ),
            [None],
        )
        self.answers: dict[str, list[Any]] = {}
        self.messages: list[Any] = []
        self.sent: list[Any] = []
        """The client's messages as they were sent here."""
        self._answered: Queue[Any] = Queue()
        self._ready = threading.Event()
        self._n_own = 0
        self.server = subprocess.Popen(
            [sys.executable, "-m", "speclsp", "serve", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def replay(self, up_to: str = "shutdown") -> None:
        """Send the recorded messages until a method, which is not sent; again: those after it."""
        while self.entries:
            name, message = self.entries[0]
            if name == "client" and message.get("method") == up_to:
                return
            self.entries.pop(0)
            if name == "client" and "method" in message:
                self._send_recorded(message)

    def ask(self, method: str, params: Any) -> Any:
        """Ask what is not recorded; returns the result."""
        self._n_own += 1
        return self._request(
            {"jsonrpc": "2.0", "id": f"own {self._n_own}", "method": method, "params": params}
        )["result"]

    def statistics(self) -> Any:
        return self.ask("speclsp/statistics", {})

    @property
    def shown(self) -> list[str]:
        """What the server showed to the user."""
        return [
            one["params"]["message"]
            for one in self.messages
            if one["method"] in {"window/showMessage", "window/showMessageRequest"}
        ]

    def hang_up(self) -> None:
        """Close the server's input, as Neovim does after `shutdown`; it has ended then."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        assert self.server.wait(TIMEOUT_S) == 0

    def _send_recorded(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).replace("file:///project", self._folder.as_uri())
        text = text.replace('"/project"', json.dumps(str(self._folder)))
        for recorded, ours in self._ids.items():
            text = text.replace(recorded, ours)
        message = json.loads(text)
        if "id" not in message:
            self._write(message)
            return
        recorded = json.dumps(self._recorded.get(message["id"], {}))
        # What is asked while the model loads gets nothing.
        if _IDS.search(recorded):
            assert self._ready.wait(TIMEOUT_S)
        answer = self._request(message)
        self.answers.setdefault(message["method"], []).append(answer)
        self._ids |= zip(_IDS.findall(recorded), _IDS.findall(json.dumps(answer)), strict=False)

    def _request(self, message: dict[str, Any]) -> Any:
        self._write(message)
        while (answer := self._answered.get(timeout=TIMEOUT_S))["id"] != message["id"]:
            pass
        return answer

    def _write(self, message: Any) -> None:
        self.sent.append(message)
        body = json.dumps(message).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.server.stdin.flush()

    def _read(self) -> None:
        source = self.server.stdout
        assert source is not None
        while head := source.readline():
            length = int(head.split(b":")[1])
            source.readline()
            message = json.loads(source.read(length))
            if "method" not in message:
                self._answered.put(message)
                continue
            self.messages.append(message)
            if message["method"] == "$/speclsp/status" and message["params"]["state"] == "ready":
                self._ready.set()
            if "id" in message:
                asks = message["method"] == "workspace/configuration"
                n_items = len(message["params"]["items"]) if asks else 0
                result = (self._settings * n_items)[:n_items] if asks else None
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": result})


@contextmanager
def replayed_client(client: str, folder: Path, *options: str) -> Iterator[ReplayedClient]:
    """Start a server for a recorded client, in a project of its own."""
    project = folder / "project"
    project.mkdir()
    replayed = ReplayedClient(client, project, *options)
    try:
        yield replayed
        replayed.replay("")
        replayed.hang_up()
    finally:
        replayed.server.kill()
        replayed.server.wait()
