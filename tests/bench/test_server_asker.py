"""A server process that is asked as a replay asks, and does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from speclsp.bench.server_asker import ServerAsker
from speclsp.errors import EngineUnavailableError
from speclsp.lsp.client import ServerProcess, ServerProcessError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped there")


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[tuple[ServerProcess, asyncio.Runner]]:
    """A server that was started and went on no further."""
    server = ServerProcess()
    argv = [sys.executable, "-m", "speclsp", "serve", "--stdio"]
    with asyncio.Runner() as runner:
        try:
            runner.run(server.start(argv, tmp_path, options={"persist": False}))
            os.kill(server.pid, signal.SIGSTOP)
            yield server, runner
        finally:
            assert runner.run(server.shutdown()) == -signal.SIGKILL


def test_a_server_that_hangs_is_ended_with_a_reason(
    hung: tuple[ServerProcess, asyncio.Runner],
) -> None:
    server, runner = hung
    asker = ServerAsker(server, runner, rests=False, answers_within_s=0.1)
    with pytest.raises(EngineUnavailableError, match=r"did not answer within 0\.1 seconds"):
        asker.statistics()
    # It is gone, so that it cannot answer the first request to the next one.
    with pytest.raises(ServerProcessError):
        asker.statistics()
