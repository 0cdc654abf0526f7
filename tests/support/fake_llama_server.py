"""A program that answers as llama-server does, as far as a client can tell; run as a process.

What it does hangs on the model's name: ``dies`` ends with words, ``stays`` does not end when asked
to, ``refuses`` answers 400, ``forgets`` ends at the third request, ``tires`` closes its connection
after each answer without saying so, and ``drafts_nothing`` says so.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    model = ""
    n_requests = 0
    n_connections = 0

    def setup(self) -> None:
        Answers.n_connections += 1
        super().setup()

    def do_GET(self) -> None:
        self.say(200, {"status": "ok"})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Answers.n_requests += 1
        if "forgets" in self.model and Answers.n_requests == 3:
            sys.stderr.write("GGML_ASSERT(forgot) failed\n")
            sys.stderr.flush()
            os._exit(6)
        if "refuses" in self.model:
            self.say(400, {"error": {"message": "no such field"}})
            return
        self.say(200, {"content": self.model_says(request), **self.timings(request)})
        if "tires" in self.model:
            self.close_connection = True

    def model_says(self, request: dict[str, object]) -> str:
        return f"{Answers.n_requests} of {Answers.n_connections}: {request['prompt']}"

    def timings(self, request: dict[str, object]) -> dict[str, float]:
        assert "timings/draft_n" in request["response_fields"]
        return {
            "timings/cache_n": 7,
            "timings/prompt_n": 5,
            "timings/prompt_ms": 50.5,
            "timings/predicted_n": 9,
            "timings/predicted_ms": 90.5,
            "timings/draft_n": 8,
            "timings/draft_n_accepted": 4,
        }

    def say(self, status: int, what: dict[str, object]) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_arguments: object) -> None:
        pass


def main(argv: list[str]) -> None:
    Answers.model = argv[argv.index("--model") + 1]
    sys.stderr.write(f"command: {' '.join(argv)}\n")
    if "dies" in Answers.model:
        sys.stderr.write("error: failed to load model\n")
        sys.exit(1)
    if "drafts_nothing" in Answers.model:
        sys.stderr.write("failed to initialize speculative decoding context: other vocabulary\n")
    if "stays" in Answers.model:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    sys.stderr.write(f"main: listening on http://127.0.0.1:{server.server_port}\n")
    sys.stderr.flush()
    server.serve_forever()


def as_program(folder: Path) -> Path:
    """Write a program that is this module."""
    program = folder / "llama-server"
    program.write_text(f"#!{sys.executable}\n" + Path(__file__).read_text(encoding="utf-8"))
    program.chmod(0o755)
    return program


if __name__ == "__main__":
    main(sys.argv)
