"""``nextEdit`` of ``speclsp complete``."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from forked_speclsp import run_speclsp
from recording_server import RecordingServer, recording_server

pytestmark = pytest.mark.real

CODE = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n"


def asking(msg_id: int, **params: Any) -> dict[str, Any]:
    given = {"path": "a.py", "text": CODE, "offset": 12, **params}
    return {"jsonrpc": "2.0", "id": msg_id, "method": "nextEdit", "params": given}


def answers(requests: list[dict[str, Any]], *options: str) -> dict[int, dict[str, Any]]:
    """Return the answers of one process, by id."""
    data = "\n".join(map(json.dumps, requests)).encode()
    run = run_speclsp("complete", "--no-persist", *options, data=data)
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    found = {line["id"]: line for line in lines}
    assert len(lines) == len(found), "a request was answered twice"
    return found


@pytest.fixture
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", CODE.replace("in prices", "in numbers")) as server:
        yield server


def test_an_edit_or_why_there_is_none(model):
    renamed = CODE.replace("(prices)", "(numbers)")
    asked = [
        asking(1, text=renamed, before=[CODE]),
        asking(2, text=CODE),
        asking(3, text="x = '<|user_cursor|>'\n"),
        asking(4, offset=1000),
        asking(5, text=7),
        asking(6, text=CODE.replace("in prices", "in numbers")),
    ]
    model.answer = lambda _prompt: renamed.replace("in prices", "in numbers")
    found = answers(asked, "--engine-url", model.address, "--engine-kind", "openai")
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    first = found[1]["result"]
    at = renamed.index("prices")
    assert first["edit"] == {"start": at, "end": at + 5, "text": "number"}
    assert [hunk["text"] for hunk in first["hunks"]] == ["    for price in numbers:\n"]
    assert (first["withheld"], first["isFar"], first["finishReason"]) == ("", False, "stop")
    assert first["id"]
    # Each request is a document of its own, with no trail of the one before.
    assert ["-def total(prices):\n" in prompt for prompt in model.prompts] == [True, False, False]
    assert found[2]["result"]["edit"] is not None
    assert (found[3]["result"]["edit"], found[3]["result"]["withheld"]) == (None, "refused")
    assert [found[number]["error"]["code"] for number in (4, 5)] == [-32602, -32602]
    assert found[6]["result"]["edit"] is not None
