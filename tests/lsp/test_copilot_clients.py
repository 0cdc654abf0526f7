"""What copilot-lsp and sidekick.nvim sent for next edits, replayed: tests/clients records it.

Something is renamed, the next edit is accepted, and undone.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_recordings import recorded_clients, recording
from replayed_client import ReplayedClient, replayed_client
from rewriting_model import rewriting

from tests.support.recording_server import RecordingServer, recording_server

pytestmark = pytest.mark.real

NEXT_EDIT = "textDocument/copilotInlineEdit"


def is_asking(entry: Any) -> bool:
    name, message = entry
    return bool(name == "client" and message.get("method") == NEXT_EDIT)


CLIENTS = [
    name for name in recorded_clients("lsp") if any(map(is_asking, recording(name)["entries"]))
]


@pytest.fixture
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", "") as server:
        server.answer = rewriting(lambda region: re.sub(r"\bprices\b", "amounts", region))
        yield server


@pytest.fixture(params=CLIENTS)
def client(
    request: pytest.FixtureRequest, tmp_path: Path, model: RecordingServer
) -> Iterator[ReplayedClient]:
    remote = ("--engine", "own", "--engine-url", model.address, "--engine-kind", "openai")
    with replayed_client(request.param, tmp_path, *remote, "--idle-work", "never") as replayed:
        yield replayed


def edits_of(answer: dict[str, Any]) -> list[Any]:
    """Return the edits of an answer, without what differs from run to run."""
    edits = answer["result"]["edits"]
    return [(edit["range"], edit["text"], edit["textDocument"]["version"]) for edit in edits]


def test_there_are_recordings():
    assert CLIENTS == ["copilot-lsp", "sidekick.nvim"]


def test_the_session_applies_one_edit_and_counts_it_and_it_stays_undone(client):
    entries = client.entries.copy()
    client.replay()
    ids = [message["id"] for _, message in filter(is_asking, entries)]
    recorded = {message["id"]: message for name, message in entries if name == "server"}
    answers = client.answers[NEXT_EDIT]
    assert [edits_of(one) for one in answers] == [edits_of(recorded[one]) for one in ids]
    assert all(len(one["result"]["edits"]) <= 1 for one in answers)
    stats = client.statistics()["edits"]
    assert (stats["n_accepted"], stats["n_declined"]) == (1, 1)
    assert client.shown == []
    # What was undone does not come again.
    changes = [
        message["params"]["textDocument"]
        for message in client.sent
        if message.get("method") == "textDocument/didChange"
    ]
    params = {"textDocument": changes[-1], "position": {"line": 0, "character": 16}}
    assert client.ask(NEXT_EDIT, params) == {"edits": []}
    assert client.statistics()["edits"]["withheld"].get("declined") == 1
