"""From an empty folder to a completion: ``speclsp serve --model auto`` and a hub on loopback."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from fake_hub import serve_hub
from forked_speclsp import run_speclsp

from speclsp import embedded
from speclsp.models.presets import PRESETS
from speclsp.seam.events import LogLine, StateChanged
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.real


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Serve the embedded models as every preset's; the processes' caches are in ``tmp_path``."""
    with serve_hub() as served:
        target = embedded.embedded_target().read_bytes()
        draft = embedded.embedded_draft().read_bytes()
        for row in PRESETS.values():
            if row.draft is not None:
                served.repositories[row.draft.repository] = {row.draft.file: draft}
        for row in PRESETS.values():
            served.repositories.setdefault(row.target.repository, {})[row.target.file] = target
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
            monkeypatch.setenv(name, str(tmp_path / name))
        for name in ("HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


class Editor:
    """A server in an empty folder, and what it said."""

    def __init__(self, choice: str | None) -> None:
        self.questions: list[str] = []
        self.messages: list[LogLine] = []
        self.states: list[StateChanged] = []
        self.server = ServerProcess(on_message=self.messages.append, on_state=self.states.append)

        def ask(params):
            self.questions.append(params.message)
            return next((a for a in params.actions if a.title == choice), None)

        self.server._client.feature("window/showMessageRequest")(ask)

    async def until(self, condition) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def opened(tmp_path: Path) -> AsyncIterator:
    folder = tmp_path / "empty"
    folder.mkdir()
    started: list[Editor] = []

    async def make(choice: str | None, *arguments: str) -> Editor:
        editor = Editor(choice)
        started.append(editor)
        command = [sys.executable, "-m", "speclsp", "serve", "--threads", "1", *arguments]
        await editor.server.start(
            command, folder, options={"deadline_ms": 60_000, "min_probability": 0.0}
        )
        return editor

    yield make
    for editor in started:
        await editor.server.shutdown()


async def test_auto_pulls_after_consent_and_completes(hub, opened, tmp_path):
    editor = await opened("Download", "--model", "auto")
    await editor.until(
        lambda: any("Qwen" in s.message for s in editor.states if s.state == "ready")
    )
    (question,) = editor.questions
    assert "GB) is not downloaded" in question
    found = await editor.server.execute_command("speclsp.models")
    assert found["current"]["is_trial"] is False
    assert Path(found["current"]["path"]).is_relative_to(tmp_path / "HF_HOME")
    path = tmp_path / "empty" / "shapes.py"
    text = 'def area_of_box(width, height):\n    """Return the area."""\n    area = '
    editor.server.open(path, text)
    await editor.until(lambda: editor.states and editor.states[-1].state == "ready")
    items = await editor.server.inline_completion(2, 11)
    assert items[0].insert_text
    assert not editor.messages
    known = ("/api/models/", "/ggml-org/", "/QuantFactory/", "/mradermacher/", "/unsloth/")
    assert all(path.startswith(known) for _, path, _ in hub.asked), "no telemetry"
    # The next server finds it.
    again = await opened(None, "--model", "auto")
    await again.until(lambda: any("Qwen" in s.message for s in again.states))
    assert again.questions == []


def speclsp(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    run = run_speclsp(*arguments, data=given.encode())
    return subprocess.CompletedProcess(
        run.args, run.returncode, run.stdout.decode(), run.stderr.decode()
    )


def test_the_terminal_downloads_by_command_only(hub, tmp_path):
    name = "qwen2.5-coder-7b-q8_0-draft"
    refused = speclsp("complete", "--fim-qwen-7b-spec")
    assert refused.returncode == 1
    assert f"speclsp models pull {name}" in refused.stderr
    assert not hub.asked
    pulled = speclsp("models", "pull", name, "--json")
    assert pulled.returncode == 0, pulled.stderr
    target, draft = json.loads(pulled.stdout)["paths"]
    assert json.loads(speclsp("models", "path", name, "--json").stdout)["paths"] == [target, draft]
    listed = json.loads(speclsp("models", "list", "--json").stdout)
    assert {row["name"] for row in listed["presets"] if row["downloaded"]} >= {name}
    request = {
        "jsonrpc": "2.0", "id": 1, "method": "complete",
        "params": {"prefix": "import os\nimport ", "nPredict": 4},
    }  # fmt: skip
    names = ("-hf", "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF",
             "-hfd", "ggml-org/Qwen2.5-Coder-0.5B-Q8_0-GGUF")  # fmt: skip
    run = speclsp("complete", "--threads", "1", *names, "--offline", given=json.dumps(request))
    assert json.loads(run.stdout)["result"]["stats"]["nPredicted"] > 0
    assert "Qwen2.5-Coder 7B Q8_0" in run.stderr
    removed = speclsp("models", "remove", name)
    assert removed.returncode == 0
    assert not Path(target).exists()
    assert speclsp("models", "path", name).returncode == 1
    own = "qwen2.5-coder-0.5b-q8_0"
    assert Path(draft).exists(), "other presets draft with it, and it is one of its own"
    assert f"`speclsp models remove {own}`" in removed.stderr
    assert speclsp("models", "remove", own).returncode == 0
    assert not Path(draft).exists()


def test_a_target_and_a_draft_model_are_named_together_and_come_by_one_command(hub):
    hub.repositories["owner/big"] = {"big-Q4_K_M.gguf": embedded.embedded_target().read_bytes()}
    hub.repositories["owner/small"] = {"small-Q8_0.gguf": embedded.embedded_draft().read_bytes()}
    names = ("-hf", "owner/big", "-hfd", "owner/small:Q8_0")
    refused = speclsp("complete", *names)
    command = "speclsp models pull -hf owner/big -hfd owner/small:Q8_0"
    assert refused.returncode == 1
    assert refused.stderr == (f"Error: big with small Q8_0 is not downloaded. Run `{command}`.\n")
    pulled = speclsp(*command.split()[1:])
    assert pulled.returncode == 0, pulled.stderr
    assert [Path(path).name for path in pulled.stdout.splitlines()] == [
        "big-Q4_K_M.gguf",
        "small-Q8_0.gguf",
    ]
    assert "Next: speclsp serve -hf owner/big -hfd owner/small:Q8_0" in pulled.stderr
    assert speclsp("complete", *names).returncode == 0
    # Where one of the two is there already, the same command downloads the other.
    other = speclsp("complete", "--model", "qwen2.5-coder-7b-q8_0-draft", "-hfd", "owner/else")
    assert other.stderr == (
        "Error: Qwen2.5-Coder 7B Q8_0 with else is not downloaded. "
        "Run `speclsp models pull qwen2.5-coder-7b-q8_0-draft -hfd owner/else`.\n"
    )
    assert "Name a model" in speclsp("models", "pull").stderr


@pytest.mark.parametrize("command", ["doctor", "models pull"])
def test_an_unknown_name_is_one_problem_with_what_was_meant(command):
    given = ["--model"] if command == "doctor" else []
    run = speclsp(*command.split(), *given, "qwen2.5-codr-7b")
    assert run.returncode == 1
    problems = [line for line in run.stdout.splitlines() if line.startswith("problem")]
    assert len(problems) == (command == "doctor")
    assert not any("embedded" in line for line in run.stdout.splitlines())
    last = (run.stdout or run.stderr).splitlines()[-1]
    assert last.startswith("Next: " if command == "doctor" else "Error: ")
    assert last.count("Did you mean qwen2.5-coder-7b-q8_0?") == 1
