"""What a benchmark's record says of the machine."""

from pathlib import Path

import pytest

from benchmarks import machine
from speclsp.backends.llama.library import DeviceInfo

GIB = 1024**3
FOUND = (
    DeviceInfo("CUDA0", "NVIDIA Some GPU", "gpu", 7 * GIB, 8 * GIB, handle=0),
    DeviceInfo("CUDA1", "NVIDIA Other GPU", "gpu", 23 * GIB, 24 * GIB, handle=0),
    DeviceInfo("CPU", "a CPU", "cpu", 9 * GIB, 16 * GIB, handle=0),
)


@pytest.fixture(autouse=True)
def _gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "devices", lambda: FOUND)
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 570.86\necho 570.86\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def lines(layers: dict[str, int]) -> dict[str, str]:
    return dict(machine.machine_lines(layers, 2, None))


def test_the_gpus_that_hold_layers_are_described():
    said = lines({"CUDA1": 29, "CPU": 4})
    assert said["model's layers"] == "29 on CUDA1, 4 on CPU"
    assert said["CUDA1"] == "NVIDIA Other GPU, 24 GiB"
    assert said["NVIDIA driver"] == "570.86"
    assert "CUDA0" not in said


def test_all_of_them_where_they_hold_them_together():
    said = lines({"Meta()": 29})
    assert {"CUDA0", "CUDA1"} <= said.keys()


def test_a_cpu_has_none():
    said = lines({"CPU": 33})
    assert not {"CUDA0", "CUDA1", "NVIDIA driver"} & said.keys()
    assert said["cores"].endswith("2 threads used")


def says(folder: Path, *words: str) -> Path:
    program = folder / "llama-server"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in words))
    program.chmod(0o755)
    return program


def test_a_servers_devices_are_told_where_layers_are_offloaded(tmp_path):
    gpu = "  CUDA0: NVIDIA Some GPU (8192 MiB, 7168 MiB free)"
    server = says(tmp_path, "Available devices:", gpu)
    found = dict(machine.machine_lines({"CUDA0": 1}, 2, server))
    assert found["llama-server's devices"] == "CUDA0: NVIDIA Some GPU"
    assert "llama-server's devices" not in dict(machine.machine_lines({"CPU": 1}, 2, server))


def test_a_server_may_have_none_or_not_tell(tmp_path):
    (tmp_path / "other").mkdir()
    assert machine.server_devices(says(tmp_path, "Available devices:", "  (none)")) == ()
    assert machine.server_devices(says(tmp_path / "other", "unknown option")) is None
    assert machine.has_gpu()


def test_a_server_that_cannot_be_run_is_no_obstacle(tmp_path):
    found = dict(machine.machine_lines({"CPU": 1}, 2, tmp_path / "none"))
    assert found["llama-server"] == "untold"
