"""``speclsp`` in processes of their own, forked from one that has imported its modules.

Python's start and imports take a second, a fork none: for what a run does, not for how it starts.
"""

import atexit
import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_PREPARED = """
import json, os, sys

import numpy
from speclsp.cli import complete, models, options
from speclsp.cli.main import main
from speclsp.completer import engine, local
from speclsp.drafting import merger, registry
from speclsp.engine.llama import context, loading, vocabulary
from speclsp.storage import accepted_store

for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    for number, name in enumerate(job["streams"]):
        os.dup2(os.open(name, os.O_RDWR), number)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv[1:] = job["arguments"]
    main()
"""


@functools.cache
def _prepared() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PREPARED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def run_speclsp(
    *arguments: str,
    data: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float = 600.0,
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end, as ``subprocess.run`` does.  Raises TimeoutError."""
    process = _prepared()
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as name:
        streams = [Path(name) / stream for stream in ("in", "out", "err")]
        for stream, content in zip(streams, (data, b"", b""), strict=True):
            stream.write_bytes(content)
        job = {
            "arguments": arguments,
            "streams": [str(stream) for stream in streams],
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            process.kill()
            _prepared.cache_clear()
            raise TimeoutError(f"speclsp {' '.join(arguments)}")
        code = int(process.stdout.readline())
        return subprocess.CompletedProcess(
            ["speclsp", *arguments], code, streams[1].read_bytes(), streams[2].read_bytes()
        )
