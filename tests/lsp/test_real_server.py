"""``speclsp serve`` as a process with the real engine, typed into as an editor does."""

import asyncio
import itertools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio
from forked_speclsp import forked_command

from speclsp import embedded
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import write
from speclsp.seam.events import LogLine, Progress, StateChanged
from speclsp.seam.statistics import SessionStats
from tests.support.server_process import InlineItem, ServerProcess

pytestmark = pytest.mark.real

N_FILES = 2000
TIMEOUT_S = 60
N_READ_AT_ONCE = 100
SERVE_AND_INDEX_A_PART = """
import runpy, sys, time
from pathlib import Path
from speclsp.project import indexed_files

go_on, n_at_once = Path(sys.argv.pop(1)), int(sys.argv.pop(1))
read_source, read = indexed_files.read_source, []

def read_when_told(*arguments):
    read.append(arguments)
    while len(read) > n_at_once and not go_on.exists():
        time.sleep(0.01)
    return read_source(*arguments)

indexed_files.read_source = read_when_told
runpy.run_module("speclsp", run_name="__main__", alter_sys=True)
"""
"""Serves as ever, but reads no more than so many files before a file appears: on some machines the
index is built before the model is loaded."""


SERVE_FROM_THE_FILES = """
import runpy
from speclsp.ngrams import files

files.IN_MEMORY_BYTES = 0
runpy.run_module("speclsp", run_name="__main__", alter_sys=True)
"""
"""Serves as ever, but looks n-grams up in small files, too."""

PROJECT = Path(__file__).parents[2] / "fixtures" / "sample_project"


class Heard:
    """What a server said, and the server."""

    def __init__(self) -> None:
        self.log: list[LogLine] = []
        self.messages: list[LogLine] = []
        self.progress: list[Progress] = []
        self.states: list[StateChanged] = []
        self.server = ServerProcess(
            on_log=self.log.append,
            on_message=self.messages.append,
            on_progress=self.progress.append,
            on_state=self.states.append,
        )

    @property
    def logged(self) -> str:
        return "\n".join(line.message for line in self.log)

    def ended(self, word: str) -> bool:
        tokens = {p.token for p in self.progress if p.stage == "begin" and word in p.title}
        return any(p.token in tokens and p.stage == "end" for p in self.progress)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await asyncio.sleep(0.01)

    async def statistics(self) -> SessionStats:
        answer = await self.server.execute_command("speclsp.showStatistics")
        return msgspec.convert(answer, SessionStats)

    async def ghost(self, line: int, character: int) -> InlineItem:
        """Ask until there is an item: while the model loads there is none."""
        async with asyncio.timeout(TIMEOUT_S):
            while not (items := await self.server.inline_completion(line, character)):
                await asyncio.sleep(0.01)
        return items[0]


Start = Callable[..., Awaitable[Heard]]


@pytest_asyncio.fixture(params=["own", "shared"])
async def start(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    """Start servers on a folder, with caches of their own and either kind of engine."""
    runtime = tempfile.mkdtemp(prefix="speclsp-")  # a socket's path must be short
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    started: list[Heard] = []

    async def make(
        folder: Path, *arguments: str, command: Sequence[str] = (), **options: Any
    ) -> Heard:
        heard = Heard()
        started.append(heard)
        # A busy machine is no defect.
        engine = {"engine": request.param, "engine_exit_seconds": 0}
        # Nor is the trial model ever sure.
        options = {"deadline_ms": 60_000, "min_probability": 0.0, **engine, **options}
        command = command or [str(forked_command()), "serve"]
        await heard.server.start([*command, *arguments], folder, options=options)
        return heard

    yield make
    for heard in started:
        await heard.server.shutdown()
    shutil.rmtree(runtime, ignore_errors=True)  # the engine may be about to end


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project of many files, each with functions of its own."""
    root = tmp_path_factory.mktemp("project")
    for file_idx in range(N_FILES):
        folder = root / f"package_{file_idx % 40}"
        folder.mkdir(exist_ok=True)
        functions = (
            f"def area_of_shape_{file_idx}_{n}(width, height):\n"
            f'    """Return the area of shape {n}."""\n'
            f"    area = width * height * {n}\n"
            f"    return area\n\n\n"
            for n in range(20)
        )
        (folder / f"shapes_{file_idx}.py").write_text("".join(functions))
    return root


async def test_ghost_text_while_the_index_is_still_building(project, tmp_path, start):
    go_on = tmp_path / "go on"
    heard = await start(
        project,
        "--stdio",
        command=[
            sys.executable,
            "-c",
            SERVE_AND_INDEX_A_PART,
            str(go_on),
            str(N_READ_AT_ONCE),
            "serve",
        ],
        log_level="debug",
        persist=False,
    )
    text = 'def area_of_box(width, height):\n    """Return the area."""\n    area = '
    heard.server.open(project / "package_1" / "boxes.py", text)
    first = await heard.ghost(2, 11)
    assert not heard.ended("Indexing")
    assert (await heard.statistics()).index.building
    assert first.insert_text
    go_on.touch()
    for character in "width * ":
        text += character
        heard.server.change(text)
        await heard.server.inline_completion(2, len(text.rpartition("\n")[2]))
    await heard.until(lambda: heard.ended("Indexing"))

    last = await heard.ghost(2, len(text.rpartition("\n")[2]))
    await heard.server.accept(last)
    stats = await heard.statistics()
    assert stats.index.n_files == N_FILES
    assert stats.n_requests >= 7
    assert stats.n_accepted_items == 1
    assert stats.totals.n_prompt_evaluated < stats.totals.n_prompt
    assert stats.totals.drafters

    assert await heard.server.shutdown() == 0
    assert heard.server.stderr_tail == ""
    block = [line.message for line in heard.log if line.level == "info"][-10:]
    assert any("draft acceptance" in message for message in block)
    for name in stats.totals.drafters:
        assert re.search(rf"statistics +{name.replace('-', '_')}", heard.logged)
    assert any("target passes" in line.message for line in heard.log if line.level == "debug")
    assert heard.messages == []


async def test_statistics_that_are_cut_and_copied_onto_while_somebody_types(tmp_path, start):
    """As ``cp`` does it: the file that the server looks n-grams up in is cut to nothing first."""
    vocabulary = load_vocabulary(embedded.embedded_target())
    text = (PROJECT / "shop" / "repositories.py").read_text()
    tokens = np.array(vocabulary.tokenize(text), np.int32)
    used, other = tmp_path / "used.ngrams", tmp_path / "other.ngrams"
    write(
        other,
        count_tokens([tokens[: tokens.size // 2]], range(1, 5)).by_order,
        "speclsp",
        vocabulary,
    )
    write(used, count_tokens([tokens], range(1, 9)).by_order, "speclsp", vocabulary)
    whole = tmp_path / "whole.ngrams"
    shutil.copyfile(used, whole)
    heard = await start(
        tmp_path,
        "--lookup-cache-dynamic",
        str(used),
        command=[sys.executable, "-c", SERVE_FROM_THE_FILES, "serve"],
        persist=False,
        idle_work="prompts",
        suggestion_memory=False,
    )
    heard.server.open(tmp_path / "repositories.py", text)
    n_lines = text.count("\n")
    asked = itertools.count()

    async def ask() -> None:
        line = next(asked) * 7 % n_lines
        await heard.server.inline_completion(line, 0)

    def n_opened() -> int:
        return heard.logged.count(f"dynamic statistics {used}")

    await heard.ghost(n_lines, 0)
    await heard.until(lambda: n_opened() == 1)
    os.truncate(used, 5000)
    async with asyncio.timeout(TIMEOUT_S):
        while not heard.messages:
            await ask()
    assert f"{used}: the file is cut or damaged" in heard.messages[0].message
    for source in [other, whole] * 5:
        copying = asyncio.create_task(asyncio.to_thread(shutil.copyfile, source, used))
        while not copying.done():
            await ask()
    n_before = n_opened()
    shutil.copyfile(other, used)
    async with asyncio.timeout(TIMEOUT_S):
        while n_opened() == n_before:
            await ask()
    process = heard.server._process
    assert process.returncode is None


@pytest.mark.parametrize("start", ["shared"], indirect=True)
async def test_a_users_statistics_file_is_created_and_a_workspaces_is_not(tmp_path, start):
    of_user, of_workspace = tmp_path / "user.ngrams", tmp_path / "workspace.ngrams"
    heard = await start(tmp_path, "--lookup-cache-dynamic", str(of_user))
    await heard.until(of_user.exists)
    heard.server.push(
        {"lookup_cache_dynamic": [str(of_workspace)], "lookup_cache_update": "accepted"}
    )
    await heard.until(lambda: any("does not exist" in line.message for line in heard.messages))
    assert await heard.server.shutdown() == 0
    assert not of_workspace.exists()
