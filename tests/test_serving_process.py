"""A program that ends before its time."""

import sys

import psutil
import pytest

from speclsp.errors import EngineUnavailableError
from tests.support.serving_process import resident_mib, talking, wait_until

SAYS_AND_ENDS = "import sys; sys.stderr.write('at first\\nout of memory\\n'); sys.exit(3)"


def test_a_program_that_has_ended_takes_nothing_more_and_is_closed(tmp_path):
    command = [sys.executable, "-c", SAYS_AND_ENDS]
    with talking(command, "the peer", tmp_path / "log") as process:
        assert process.stdout.readline() == b""
        # It waits in the buffer until the stream is closed, when nobody reads any more.
        process.stdin.write(b"{}\n")
        error = process.failure("has ended")
    assert process.stdin.closed
    assert error.message == "the peer has ended: out of memory"
    assert error.__notes__ == ["It said last:\nat first\nout of memory"]
    assert str(error) == "the peer has ended: out of memory"


def test_a_program_that_said_nothing_is_told_too(tmp_path):
    with (
        pytest.raises(EngineUnavailableError, match="the peer ended with status 0: nothing"),
        talking([sys.executable, "-c", ""], "the peer", tmp_path / "log") as process,
    ):
        wait_until(lambda: False, process, longest_s=30.0)


ANSWERS_ONCE = "print(input(), flush=True); import time; time.sleep(60)"


def test_a_program_that_hangs_is_killed_and_the_reason_says_so(tmp_path):
    command = [sys.executable, "-c", ANSWERS_ONCE]
    with talking(command, "the peer", tmp_path / "log") as process:
        assert process.exchange(b"one\n", 60.0) == b"one\n"
        with pytest.raises(EngineUnavailableError) as raised:
            process.exchange(b"two\n", 0.2)
        with pytest.raises(EngineUnavailableError, match="ended with status -9"):
            wait_until(lambda: False, process, longest_s=30.0)
    assert str(raised.value) == "the peer did not answer within 0.2 seconds: nothing"


def test_a_program_that_ends_instead_of_answering_is_told_with_its_last_words(tmp_path):
    command = [sys.executable, "-c", "import sys; input(); sys.exit('out of memory')"]
    with (
        talking(command, "the peer", tmp_path / "log") as process,
        pytest.raises(EngineUnavailableError, match="the peer has ended: out of memory"),
    ):
        process.exchange(b"one\n", 60.0)


STARTS_ANOTHER = (
    "import subprocess, sys; "
    "subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
)


def test_the_memory_of_what_a_program_started_counts(tmp_path):
    command = [sys.executable, "-c", STARTS_ANOTHER]
    with talking(command, "the peer", tmp_path / "log") as process:
        assert process.exchange(b"", 60.0) == b"1\n"
        own = psutil.Process(process._process.pid).memory_info().rss / (1 << 20)
        assert process.resident_mib() > own > 0
    assert resident_mib(process._process.pid) == 0.0
