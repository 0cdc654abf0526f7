"""The processor's cores that this process may use."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from pathlib import Path
from typing import Final

_CPU_FOLDER: Final = Path("/sys/devices/system/cpu")
_CGROUP_QUOTA_FILE: Final = Path("/sys/fs/cgroup/cpu.max")


def physical_cpu_count(
    cpu_folder: Path = _CPU_FOLDER, cgroup_quota_file: Path = _CGROUP_QUOTA_FILE
) -> int:
    """Return the number of physical cores that this process may use, at least 1.

    Respects CPU affinity and a cgroup's quota.  Apple's efficiency cores do not count, since the
    other threads would wait for them.  Without a topology to read, every second logical CPU counts
    as a core, all of them up to four (llama.cpp's rules).
    """
    if hasattr(os, "sched_getaffinity"):
        cpu_ids = os.sched_getaffinity(0)
    else:
        cpu_ids = set(range(os.cpu_count() or 1))
    try:
        # The list of a logical CPU's siblings identifies its physical core.
        files = [cpu_folder / f"cpu{cpu_id}/topology/thread_siblings_list" for cpu_id in cpu_ids]
        n_cores = len({file.read_text().strip() for file in files})
    except OSError:
        n_usual = len(cpu_ids) if len(cpu_ids) <= 4 else len(cpu_ids) // 2
        n_cores = _apple_performance_cores() or n_usual
    try:
        quota, period = cgroup_quota_file.read_text().split()
        n_cores = min(n_cores, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no cgroup, or "max"
        pass
    return max(1, n_cores)


def _apple_performance_cores() -> int:
    """Return how many performance cores Apple silicon has; 0 for other processors."""
    if platform.system() != "Darwin":
        return 0
    command = ("/usr/sbin/sysctl", "-n", "hw.perflevel0.physicalcpu")
    try:
        return int(subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=5))  # noqa: S603
    except (OSError, ValueError, subprocess.SubprocessError):  # no such key on Intel
        return 0
