"""Engines in a runtime folder of their own; each test leaves no process behind."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from echo_engines import Engines, is_running
from waiting import until


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    # A socket's path must be short.
    made = Engines(Path(tempfile.mkdtemp(prefix="speclsp-")) / "run", tmp_path / "starts")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(made.runtime))
    monkeypatch.setenv("ECHO_ENGINE_STARTS", str(made.starts))
    yield made
    for pid in made.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(is_running, made.pids())))
    shutil.rmtree(made.runtime.parent)
