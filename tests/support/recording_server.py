"""An OpenAI-compatible server that keeps all that it receives, and answers with one text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.scripted_http import Request, response, scripted_server, stream


@dataclass
class RecordingServer:
    model: str
    answer: Callable[[str], str]
    address: str = ""
    prompts: list[str] = field(default_factory=list)
    received: str = ""

    def script(self, request: Request) -> Iterator[bytes]:
        headers = map(": ".join, request.headers.items())
        self.received += "\n".join((request.path, *headers, request.body.decode(), ""))
        if (request.method, request.path) == ("GET", "/v1/models"):
            yield response(200, {"data": [{"id": self.model}]})
        elif request.path == "/v1/completions":
            self.prompts.append(request.json["prompt"])
            event = {"choices": [{"text": self.answer(self.prompts[-1])}]}
            yield from stream(event, b"data: [DONE]\n\n")
        else:
            yield response(404)


@contextmanager
def recording_server(model: str, text: str) -> Iterator[RecordingServer]:
    found = RecordingServer(model, lambda _prompt: text)
    with scripted_server(found.script) as server:
        found.address = server.url
        yield found
