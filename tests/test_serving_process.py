"""A program that ends before its time, and the memory of one that runs."""

import sys

import psutil
import pytest

from speclsp.errors import EngineUnavailableError
from tests.support.serving_process import resident_mib, serving, wait_until


@pytest.mark.parametrize(
    ("code", "said", "last"),
    [
        ("import sys; sys.stderr.write('at first\\nout of memory\\n'); sys.exit(3)",
         "status 3: out of memory", "It said last:\nat first\nout of memory"),
        ("", "status 0: nothing", "It said last:\nnothing"),
    ],
)  # fmt: skip
def test_a_program_that_has_ended_is_told_with_its_last_words(tmp_path, code, said, last):
    with (
        pytest.raises(EngineUnavailableError) as raised,
        serving([sys.executable, "-c", code], tmp_path / "log") as process,
    ):
        wait_until(lambda: False, process, longest_s=30.0)
    assert str(raised.value).endswith(f" ended with {said}")
    assert raised.value.__notes__ == [last]


WHILE_ITS_PARENT_LIVES = """
import os, time
parent = os.getppid()
print("started", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
"""
STARTS_ANOTHER = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WHILE_ITS_PARENT_LIVES!r}])"
)


def test_the_memory_of_what_a_program_started_counts(tmp_path):
    with serving([sys.executable, "-c", STARTS_ANOTHER], tmp_path / "log") as process:
        wait_until(lambda: "started" in process.words(), process)
        own = psutil.Process(process._process.pid).memory_info().rss / (1 << 20)
        assert process.resident_mib() > own > 0
    assert resident_mib(process._process.pid) == 0.0
