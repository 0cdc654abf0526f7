"""The memory that models are loaded into: the GPU's if there is one, else the machine's."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.cores import physical_cpu_count

MemoryKind = Literal["NVIDIA GPU", "Metal", "GPU", "CPU"]

_KINDS: Final[dict[str, MemoryKind]] = {"CUDA": "NVIDIA GPU", "MTL": "Metal", "Metal": "Metal"}
"""By the first letters of ggml's names of devices."""
_NVIDIA_TIMEOUT_S: Final = 5.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory for a model's weights."""

    kind: MemoryKind
    name: str
    """The GPU's or the processor's name; GPUs are separated by commas."""
    total_bytes: int = 0
    """0 where it is unknown: of a CPU without llama-cpp-python."""
    free_bytes: int = 0
    n_cores: int = 0
    """Physical cores."""


def find_memory() -> Memory:
    """Return the memory of the GPUs that llama.cpp finds, or the machine's.

    ``nvidia-smi`` is asked if llama-cpp-python cannot be imported.
    """
    n_cores = physical_cpu_count()
    try:
        library = importlib.import_module("speclsp.backends.llama.library")
        devices = library.devices()
    except (ImportError, OSError, RuntimeError):
        return nvidia_memory() or Memory(kind="CPU", name="CPU", n_cores=n_cores)
    for kind in ("gpu", "igpu", "cpu"):
        found = [device for device in devices if device.kind == kind]
        if found:
            starts = (_KINDS[start] for start in _KINDS if found[0].name.startswith(start))
            return Memory(
                kind="CPU" if kind == "cpu" else next(starts, "GPU"),
                name=", ".join(device.description for device in found),
                total_bytes=sum(device.memory_total for device in found),
                free_bytes=sum(device.memory_free for device in found),
                n_cores=n_cores,
            )
    return Memory(kind="CPU", name="CPU", n_cores=n_cores)


def nvidia_memory() -> Memory | None:
    """Return the memory that ``nvidia-smi`` prints; None if it is missing or lists no GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = "--query-gpu=name,memory.total,memory.free"
    try:
        outcome = subprocess.run(  # noqa: S603  the driver's program
            [program, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_NVIDIA_TIMEOUT_S,
            check=True,
        )
        rows = [line.rsplit(",", 2) for line in outcome.stdout.splitlines() if line.strip()]
        total, free = (sum(int(row[column]) for row in rows) * _MIB for column in (1, 2))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    if not rows:
        return None
    return Memory(
        kind="NVIDIA GPU",
        name=", ".join(row[0].strip() for row in rows),
        total_bytes=total,
        free_bytes=free,
        n_cores=physical_cpu_count(),
    )
