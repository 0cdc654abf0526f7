"""An OpenAI-compatible server that keeps every byte that it receives, and answers with one text."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RecordingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: str, text: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.model = model
        self.answer: Callable[[str], str] = lambda _prompt: text
        self.received = b""
        self.prompts: list[str] = []
        self.n_completions = 0

    def handle_error(self, *_arguments: object) -> None:
        """Say nothing of connections that the client closed."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: RecordingServer

    def do_HEAD(self) -> None:
        self._say(404, b"")

    def do_GET(self) -> None:
        self._note(b"")
        listing = {"data": [{"id": self.server.model}]}
        known = self.path == "/v1/models"
        self._say(200 if known else 404, json.dumps(listing).encode() if known else b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._note(body)
        if self.path != "/v1/completions":
            self._say(404, b"{}")
            return
        self.server.n_completions += 1
        prompt = json.loads(body)["prompt"]
        self.server.prompts.append(prompt)
        event = json.dumps({"choices": [{"text": self.server.answer(prompt)}]})
        self._say(200, f"data: {event}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")

    def _note(self, body: bytes) -> None:
        self.server.received += b"\n".join((self.path.encode(), bytes(self.headers), body, b""))

    def _say(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def recording_server(model: str, text: str) -> Iterator[RecordingServer]:
    with RecordingServer(model, text) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
