"""What Neovim's own client and completion plugins sent, replayed: tests/clients records it."""

import pytest
from client_recordings import recorded_clients, recording
from replayed_client import replayed_client

from tests.support.recording_server import recording_server

pytestmark = pytest.mark.real

ASKING = ("textDocument/inlineCompletion", "textDocument/completion")


def methods(client: str) -> set[str]:
    return {message.get("method", "") for name, message in recording(client)["entries"]}


CLIENTS = [name for name in recorded_clients("lsp") if methods(name) & {*ASKING}]


def suggested(client: str) -> str:
    """Return the longest text that the recorded server suggested."""
    results = [message.get("result") for _, message in recording(client)["entries"]]
    items = [item for one in results if isinstance(one, dict) for item in one.get("items", [])]
    return max(str(item.get("insertText") or item["textEdit"]["newText"]) for item in items)


def test_there_are_recordings():
    assert {"built-in ghost text", "built-in popup", "blink.cmp", "nvim-cmp"} <= {*CLIENTS}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_suggestion_is_shown_accepted_and_undone(client, tmp_path):
    text = suggested(client).partition("make_c")[2] or suggested(client)
    with recording_server("model", text) as model:
        options = ("--engine", "own", "--engine-url", model.address, "--engine-kind", "openai")
        with replayed_client(client, tmp_path, *options, "--idle-work", "never") as replayed:
            replayed.replay()
            asked = [one for method in ASKING for one in replayed.answers.get(method, [])]
            assert all("error" not in one for one in asked)
            assert any(one["result"]["items"] for one in asked)
            assert all("error" not in one for many in replayed.answers.values() for one in many)
            stats = replayed.statistics()
            assert stats["n_accepted_items"] == 1
            assert replayed.shown == []
