import os
from pathlib import Path

import pytest

from speclsp import cores
from speclsp.cores import physical_cpu_count


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for cpu_id, text in siblings.items():
        (folder / f"cpu{cpu_id}/topology").mkdir(parents=True)
        (folder / f"cpu{cpu_id}/topology/thread_siblings_list").write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("cpu_ids", "siblings", "quota", "n_cores"),
    [
        ({0, 1, 2, 3}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, "max 100000", 2),
        ({0, 1, 2, 3}, {0: "0", 1: "1", 2: "2", 3: "3"}, None, 4),
        ({0, 1, 2, 3}, {0: "0", 1: "1", 2: "2", 3: "3"}, "150000 100000", 2),
        ({0, 1}, {0: "0,4", 1: "1,5"}, "50000 100000", 1),
        ({2, 3}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, None, 1),  # affinity to one core
        (set(range(8)), {}, None, 4),  # no topology to be read
        ({0, 1, 2}, {}, "nonsense", 3),
    ],
)
def test_physical_cores(tmp_path, monkeypatch, cpu_ids, siblings, quota, n_cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpu_ids, raising=False)
    quota_file = tmp_path / "cpu.max"
    if quota is not None:
        quota_file.write_text(quota)
    assert physical_cpu_count(topology(tmp_path / "cpu", siblings), quota_file) == n_cores


@pytest.mark.parametrize(("answer", "n_cores"), [(b"6\n", 6), (b"", 4)])
def test_apples_performance_cores(tmp_path, monkeypatch, answer, n_cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    monkeypatch.setattr(cores.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(cores.subprocess, "check_output", lambda *_, **__: answer)
    assert physical_cpu_count(tmp_path / "none", tmp_path / "none") == n_cores
