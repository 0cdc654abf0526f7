"""Real servers of three windows on one real engine, which is killed while somebody types.

``make kills`` kills it 50 times; ``SPECLSP_KILLS`` and ``SPECLSP_KILLS_SEED`` choose others.
"""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from forked_speclsp import forked_command

from speclsp.engine_process.place import known_places, read_info
from speclsp.engine_process.start import running_engines
from speclsp.seam.events import LogLine, StateChanged
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.locations import accepted_store_path
from tests.support.server_process import InlineItem, ServerProcess

pytestmark = pytest.mark.real

N_KILLS = int(os.environ.get("SPECLSP_KILLS", "3"))
SEED = int(os.environ.get("SPECLSP_KILLS_SEED", "1"))
OPTIONS = {"deadline_ms": 60_000, "engine_exit_seconds": 0, "threads": 1}
WAIT_S = 300  # a busy machine is no defect
TYPED = "def total_of_items(items):\n    total = 0\n    for item in items:\n        total += "


class TypedInto:
    """A server, its client, and a document that grows."""

    def __init__(self, folder: Path) -> None:
        self.messages: list[LogLine] = []
        self.log: list[LogLine] = []
        self.states: list[StateChanged] = []
        self.server = ServerProcess(
            on_log=self.log.append, on_message=self.messages.append, on_state=self.states.append
        )
        self.folder = folder
        self.text = ""
        self.n_asked = 0
        self.n_answered = 0
        self.n_texts = 0

    async def start(self, **options: Any) -> None:
        self.folder.mkdir(exist_ok=True)
        await self.server.start(
            [str(forked_command()), "serve"], self.folder, options={**OPTIONS, **options}
        )
        self.server.open(self.folder / "typed.py", self.text)

    async def ask(self) -> list[InlineItem]:
        self.n_asked += 1
        *before, last = self.text.split("\n")
        async with asyncio.timeout(WAIT_S):
            items = await self.server.inline_completion(len(before), len(last))
        self.n_answered += 1
        self.n_texts += bool(items)
        return items

    async def type(self, text: str) -> None:
        for character in text:
            self.text += character
            self.server.change(self.text)
            items = await self.ask()
            if items and self.n_texts % 5 == 0:
                await self.accept(items[0])

    async def accept(self, item: InlineItem) -> None:
        """Insert an item, as an editor does, and leave its line: then it is learned."""
        await self.server.accept(item)
        line_start = self.text.rfind("\n") + 1
        self.text = f"{self.text[: line_start + item.start_character]}{item.insert_text}\n\n\n"
        self.server.change(self.text)

    async def ghost_item(self) -> InlineItem:
        async with asyncio.timeout(WAIT_S):
            while not (items := await self.ask()):
                await asyncio.sleep(0.02)
        return items[0]

    async def ghost(self) -> str:
        return (await self.ghost_item()).insert_text

    def kept(self, store: AcceptedStore) -> set[str]:
        """Return what was accepted here and is in the store."""
        return {kept.text for kept in store.recent(str(self.folder.resolve()), 1000)}


@pytest_asyncio.fixture
async def open_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[str], TypedInto]]:
    runtime = tempfile.mkdtemp(prefix="speclsp-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    opened: list[TypedInto] = []

    def make(name: str) -> TypedInto:
        opened.append(TypedInto(tmp_path / name))
        return opened[-1]

    yield make
    for window in opened:
        await window.server.shutdown()
    async with asyncio.timeout(WAIT_S):
        while running_engines():
            await asyncio.sleep(0.02)
    shutil.rmtree(runtime, ignore_errors=True)  # the engine may be about to end


def engine_pid() -> int | None:
    """Return the process of the one engine that runs."""
    found = [info.pid for place in known_places() if (info := read_info(place)) is not None]
    running = [pid for pid in found if psutil.pid_exists(pid)]
    return running[0] if running else None


async def kill_at_random(
    n_kills: int, windows: list[TypedInto], store: AcceptedStore
) -> tuple[list[int], list[set[str]]]:
    """Kill the engine, now while it computes and now while it loads.

    Returns the processes, and for each window what the store had of it before a kill.
    """
    dice = random.Random(SEED)
    killed: list[int] = []
    kept: list[set[str]] = [set() for _ in windows]
    while len(killed) < n_kills:
        await asyncio.sleep(dice.choice([0.1, 0.5, 1.0, 2.0]) * dice.random())
        pid = engine_pid()
        if pid is None or pid in killed:
            continue
        n_texts = [window.n_texts for window in windows]
        for texts, window in zip(kept, windows, strict=True):
            texts.update(window.kept(store))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)
        if dice.random() < 0.7:  # otherwise the next one may die while it loads
            async with asyncio.timeout(WAIT_S):
                while any(w.n_texts == n for w, n in zip(windows, n_texts, strict=True)):
                    await asyncio.sleep(0.02)
    return killed, kept


async def test_nobody_notices_that_the_engine_is_killed_while_three_windows_type(
    open_window, tmp_path
):
    windows = [open_window(name) for name in ("one", "two", "three")]
    for window in windows:
        await window.start(engine="shared")
    for window in windows:
        window.text = f"{TYPED}item\n\n\n" * 2 + TYPED
        window.server.change(window.text)
        await window.ghost()
    assert len(running_engines()) == 1
    store = AcceptedStore.open()
    killing = asyncio.create_task(kill_at_random(N_KILLS, windows, store))

    async def type_until_done(window: TypedInto) -> None:
        while not killing.done():
            await window.type(TYPED)
            window.text += "item\n\n\n"
            if len(window.text) > 4000:
                window.text = "# typed\n"

    await asyncio.gather(killing, *map(type_until_done, windows))
    killed, kept = killing.result()
    assert len(set(killed)) == N_KILLS
    for window in windows:
        assert window.n_answered == window.n_asked > N_KILLS
        assert not [line for line in window.messages if "speclsp" in line.message]
    # The engine has each window's document, and continues it as one of its own would.  The text
    # leaves no doubt of the name, since the prompt's anchor depends on where the typing began.
    names = [window.folder.name for window in windows]
    for window, name in zip(windows, names, strict=True):
        area = f"def area(width_{name}, height_{name}):\n    return width_{name} * "
        window.text += f"{area}height_{name}\n\n\n" * 2 + area
        window.server.change(window.text)
    texts = [await window.ghost() for window in windows]
    assert texts == [f"height_{name}" for name in names]
    # Each window saw an engine that was ready after the first one, whenever the last kill came.
    for window in windows:
        assert len([state for state in window.states if state.state == "ready"]) > 1
    own = open_window("one")
    own.text = windows[0].text
    await own.start(engine="own")
    for window, text in zip(windows, texts, strict=True):
        own.text = window.text
        own.server.change(own.text)
        assert await own.ghost() == text
    stores = [*tmp_path.rglob("*.sqlite3")]
    assert accepted_store_path() in stores
    for path in stores:
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
    # What is on its way when an engine is killed is lost; what the store has, and what is accepted
    # later, is not.
    for window, texts in zip(windows, kept, strict=True):
        item = await window.ghost_item()
        await window.accept(item)
        await window.ask()
        async with asyncio.timeout(WAIT_S):
            while not any(text.endswith(item.insert_text) for text in window.kept(store) - texts):
                await asyncio.sleep(0.02)
        assert texts <= window.kept(store)
    store.close()
