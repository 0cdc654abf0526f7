"""A remote engine that means harm: what it says in an editor's text, messages and log.

Each entry of ``TEXTS`` and ``ERRORS`` is one behaviour, and a server process meets them all.
"""

import asyncio
import json
import sys
import unicodedata
from collections.abc import Iterable

import pytest
from scripted_http import Request, response, scripted_server, stream

from speclsp.seam.events import LogLine, StateChanged
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.real

TIMEOUT_S = 60
MODEL = "qwen2.5-coder\x1b]0;owned\x07\u202e\u200b" + "\x9b31m"
DOCUMENT = "def area(width, height):\n    return \n"
TEXTS = {
    "a title for the terminal": ["width\x1b]0;owned\x07 * height", "width"],
    "a cut escape sequence": ["width\x1b", "width"],
    "NUL": ["width\0 * height", "width"],
    "backspaces": ["width\b\b\b\b\bheight", "width"],
    "the eight-bit control sequence introducer": ["width\x9b2J", "width"],
    "a vertical tab": ["width\x0bimport os", "width"],
    "a line separator": ["width\u2028import os", "width"],
    "right to left": ["width \u202e} \u2066# height\u2069 \u2066", "width"],
    "a mark of direction": ["width\u200f * height", "width"],
    "nothing but controls": ["\x1b[31m", ""],
    "an end token": ["width<|endoftext|>def other():", "width"],
    "a token in pieces": [["width", "<|", "fim_", "middle", "|>", " * height"], "width"],
    "a token of the model's family": ["width<|file_sep|>secrets.py", "width"],
    "a token of another family": ["width<fim_suffix> * height", "width"],
    "DeepSeek's token": ["width<\uff5cfim\u2581hole\uff5c>", "width"],
    "line ends of DOS": ["width\r\nheight", "width"],
}
ERRORS = {
    "a message with escape sequences": response(400, {"error": {"message": "\x1b[2J\x07no\u202e"}}),
    "a message of several lines": response(422, {"detail": "no\n2026-01-01 ERROR all is lost\r"}),
    "a message that is long": response(400, {"message": "\x1b" * 100_000}),
    "escape sequences in a redirect": response(302, b"", "Location: http://evil\x1b[2J.example/"),
}


def hidden(text: str) -> set[str]:
    """Return what of a text nobody sees, or what a terminal obeys."""
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {char for char in text if unicodedata.category(char) in unseen} - {"\n", "\t"}


@pytest.mark.asyncio
async def test_nothing_that_it_says_controls_a_terminal_or_hides_in_the_text(tmp_path):
    answers: list[Iterable[bytes]] = []

    def script(request: Request) -> Iterable[bytes]:
        if request.path == "/v1/models":
            return [response(200, {"data": [{"id": MODEL}]})]
        return answers.pop() if request.path == "/v1/completions" else [response(404)]

    said: list[LogLine | StateChanged] = []
    server = ServerProcess(on_log=said.append, on_message=said.append, on_state=said.append)
    with scripted_server(script) as engine:
        options = {
            "engine_url": engine.url,
            "persist": False,
            "debounce_ms": 0,
            "suggestion_memory": False,
            "automatic_filters": False,
            "idle_work": "never",
            "log_level": "debug",
        }
        await server.start([sys.executable, "-m", "speclsp", "serve"], tmp_path, options=options)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not any(getattr(event, "state", "") == "ready" for event in said):
                    await asyncio.sleep(0.01)
            inserted = {}
            for number, (name, (pieces, _)) in enumerate(TEXTS.items()):
                parts = [pieces] if isinstance(pieces, str) else pieces
                answers.append(stream(*({"choices": [{"text": part}]} for part in parts)))
                server.open(tmp_path / f"a{number}.py", DOCUMENT)
                items = await server.inline_completion(1, len("    return "))
                inserted[name] = items[0].insert_text if items else ""
            for number, answer in enumerate(ERRORS.values()):
                answers.append([answer])
                server.open(tmp_path / f"b{number}.py", DOCUMENT)
                assert not await server.inline_completion(1, len("    return "))
            shown = await server.execute_command("speclsp.showStatistics")
        finally:
            status = await server.shutdown()
    assert inserted == {name: text for name, (_, text) in TEXTS.items()}
    assert status == 0
    texts = [event.message for event in said]
    assert not hidden("".join([*texts, json.dumps(shown, ensure_ascii=False), server.stderr_tail]))
    assert any("qwen2.5-coder\ufffd]0;owned" in text for text in texts)
    refusals = [text for text in texts if "refuses the request with status" in text]
    assert any("\ufffd[2J\ufffdno\ufffd" in text for text in refusals)
    assert not any("\n" in text or len(text) > 1000 for text in refusals)
