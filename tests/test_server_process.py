import asyncio
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.server_process import InlineItem, ServerProcess, ServerProcessError

SERVER = Path(__file__).parent / "support" / "scripted_server.py"
ARGV = [sys.executable, str(SERVER), "--stdio"]


@pytest.fixture
def heard():
    return []


@pytest_asyncio.fixture
async def server(tmp_path, heard):
    made = ServerProcess(on_log=heard.append)
    await made.start(ARGV, tmp_path, options={"log_level": "debug"})
    while not any("scripted completer made" in line.message for line in heard):
        await asyncio.sleep(0.01)
    yield made
    await made.shutdown()


async def test_typing(server, tmp_path):
    server.open(tmp_path / "a.py", "def f():\n    return 1\n")
    server.change("def f():\n    re😋\n    return 1\n")
    # The lengths of prefix and suffix show that the edit arrived.
    assert await server.inline_completion(1, 7) == [
        InlineItem(" # 16+14", 1, 7, 7, "speclsp.accepted", ("completion-1",))
    ]
    server.change("x")
    server.change("")
    (item,) = await server.inline_completion(0, 0)
    assert item.insert_text == " # 0+0"
    await server.accept(item)
    server.save()
    server.open(tmp_path / "b.py", "abc")
    assert [i.insert_text for i in await server.inline_completion(0, 3)] == [" # 3+0"]
    stats = await server.execute_command("speclsp.showStatistics")
    assert stats["n_requests"] == 3


async def test_error_of_the_server(server):
    with pytest.raises(ServerProcessError, match="unknown command"):
        await server.execute_command("no.such")


async def test_program_that_is_not_there(tmp_path):
    with pytest.raises(ServerProcessError, match="cannot start"):
        await ServerProcess().start(["/no/such/program"], tmp_path)


async def test_program_that_is_no_server(tmp_path):
    made = ServerProcess()
    argv = [sys.executable, "-c", "import sys; sys.exit('missing engine')"]
    with pytest.raises(ServerProcessError, match="missing engine"):
        await made.start(argv, tmp_path)
    assert await made.shutdown() == 1


async def test_server_that_dies(tmp_path, server):
    server.open(tmp_path / "a.py", "wait")
    asking = asyncio.create_task(server.inline_completion(0, 4))
    await asyncio.sleep(0.05)
    assert server._process is not None
    server._process.kill()
    with pytest.raises(ServerProcessError):
        await asyncio.wait_for(asking, 60)
    assert await server.shutdown() == -9
