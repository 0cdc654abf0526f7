"""What was committed is there after any call on a store's files failed, or ended the process.

``make faults`` runs every case, the tests a share of them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
SHARE = os.environ.get("SPECLSP_FAULTS_SHARE", "0.01")
COMPILER = shutil.which("cc") or shutil.which("gcc")
WORKLOADS = [
    "accepted", "accepted-new", "accepted-damaged", "tokens",
    "statistics", "statistics-llama.cpp", "learned", "hub-cache",
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("the disk that fails is a library in C, preloaded as Linux does")
    path = tmp_path_factory.mktemp("library") / "faulty_disk.so"
    source = SUPPORT / "faulty_disk.c"
    command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(path), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def folder():
    """In memory where possible, since some tens of thousands of files are synced."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield folder


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_was_committed_survives_every_fault(library, folder, workload):
    is_small = workload.startswith("statistics")
    share = str(min(1, 20 * float(SHARE))) if is_small else SHARE
    command = [sys.executable, str(SUPPORT / "fault_matrix.py"), workload, folder, share]
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr[-4000:]
    counts = json.loads(result.stdout)
    print(workload, counts)  # noqa: T201 - figures
    assert counts["cases"]
    assert counts["w"]
    assert counts["s"]
    # No file of a store is mapped into memory: cut by another process, it would end this one.
    assert "m" not in counts
