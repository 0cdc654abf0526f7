"""A program that ends before its time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from speclsp.bench.peers.reasons import reason
from speclsp.bench.peers.serving_process import talking, wait_until
from speclsp.errors import EngineUnavailableError

SAYS_AND_ENDS = "import sys; sys.stderr.write('at first\\nout of memory\\n'); sys.exit(3)"


def test_a_program_that_has_ended_takes_nothing_more_and_is_closed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SAYS_AND_ENDS]
    with talking(command, "the peer", tmp_path / "log") as process:
        assert process.stdout.readline() == b""
        # It waits in the buffer until the stream is closed, when nobody reads any more.
        process.stdin.write(b"{}\n")
        error = process.failure("has ended")
    assert process.stdin.closed
    assert error.message == (
        "the peer has ended: out of memory\nIt said last:\nat first\nout of memory"
    )
    assert reason(error) == "the peer has ended: out of memory"


def test_a_program_that_said_nothing_is_told_too(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineUnavailableError, match="the peer ended with status 0: nothing"),
        talking([sys.executable, "-c", ""], "the peer", tmp_path / "log") as process,
    ):
        wait_until(lambda: False, process, longest_s=30.0)
