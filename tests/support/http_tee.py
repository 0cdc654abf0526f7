"""A server between a client and an HTTP server: it passes bytes on, and keeps the requests."""

import contextlib
import http.client
import io
import json
import socket
import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Exchange:
    """One connection, which carries one request (curl's way)."""

    sent: bytes = b""
    answered: bytes = b""
    is_over: bool = False

    @property
    def request(self) -> dict[str, Any]:
        """The request's method, path, User-Agent and body."""
        head, _, body = self.sent.partition(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        headers = dict(
            line.decode().lower().split(": ", 1) for line in head.split(b"\r\n")[1:] if line
        )
        return {
            "method": method,
            "path": path,
            "agent": headers.get("user-agent", ""),
            "body": json.loads(body) if body else None,
        }

    @property
    def status(self) -> int:
        """The answer's status; 0 without one."""
        return int(self.answered.split(b" ", 2)[1]) if self.answered else 0

    @property
    def text(self) -> str:
        """The answer's body."""
        answer = http.client.HTTPResponse(_Bytes(self.answered))  # type: ignore[arg-type]
        answer.begin()
        return answer.read().decode()


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


@dataclass
class HttpTee:
    """It listens at a port of its own in front of a server's."""

    server_port: int
    exchanges: list[Exchange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                exchange = Exchange()
                self.exchanges.append(exchange)
                server = socket.create_connection(("127.0.0.1", self.server_port))
                for one in ((client, server, exchange, True), (server, client, exchange, False)):
                    threading.Thread(target=self._pass_on, args=one, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, to: socket.socket, into: Exchange, is_sent: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_sent:
                    into.sent += data
                else:
                    into.answered += data
                to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)
        if not is_sent:
            into.is_over = True

    def close(self) -> None:
        self._listening.close()
