"""What Neovim's own client and plugins sent, replayed: tests/clients records it."""

import re

import pytest
from client_recordings import recorded_clients, recording
from replayed_client import replayed_client
from rewriting_model import rewriting

from tests.support.recording_server import recording_server

pytestmark = pytest.mark.real

ASKING = ("textDocument/inlineCompletion", "textDocument/completion")
NEXT_EDIT = "textDocument/copilotInlineEdit"
REMOTE = ("--engine", "own", "--engine-kind", "openai", "--idle-work", "never", "--engine-url")


def clients_that_send(*methods: str) -> list[str]:
    entries = {client: recording(client)["entries"] for client in recorded_clients("lsp")}
    return [
        client
        for client, sent in entries.items()
        if any(message.get("method") in methods for _, message in sent)
    ]


SUGGESTING, EDITING = clients_that_send(*ASKING), clients_that_send(NEXT_EDIT)


def test_there_are_recordings():
    assert {"built-in ghost text", "built-in popup", "blink.cmp", "nvim-cmp"} <= {*SUGGESTING}
    assert EDITING == ["copilot-lsp", "sidekick.nvim"]


def suggested(client: str) -> str:
    """Return the longest text that the recorded server suggested."""
    results = [message.get("result") for _, message in recording(client)["entries"]]
    items = [item for one in results if isinstance(one, dict) for item in one.get("items", [])]
    return max(str(item.get("insertText") or item["textEdit"]["newText"]) for item in items)


@pytest.mark.parametrize("client", SUGGESTING)
def test_a_suggestion_is_shown_accepted_and_undone(client, tmp_path):
    text = suggested(client).partition("make_c")[2] or suggested(client)
    with (
        recording_server("model", text) as model,
        replayed_client(client, tmp_path, *REMOTE, model.address) as replayed,
    ):
        replayed.replay()
        asked = [one for method in ASKING for one in replayed.answers.get(method, [])]
        assert all("error" not in one for one in asked)
        assert any(one["result"]["items"] for one in asked)
        assert all("error" not in one for many in replayed.answers.values() for one in many)
        stats = replayed.statistics()
        assert stats["n_accepted_items"] == 1
        assert replayed.shown == []


def edits_of(answer):
    """Return the edits of an answer, without what differs from run to run."""
    edits = answer["result"]["edits"]
    return [(edit["range"], edit["text"], edit["textDocument"]["version"]) for edit in edits]


@pytest.mark.parametrize("client", EDITING)
def test_a_next_edit_is_applied_counted_and_stays_undone(client, tmp_path):
    """Something is renamed, the next edit is accepted, and undone."""
    entries = recording(client)["entries"]
    ids = [message["id"] for _, message in entries if message.get("method") == NEXT_EDIT]
    recorded = {message["id"]: message for name, message in entries if name == "server"}
    with recording_server("zeta-2", "") as model:
        model.answer = rewriting(lambda region: re.sub(r"\bprices\b", "amounts", region))
        with replayed_client(client, tmp_path, *REMOTE, model.address) as replayed:
            replayed.replay()
            answers = replayed.answers[NEXT_EDIT]
            assert [edits_of(one) for one in answers] == [edits_of(recorded[one]) for one in ids]
            assert all(len(one["result"]["edits"]) <= 1 for one in answers)
            stats = replayed.statistics()["edits"]
            assert (stats["n_accepted"], stats["n_declined"]) == (1, 1)
            assert replayed.shown == []
            # What was undone does not come again.
            changes = [
                message["params"]["textDocument"]
                for message in replayed.sent
                if message.get("method") == "textDocument/didChange"
            ]
            params = {"textDocument": changes[-1], "position": {"line": 0, "character": 16}}
            assert replayed.ask(NEXT_EDIT, params) == {"edits": []}
            assert replayed.statistics()["edits"]["withheld"].get("declined") == 1
