"""A real ``speclsp http`` process with the embedded model, and requests to it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from waiting import until

TIMEOUT_S = 120
BODY = "    total = 0\n    for item in items:\n        total += item.price\n    return total\n"
CODE = "".join(f"def add_{name}(items):\n{BODY}\n\n" for name in ("shirts", "shoes", "hats"))
HEAD = CODE + "def add_socks(items):\n"
INFILL = {"input_prefix": HEAD, "input_suffix": "\n", "n_predict": 24, "temperature": 0}


HTTP = [sys.executable, "-m", "speclsp", "http", "--port", "0", "--threads", "1"]
# The lines of requests would fill the pipe; `Server.close` returns warnings and errors.
HTTP += ["--log-level", "warning"]
# The embedded model is sure of little.
HTTP += ["--min-probability", "0"]


class Server:
    """A process, and requests to it."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        own = {name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
        # The path of a socket is short.
        self.run = Path(tempfile.mkdtemp(prefix="speclsp-"))
        self.process = subprocess.Popen(
            [*HTTP, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **own, "XDG_RUNTIME_DIR": str(self.run), **environment},
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.address = self.line.split(" ")[0]
        self.port = int(self.address.rpartition(":")[2] or 0) if self.line else 0
        until(lambda: not self.line or self.send("/health")[0] != 503)

    def send(
        self, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str
    ) -> tuple[int, str]:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json", **named}
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        status, text = self.send(path, body, **headers)
        assert status == 200, text
        return json.loads(text)

    def events(self, path: str, body: Any) -> list[Any]:
        status, text = self.send(path, {**body, "stream": True})
        assert status == 200, text
        parts = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        return [part if part == "[DONE]" else json.loads(part) for part in parts]

    def end(self) -> str:
        self.process.terminate()
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        return errors

    def close(self) -> str:
        """End it, remove what it left for its engine, and return what it said of problems."""
        errors = self.end()
        shutil.rmtree(self.run)
        return errors

    def kept(self, folder: Path) -> list[Path]:
        """Return the files below a folder and of the engine."""
        found = [*folder.rglob("*"), *self.run.rglob("*")]
        return [path for path in found if path.is_file()]
