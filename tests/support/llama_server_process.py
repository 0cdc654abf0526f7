"""A real llama-server with the embedded model, for tests of what asks one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from built_llama_server import built_llama_server

from benchmarks.peers.serving_process import LOADS_WITHIN_S, serving, wait_until
from speclsp.embedded import model_files
from speclsp.settings import Settings

KEY = "a-key-of-the-tests"


@contextmanager
def running_llama_server(folder: Path, *options: str, port: int = 0) -> Iterator[str]:
    """Yield the address of a server with two slots that wants ``KEY``."""
    program = built_llama_server()
    assert program is not None
    command = [str(program), "--model", str(model_files(Settings()).target), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--parallel", "2", "--ctx-size", "4096", "--threads", "1"]
    command += ["--api-key", KEY, "--metrics", *options]
    with serving(command, folder / "llama-server.log") as process:

        def address() -> str:
            found = re.search(r"http://127\.0\.0\.1:\d+", process.words())
            return found[0] if found else ""

        def is_ready() -> bool:
            try:
                return bool(address()) and httpx2.get(f"{address()}/health").is_success
            except httpx2.HTTPError:
                return False

        wait_until(is_ready, process, longest_s=LOADS_WITHIN_S)
        yield address()
