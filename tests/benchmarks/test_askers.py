"""A server process that is asked as a replay asks, and fails or does not answer."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from suspended import suspend

from benchmarks.askers import LocalAsker, ServerAsker
from speclsp.errors import EngineError, EngineUnavailableError
from speclsp.seam.events import LogLine
from speclsp.seam.statistics import SessionStats
from speclsp.window.window import Window
from tests.benchmarks.case_folders import case
from tests.support.server_process import CaseServer, InlineItem, ServerProcessError

SCRIPTED_SERVER = Path(__file__).parent.parent / "support" / "scripted_server.py"


class FailingServer:
    """Answers, and says so: nothing is suggested, and each request from the second on failed."""

    def __init__(self) -> None:
        self.n_requests = 0

    def go_to(self, _uri: str) -> None:
        pass

    def change(self, _text: str) -> None:
        pass

    async def inline_completion(self, _line: int, _character: int) -> list[InlineItem]:
        self.n_requests += 1
        return []

    async def execute_command(self, _name: str) -> Any:
        n_failed = max(0, self.n_requests - 1)
        return msgspec.to_builtins(SessionStats(n_requests=self.n_requests, n_failed=n_failed))


@pytest.mark.parametrize(
    ("messages", "said"),
    [([], "it does not say why"), ([LogLine(level="error", message="no room.")], "no room")],
)
def test_a_request_that_failed_is_no_quick_answer(messages, said):
    server = cast("CaseServer", FailingServer())
    with asyncio.Runner() as runner:
        asker = ServerAsker(server, runner, rests=False, messages=messages)
        assert asker.ask(case("abc"), 1).text == ""
        with pytest.raises(EngineError, match=f"failed at a request: {said}"):
            asker.ask(case("abc"), 2)


class BusyWindow:
    """A window whose completer has idle work for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.completer = self
        self.seconds = seconds

    def wait_idle(self, timeout_s: float) -> bool:
        return self.seconds <= timeout_s


def test_idle_work_is_not_cut_short_on_a_slow_machine():
    LocalAsker(cast("Window", BusyWindow(300.0)), rests=True).rest()
    with pytest.raises(EngineUnavailableError, match="not idle after 600 s"):
        LocalAsker(cast("Window", BusyWindow(3000.0)), rests=True).rest()


@pytest.fixture
def hung(tmp_path):
    """A server that was started and went on no further."""
    server = CaseServer()
    argv = [sys.executable, "-m", "speclsp", "serve", "--stdio"]
    with asyncio.Runner() as runner:
        try:
            runner.run(server.start(argv, tmp_path, options={"persist": False}))
            suspend(server.pid)
            yield server, runner
        finally:
            assert runner.run(server.shutdown()) == -signal.SIGKILL


@pytest.mark.real
@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped there")
def test_a_server_that_hangs_is_ended_with_a_reason(hung):
    server, runner = hung
    asker = ServerAsker(server, runner, rests=False, answers_within_s=0.1)
    with pytest.raises(EngineUnavailableError, match=r"did not answer within 0\.1 seconds"):
        asker.statistics()
    # It is gone, so that it cannot answer the first request to the next one.
    with pytest.raises(ServerProcessError):
        asker.statistics()


async def test_several_documents_and_folders(tmp_path):
    heard: list[LogLine] = []
    server = CaseServer(on_log=heard.append)
    await server.start([sys.executable, str(SCRIPTED_SERVER), "--stdio"], tmp_path)
    while not any("scripted completer made" in line.message for line in heard):
        await asyncio.sleep(0.01)
    one, two = ((tmp_path / name).as_uri() for name in ("a.py", "b.py"))
    server.open_beside(one, "abc", "python")
    server.open_beside(two, "abcde", "lua")
    for uri, answer in ((one, " # 2+1"), (two, " # 2+3"), (one, " # 2+1")):
        server.go_to(uri)
        (item,) = await server.inline_completion(0, 2)
        assert item.insert_text == answer
    server.change("abcd")
    assert [i.insert_text for i in await server.inline_completion(0, 2)] == [" # 2+2"]
    server.close_document()
    server.go_to(two)
    assert [i.insert_text for i in await server.inline_completion(0, 2)] == [" # 2+3"]
    server.change_folders(tmp_path / "new", tmp_path)
    server.change_folders(None, tmp_path / "new")
    assert (await server.execute_command("speclsp.showStatistics"))["n_requests"] == 5
    assert await server.shutdown() == 0
