"""A hub on loopback that speaks as much of Hugging Face's API as a download needs."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c" * 40
_API = re.compile(r"^/api/models/([\w.-]+/[\w.-]+)(?:/revision/\w+)?(?:\?.*)?$")
_FILE = re.compile(r"^/([\w.-]+/[\w.-]+)/resolve/(?:main|c{40})/(.+)$")


@dataclass
class FakeHub:
    """What it serves; tests change it while it runs."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    token: str = ""
    """What private and gated repositories want to see."""
    private: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    cuts: list[int] = field(default_factory=list)
    """Bytes after which the next answers with a file break off."""
    lengths_of_all: list[int] = field(default_factory=list)
    """Bytes of the next answers, which ignore ranges and say no length."""
    damaged: set[str] = field(default_factory=set)
    """Files whose bytes are not those of their checksums."""
    hold: threading.Event | None = None
    """Where set, files come to a halt after their first half until the event is."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and Range header of each request."""
    url: str = ""

    def ranges(self) -> list[str]:
        """The Range headers of the requests for files' bytes."""
        return [
            found for method, path, found in self.asked if method == "GET" and "resolve" in path
        ]


@contextmanager
def serve_hub() -> Iterator[FakeHub]:
    """Serve a hub until the block ends."""
    hub = FakeHub()

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        if hub.hold is not None:
            hub.hold.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Nothing: tests read ``asked``."""

    def _answer(self) -> None:
        hub = self.served
        hub.asked.append((self.command, self.path, self.headers.get("Range", "")))
        found = _API.match(self.path) or _FILE.match(self.path)
        if found is None or found[1] not in hub.repositories:
            self._refuse(404, "RepoNotFound")
            return
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and hub.token and token != hub.token:
            self._refuse(401, "", "Invalid credentials in Authorization header")
        elif found[1] in hub.private and token != hub.token:
            self._refuse(401, "RepoNotFound")
        elif found.re is _API:
            self._list(found[1])
        elif found[1] in hub.gated and token != hub.token:
            self._refuse(403, "GatedRepo")
        elif found[2] not in hub.repositories[found[1]]:
            self._refuse(404, "EntryNotFound")
        else:
            self._send(found[2], hub.repositories[found[1]][found[2]])

    def _refuse(self, status: int, code: str, message: str = "") -> None:
        self.send_response(status)
        for name, value in (("X-Error-Code", code), ("X-Error-Message", message)):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _list(self, repository: str) -> None:
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 134},
            }
            for name, data in self.served.repositories[repository].items()
        ]
        listing = {"id": repository, "sha": COMMIT, "siblings": siblings}
        body = json.dumps(listing).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send(self, name: str, data: bytes) -> None:
        hub = self.served
        if self.command == "GET" and hub.lengths_of_all:
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data[: hub.lengths_of_all.pop(0)])
            return
        start = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range", "")) or ["0"])[0])
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{sha256(data)}"')
        self.send_header("X-Linked-Etag", f'"{sha256(data)}"')
        self.send_header("X-Linked-Size", str(len(data)))
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if name in hub.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if hub.hold is not None:
            half = max(start, len(data) // 2)
            self.wfile.write(data[start:half])
            self.wfile.flush()
            hub.hold.wait()
            start = half
        end = start + hub.cuts.pop(0) if hub.cuts else len(data)
        self.wfile.write(data[start:end])
        if end < len(data):
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
