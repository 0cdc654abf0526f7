"""Models by name in an editor, with a hub on loopback: offered, downloaded, cancelled, loaded."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_hub import FakeHub, serve_hub
from hostile_hub import TABLE, World
from lsp_wire import FOLDER, LspWire
from scripted_http import scripted_server

from speclsp.backends.memory import Memory
from speclsp.engine_process.place import EngineInfo, EnginePlace
from speclsp.lsp.model_commands import _running_preset, time_left
from speclsp.models import cache, client, download
from speclsp.models.presets import PRESETS, preset, recommend

EXECUTE = "workspace/executeCommand"
ASK = "window/showMessageRequest"
PROGRESS = {"window": {"workDoneProgress": True}}
NAME = "qwen2.5-coder-7b-q4_k_m"
GGUF = b"GGUF" * 500_000


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve the presets' repositories."""
    constants = cache.hub_constants()
    with serve_hub() as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        for row in PRESETS.values():
            for file in row.files:
                served.repositories.setdefault(file.repository, {})[file.file] = GGUF
        yield served


def begin(wire: LspWire, command: str, **argument: Any) -> int:
    return wire.request(EXECUTE, {"command": command, "arguments": [argument]})


async def run(wire: LspWire, command: str, **argument: Any) -> Any:
    return await wire.ask(EXECUTE, {"command": command, "arguments": [argument]})


async def refusal(wire: LspWire, command: str, **argument: Any) -> str:
    """Return the message of a command that fails, in words for the user."""
    error = (await wire.answer(begin(wire, command, **argument)))["error"]
    assert error["code"] == -32803
    return str(error["message"])


def choose(wire: LspWire, title: str | None) -> None:
    wire.answers[ASK] = None if title is None else {"title": title}


async def test_the_overview(hub, start):
    wire = await start()
    found = await run(wire, "speclsp.models")
    assert found["memory"]["kind"] in {"NVIDIA GPU", "Metal", "GPU", "CPU"}
    assert found["memory"]["free_bytes"] > 0
    rows = {row["name"]: row for row in found["presets"]}
    assert found["recommended"] in rows
    assert rows[NAME]["title"] == "Qwen2.5-Coder 7B Q4_K_M"
    assert rows[NAME]["size_bytes"] == 4_680_000_000
    assert rows[NAME]["downloaded"] is False
    assert found["current"] == {"name": "", "title": "trial model", "path": "", "is_trial": True}
    assert not hub.asked, "looking asks nobody"


@pytest.mark.parametrize(
    ("url", "title"),
    [("http://desk:8080/?key=secret", "desk:8080"), ("user:secret@desk:8080", "remote engine")],
)
async def test_the_overview_shows_no_more_than_the_host_of_a_remote_engine(start, url, title):
    wire = await start(initializationOptions={"engine_url": url})
    assert (await run(wire, "speclsp.models"))["current"]["title"] == title


async def test_pull_and_use(hub, start):
    wire = await start(PROGRESS)
    refused = await refusal(wire, "speclsp.useModel", name=NAME)
    assert f"speclsp models pull {NAME}" in refused
    assert not hub.asked
    (path,) = (await run(wire, "speclsp.pullModel", name=NAME))["paths"]
    assert Path(path).read_bytes() == GGUF
    steps = [params["value"] for params in wire.params_of("$/progress")]
    assert steps[0]["title"] == "Downloading Qwen2.5-Coder 7B Q4_K_M"
    assert steps[0]["cancellable"] is True
    assert steps[-1]["kind"] == "end"
    assert not wire.completer.applied, "a download changes no setting"
    assert (await run(wire, "speclsp.useModel", name=NAME))["title"] == "Qwen2.5-Coder 7B Q4_K_M"
    (applied,) = wire.completer.applied
    assert applied.model == path
    current = (await run(wire, "speclsp.models"))["current"]
    assert (current["name"], current["is_trial"]) == (NAME, False)


async def test_a_pair_is_used_with_its_draft_model(hub, start):
    wire = await start()
    name = "qwen2.5-coder-7b-q8_0-draft"
    target, draft = (await run(wire, "speclsp.pullModel", name=name))["paths"]
    await run(wire, "speclsp.useModel", name="fim-qwen-7b-spec")
    assert wire.completer.applied[-1].model == target
    assert wire.completer.applied[-1].spec_draft_model == draft


async def test_the_clients_next_choice_replaces_a_used_model(hub, start):
    wire = await start()
    await run(wire, "speclsp.pullModel", name=NAME)
    await run(wire, "speclsp.useModel", name=NAME)
    other = {"settings": {"speclsp": {"n_predict": 64}}}
    wire.notify("workspace/didChangeConfiguration", other)
    await wire.until(lambda: wire.completer.applied[-1].n_predict == 64)
    assert wire.completer.applied[-1].model.endswith("Q4_K_M.gguf")
    wire.notify("workspace/didChangeConfiguration", {"settings": {"speclsp": {"model": "x.gguf"}}})
    await wire.until(lambda: wire.completer.applied[-1].model == "x.gguf")


@pytest.mark.parametrize(
    ("n_received", "n_left", "seconds", "words"),
    [
        (0, 5_000, 0.0, ""),
        (500, 4_500, 10.0, ", 90 s left"),
        (500, 9_000, 10.0, ", 3 min left"),
        (5_000, 0, 100.0, ", verifying"),
    ],
)
def test_a_download_tells_the_time_left(n_received, n_left, seconds, words):
    assert time_left(n_received, n_left, seconds) == words


async def test_a_cancelled_download_goes_on_later(hub, start):
    wire = await start(PROGRESS)
    hub.hold = threading.Event()
    asked = begin(wire, "speclsp.pullModel", name=NAME)
    steps = await wire.until(
        lambda: [p for p in wire.params_of("$/progress") if "percentage" in p["value"]]
    )
    wire.notify("window/workDoneProgress/cancel", {"token": steps[-1]["token"]})
    hub.hold.set()
    assert (await wire.answer(asked))["error"]["code"] == -32800
    hub.hold = None
    hub.asked.clear()
    await run(wire, "speclsp.pullModel", name=NAME)
    assert hub.ranges()[0] != "bytes=0-"


async def test_a_cancelled_request_cancels_its_download(hub, start):
    wire = await start()
    hub.hold = threading.Event()
    asked = begin(wire, "speclsp.pullModel", name=NAME)
    await wire.until(hub.ranges)
    wire.notify("$/cancelRequest", {"id": asked})
    assert (await wire.answer(asked))["error"]["code"] == -32800
    hub.hold.set()


async def test_a_failed_download_is_one_message_with_its_remedy(hub, start):
    hub.damaged = {preset(NAME).target.file}
    wire = await start()
    message = await refusal(wire, "speclsp.pullModel", name=NAME)
    assert "checksum" in message
    assert "again" in message


@pytest.mark.parametrize(
    "name",
    [
        "size is a text",
        "file name controls the terminal",
        "JSON 100,000 deep",
        "headers byte by byte",
    ],
)
async def test_a_hostile_hub_is_one_message(name, start, monkeypatch, tmp_path):
    (behaviour,) = (behaviour for behaviour in TABLE if behaviour.name == name)
    constants, world = cache.hub_constants(), World(tmp_path, tmp_path / "cache")
    if behaviour.is_slow:
        monkeypatch.setattr(client, "_ANSWER_S", 0.4)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(world.cache))
    wire = await start()
    with scripted_server(lambda request: behaviour.answer(world, request)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        message = await refusal(wire, "speclsp.pullModel", name="owner/model")
    assert behaviour.says in message
    assert message.isprintable()
    assert "Traceback" not in wire.logged


# --- offered by the server ------------------------------------------------------------------------


async def test_a_missing_preset_is_offered_and_loaded_after_consent(hub, connect):
    wire = connect(base_options={"model": NAME})
    wire.unanswered.add(ASK)
    await wire.initialize()
    (asked,) = await wire.until(lambda: [m for m in wire.messages if m.get("method") == ASK])
    text = asked["params"]["message"]
    assert "Qwen2.5-Coder 7B Q4_K_M (4.7 GB)" in text
    assert [action["title"] for action in asked["params"]["actions"]] == ["Download", "Not now"]
    assert wire.completer.settings.model == "", "the trial model completes meanwhile"
    assert not hub.asked, "nothing is fetched before the answer"
    reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"title": "Download"}}
    wire.raw(json.dumps(reply).encode())
    await wire.until(lambda: wire.completer.applied)
    assert wire.completer.applied[-1].model.endswith(preset(NAME).target.file)


async def test_a_missing_model_for_next_edits_leaves_the_target(hub, connect, tmp_path):
    target = str(tmp_path / "target.gguf")
    wire = connect(base_options={"model": target, "edit_model": "zeta-2-q4_k_m"})
    wire.unanswered.add(ASK)
    await wire.initialize()
    (asked,) = await wire.until(lambda: [m for m in wire.messages if m.get("method") == ASK])
    assert "Until it is, there are no next edits of it." in asked["params"]["message"]
    assert (wire.completer.settings.model, wire.completer.settings.edit_model) == (target, "")
    assert not hub.asked


@pytest.mark.parametrize("answer", ["Not now", None])
async def test_without_consent_nothing_is_fetched(answer, hub, connect):
    wire = connect(base_options={"model": NAME})
    choose(wire, answer)
    await wire.initialize()
    await wire.until(lambda: f"speclsp models pull {NAME}" in wire.logged)
    wire.notify("workspace/didChangeConfiguration", {"settings": {"speclsp": {"n_predict": 9}}})
    await wire.until(lambda: wire.completer.applied)
    await wire.settle()
    assert len(wire.params_of(ASK)) == 1, "it is offered once"
    assert not hub.asked


async def test_auto_that_is_set_later_waits_for_the_memory(hub, connect, monkeypatch):
    gpu = Memory(kind="NVIDIA GPU", name="GPU", total_bytes=25 << 30, free_bytes=24 << 30)
    monkeypatch.setattr("speclsp.lsp.model_commands.find_memory", lambda: gpu)
    wire = connect()
    choose(wire, "Not now")
    await wire.initialize()
    wire.notify("workspace/didChangeConfiguration", {"settings": {"speclsp": {"model": "auto"}}})
    await wire.until(lambda: f"speclsp models pull {recommend(gpu)}" in wire.logged)
    await wire.settle()
    (asked,) = wire.params_of(ASK)
    assert preset(recommend(gpu)).title in asked["message"]


@pytest.mark.parametrize("name", [NAME, "qwen2.5-coder-7b-q8_0-draft"])
async def test_auto_takes_the_model_that_other_windows_share(
    name, hub, start, monkeypatch, tmp_path
):
    """The model in the GPU leaves no room for a second one, and a smaller one was chosen."""
    gpu = Memory(kind="NVIDIA GPU", name="GPU", total_bytes=8 << 30, free_bytes=1 << 30)
    monkeypatch.setattr("speclsp.lsp.model_commands.find_memory", lambda: gpu)
    first = await start()
    target, *draft = (await run(first, "speclsp.pullModel", name=name))["paths"]
    place = EnginePlace(tmp_path, "1-x")
    settings = {"spec_draft_model": draft[0]} if draft else {}
    info = EngineInfo(pid=1, version="", model=target, settings=settings)
    place.info.write_bytes(msgspec.json.encode(info))
    monkeypatch.setattr("speclsp.engine_process.start.running_engines", lambda: [place])
    second = await start(base_options={"model": "auto"})
    await second.until(lambda: second.completer.settings.model == target)
    assert second.completer.settings.spec_draft_model == "".join(draft)
    assert _running_preset() == name
    place.info.write_bytes(msgspec.json.encode(msgspec.structs.replace(info, listens=True)))
    assert _running_preset() == ""  # an engine for other machines takes no window of this one
    assert second.params_of(ASK) == []


async def test_a_client_that_cannot_ask_gets_no_download(hub, connect):
    wire = connect(base_options={"model": "owner/model:Q4_K_M"})
    wire.answers[ASK] = RuntimeError("unknown method")
    await wire.initialize()
    await wire.until(lambda: "speclsp models pull owner/model:Q4_K_M" in wire.logged)
    assert not hub.asked


async def test_offline_offers_nothing_and_takes_what_is_there(hub, start):
    wire = await start(base_options={"model": NAME, "offline": True})
    assert wire.params_of(ASK) == []
    assert any("is not downloaded" in message for message in wire.shown)
    references = [file.reference for file in preset(NAME).files]
    await asyncio.to_thread(lambda: download.pull(download.plan(references)))
    other = await start(base_options={"model": NAME, "offline": True})
    assert other.completer.settings.model.endswith(preset(NAME).target.file)


async def test_an_unknown_preset_is_told_and_the_trial_model_runs(hub, start):
    wire = await start(base_options={"model": "huge"})
    await wire.until(lambda: wire.shown)
    assert "no preset 'huge'" in wire.shown[0]
    assert wire.completer.settings.model == ""


async def test_a_folders_settings_name_no_model_and_start_no_download(hub, start):
    """Of several folders, each may hold settings that came with a cloned repository."""
    folders = (FOLDER, "file:///home/user/cloned")
    evil = {
        "model": "evil/model:Q4_K_M", "spec_draft_model": "/evil2.gguf", "offline": True,
        "engine_url": "http://evil.example", "engine_key_file": "/etc/passwd",
    }  # fmt: skip
    wire = await start(
        {"workspace": {"configuration": True}}, folders=folders, configuration=[{}, {}, evil]
    )
    await wire.until(lambda: wire.shown)
    for name in evil:
        assert name in wire.shown[0]
    used = wire.completer.settings
    assert (used.model, used.spec_draft_model) == ("", "")
    assert (used.engine_url, used.engine_key_file) == ("", "")
    assert wire.params_of(ASK) == []
    assert not hub.asked
