"""A language client that sends what it is told, whatever it is, and checks what comes back."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter, deque
from pathlib import Path
from typing import Any

TIMEOUT_S = 60.0
SERVER = Path(__file__).with_name("fuzzed_server.py")


class FuzzingClient:
    """One server process over stdio.  Every method but :meth:`close` may be called after another.

    What the server asks is answered with null.
    """

    def __init__(self, folder: Path, options: dict[str, Any], encoding: str) -> None:
        environment = {name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER), "serve", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr.txt").open("wb"),
            env={**os.environ, **environment},
        )
        self.folder = folder
        self.codec = encoding if encoding == "utf-8" else f"{encoding}-le"
        self.log: list[str] = []
        self.answers: dict[int, Any] = {}
        self.n_answers: Counter[int] = Counter()
        self.recent: deque[bytes] = deque(maxlen=40)
        """The last writes."""
        self.asked: dict[int, str] = {}
        """The methods of all requests by their ids."""
        self._arrived = threading.Condition()
        self._next_id = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        project = folder / "project"
        project.mkdir(exist_ok=True)
        self.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "workspaceFolders": [{"uri": project.as_uri(), "name": "project"}],
                "initializationOptions": options,
                "capabilities": {
                    "textDocument": {"inlineCompletion": {}},
                    "general": {"positionEncodings": [encoding]},
                },
            },
        )
        self.notify("initialized", {})
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the engine takes requests."""
        with self._arrived:
            ready = self._arrived.wait_for(
                lambda: any("ready" in line for line in self.log), TIMEOUT_S
            )
        assert ready, "the engine is not ready"

    # --- sending --------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Send some bytes."""
        assert self._process.stdin is not None
        self.recent.append(data)
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages in one write."""
        frames = []
        for message in messages:
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            frames.append(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.send_bytes(b"".join(frames))

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def request_message(self, method: str, params: Any) -> dict[str, Any]:
        """Return a request with a new id, which is then to be answered once."""
        self._next_id += 1
        self.asked[self._next_id] = method
        return {"id": self._next_id, "method": method, "params": params}

    def request(self, method: str, params: Any) -> int:
        """Send a request and return its id."""
        message = self.request_message(method, params)
        self.send(message)
        return int(message["id"])

    def ask(self, method: str, params: Any) -> Any:
        """Return a request's result."""
        answer = self.answer(self.request(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    # --- receiving ------------------------------------------------------------------------------

    def answer(self, msg_id: int) -> Any:
        """Wait for the answer to a request."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: msg_id in self.answers, TIMEOUT_S)
        assert came, f"no answer to {self.asked[msg_id]} ({msg_id}); {self.state()}"
        return self.answers[msg_id]

    def wait_all(self) -> None:
        """Wait until every request is answered, and check that each was answered once."""
        for msg_id in self.asked:
            self.answer(msg_id)
        twice = [self.asked[msg_id] for msg_id, n in self.n_answers.items() if n != 1]
        assert not twice, f"answered more than once: {twice}"
        self.asked, self.answers, self.n_answers = {}, {}, Counter()

    def check(self) -> None:
        """Check that the process runs and neither log nor stderr has a traceback."""
        assert self._process.poll() is None, self.state()
        traces = [line for line in self.log if "Traceback" in line]
        assert not traces, traces[0]
        stderr = (self.folder / "stderr.txt").read_text(errors="replace")
        assert "Traceback" not in stderr, stderr[-3000:]

    def state(self) -> str:
        """What is known of the process, for messages."""
        stderr = (self.folder / "stderr.txt").read_text(errors="replace")
        return f"exit status {self._process.poll()}; stderr: {stderr[-2000:]}"

    def resources(self) -> tuple[int, int, int]:
        """Return resident MiB, threads and open files of the server (Linux)."""
        process = Path(f"/proc/{self._process.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        n_mib = int(status["VmRSS"].split()[0]) >> 10
        return n_mib, int(status["Threads"]), len(list((process / "fd").iterdir()))

    def close(self) -> int:
        """Shut the server down and return its exit status."""
        self.send(self.request_message("shutdown", None))
        self.wait_all()
        self.notify("exit", None)
        return self._process.wait(TIMEOUT_S)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while header := stream.readline():
            n_bytes = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            self._take(json.loads(stream.read(n_bytes)))

    def _take(self, message: dict[str, Any]) -> None:
        with self._arrived:
            if "method" not in message:
                if message["id"] is not None:
                    self.answers[message["id"]] = message
                    self.n_answers[message["id"]] += 1
            elif message["method"] == "window/logMessage":
                self.log.append(message["params"]["message"])
            elif message["method"] == "$/speclsp/status":
                self.log.append(message["params"]["state"])
            self._arrived.notify_all()
        if "method" in message and "id" in message:
            self.send({"id": message["id"], "result": None})
