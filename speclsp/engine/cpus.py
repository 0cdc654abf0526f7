"""How many CPU threads to use: the physical cores of this process, fewer for a small model.

llama.cpp's threads wait for each other after every operation, so one thread too many slows all of
them down: hyper-threads and cores beyond a container's quota are not counted.  A small model, which
one core computes faster than threads can synchronise, gets one thread: the embedded model decodes a
token in 0.3 ms with one and 0.9 ms with two.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

_CPU_FOLDER = Path("/sys/devices/system/cpu")
_CGROUP_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")

BYTES_PER_THREAD = 32 * 1024 * 1024
"""Least weights per thread: 2 to 3 ms of memory traffic per token; below it, waiting costs more."""


def physical_cpu_count(
    cpu_folder: Path = _CPU_FOLDER, cgroup_quota_file: Path = _CGROUP_QUOTA_FILE
) -> int:
    """Return the number of physical cores that this process may use, at least 1.

    Respects CPU affinity and a cgroup's quota.  Where the cores' topology cannot be read, every
    second logical CPU counts as a core, all of them up to four (as llama.cpp has it).
    """
    cpu_ids = _usable_cpu_ids()
    cores = {_core_of(cpu_folder, cpu_id) for cpu_id in cpu_ids}
    if None in cores:
        n_cores = len(cpu_ids) if len(cpu_ids) <= 4 else len(cpu_ids) // 2
    else:
        n_cores = len(cores)
    quota = _quota(cgroup_quota_file)
    return max(1, n_cores if quota is None else min(n_cores, math.ceil(quota)))


def thread_count(model_bytes: int, n_cores: int) -> int:
    """Return how many of ``n_cores`` threads make a model of this size faster, at least 1."""
    return max(1, min(n_cores, math.ceil(model_bytes / BYTES_PER_THREAD)))


def _usable_cpu_ids() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _core_of(cpu_folder: Path, cpu_id: int) -> str | None:
    """Return the list of a logical CPU's siblings, which identifies its physical core."""
    try:
        return (cpu_folder / f"cpu{cpu_id}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return None


def _quota(cgroup_quota_file: Path) -> float | None:
    """Return the CPUs that a cgroup allows, None for no limit."""
    try:
        quota, period = cgroup_quota_file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no cgroup, or "max"
        return None
