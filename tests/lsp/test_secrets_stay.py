"""A hundred secrets in files, buffers and edits of a real server: none of them leaves a trace."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kept_texts import kept_texts
from secret_forms import Planted, planted_secrets

from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.embedded import embedded_target
from speclsp.engine_process.place import user_folder
from speclsp.engine_process.start import running_engines, stop
from speclsp.seam.events import LogLine, Progress, StateChanged
from tests.support.server_process import InlineItem, ServerProcess

pytestmark = pytest.mark.real

TIMEOUT_S = 60
BEFORE = "import os\n\n\ndef width_of(box):\n    return box.width\n\n\n"
AFTER = "\n\n\ndef area_of(box):\n    return "


async def until(condition) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def type_among_secrets(root: Path, traces: Path, planted: list[Planted], **options) -> None:
    """Index half of the secrets, open and type the others, and accept what is suggested."""
    for number, secret in enumerate(planted):
        folder = root / f"module_{number}"
        folder.mkdir(parents=True)
        on_disk = secret.lines if number % 2 == 0 else ""
        (folder / secret.name).write_text(BEFORE + on_disk + AFTER + "box.height\n")
    log: list[LogLine] = []
    states: list[StateChanged] = []
    progress: list[Progress] = []
    server = ServerProcess(on_log=log.append, on_state=states.append, on_progress=progress.append)
    # What the server writes passes through files on its way here.
    pipe = (
        f"'{sys.executable}' -m speclsp serve --stdio 2>'{traces}/stderr' | tee '{traces}/stdout'"
    )
    await server.start(
        ["sh", "-c", pipe], root, options={"log_level": "debug", "deadline_ms": 60_000, **options}
    )
    try:
        await until(lambda: states and states[-1].state == "ready")
        await until(lambda: any(p.stage == "end" and "100 files" in p.message for p in progress))
        accepted = 0
        for number, secret in enumerate(planted):
            if number % 2 == 0:
                continue
            server.open(root / f"module_{number}" / secret.name, BEFORE + AFTER)
            server.change(BEFORE + secret.lines[: len(secret.lines) // 2] + AFTER)
            server.change(BEFORE + secret.lines + AFTER)
            items = await ghost_at_the_end(server, BEFORE + secret.lines + AFTER)
            for item in items[:1]:
                await server.accept(item)
                accepted += 1
            at = BEFORE.count("\n") + secret.lines[: secret.lines.index(secret.secrets[0])].count(
                "\n"
            )
            on_its_line = await server.inline_completion(at, 1)
            assert options or not on_its_line, secret
        assert accepted > 10
        await server.execute_command("speclsp.showStatistics")
        # Messages that are wrong in one way or another.
        client = server._client
        for secret in planted[:20]:
            client.protocol.notify("textDocument/didChange", {"textDocument": secret.lines})
            client.protocol.notify("textDocument/didOpen", {"textDocument": {"text": secret.lines}})
            client.protocol.notify(
                "workspace/didChangeConfiguration",
                {"settings": {"speclsp": {"model": 3, "x": "y"}}},
            )
        await server.execute_command("speclsp.showStatistics")
    finally:
        await server.shutdown()


async def ghost_at_the_end(server: ServerProcess, text: str) -> list[InlineItem]:
    line = text.count("\n")
    return await server.inline_completion(line, len(text) - text.rfind("\n") - 1)


def found_traces(folder: Path, planted: list[Planted]) -> set[str]:
    """Return the kinds and names of the secrets of which more than a word stands in a folder."""
    vocabulary = load_vocabulary(embedded_target())
    whole = "\n".join([*kept_texts(folder, vocabulary), engine_log()])
    return {
        f"{secret.kind} {secret.name}"
        for secret in planted
        for text in secret.secrets
        if text in whole or text[1:-1] in whole
    }


def engine_log() -> str:
    """Return the log of the shared engine."""
    return "".join(file.read_text() for file in user_folder().glob("*.log*"))


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "traces"
    folder.mkdir()
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(folder / name))
    with TemporaryDirectory(prefix="speclsp-") as runtime:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield folder
        for place in running_engines():
            stop(place)


async def test_none_of_a_hundred_secrets_leaves_a_trace(tmp_path, traces):
    planted = planted_secrets()
    await type_among_secrets(tmp_path / "project", traces, planted)
    written = sum(path.stat().st_size for path in traces.rglob("*") if path.is_file())
    assert written > 50_000  # there is something to search in
    log = engine_log()
    assert "serves" in log
    assert not [word for word in ("width_of", "box.", "module_") if word in log]
    assert found_traces(traces, planted) == set()


async def test_with_masking_off_the_search_finds_them(tmp_path, traces):
    planted = planted_secrets()
    await type_among_secrets(tmp_path / "project", traces, planted, mask_secrets=False)
    on_disk = {f"{p.kind} {p.name}" for p in planted[::2]}
    assert len(found_traces(traces, planted) & on_disk) >= 45
