"""An HTTP server that sends what a test scripts, byte by byte if need be."""

import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["Request"], Iterable[bytes | float]]
"""Answers a request with bytes, and with pauses in seconds between them."""


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection_idx: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedServer:
    """``abandoned`` is set where a client leaves before its answer is complete."""

    script: Script
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    n_connections: int = 0
    abandoned: threading.Event = field(default_factory=threading.Event)
    keeps_connections: bool = True


def response(status: int, body: object = b"", *headers: str) -> bytes:
    """Return a whole response; objects are sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


def stream(*parts: object, is_cut: bool = False) -> Iterator[bytes]:
    """Yield a response of chunks: bytes as they are, floats as pauses, objects as events."""
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for part in parts:
        if isinstance(part, float):
            yield part  # type: ignore[misc]
            continue
        chunk = part if isinstance(part, bytes) else f"data: {json.dumps(part)}\n\n".encode()
        yield b"%x\r\n%b\r\n" % (len(chunk), chunk)
    if not is_cut:
        yield b"0\r\n\r\n"


@contextmanager
def scripted_server(
    script: Script, *, tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """Serve a script on a port of its own."""
    found = ScriptedServer(script)

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            idx, found.n_connections = found.n_connections, found.n_connections + 1
            while (request := self.read(idx)) is not None:
                found.requests.append(request)
                try:
                    self.answer(request)
                except OSError:
                    found.abandoned.set()
                    return
                if not found.keeps_connections:
                    return

        def read(self, idx: int) -> Request | None:
            try:
                method, path, _ = self.rfile.readline().decode().split()
                lines = iter(lambda: self.rfile.readline().decode().strip(), "")
                headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}
                body = self.rfile.read(int(headers.get("content-length", 0)))
            except (OSError, ValueError):
                return None
            return Request(method, path, headers, body, idx)

        def answer(self, request: Request) -> None:
            is_whole = False
            for part in found.script(request):
                if isinstance(part, float):
                    self.pause(part)
                else:
                    self.wfile.write(part)
                    is_whole = part.endswith(b"0\r\n\r\n") or b"Content-Length" in part
            if not is_whole:
                raise ConnectionAbortedError

        def pause(self, seconds: float) -> None:
            """Wait; raises where the client closes the connection meanwhile."""
            self.connection.settimeout(seconds)
            try:
                if not self.connection.recv(1):
                    raise ConnectionResetError
            except TimeoutError:
                self.connection.settimeout(None)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            if tls is not None:
                connection = tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            return connection, address

        def handle_error(self, *_: object) -> None:
            """Clients that do not trust the certificate leave."""

    with Server(("127.0.0.1", 0), Connection) as server:
        scheme = "http" if tls is None else "https"
        found.url = f"{scheme}://localhost:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield found
        finally:
            server.shutdown()
