"""What llama.cpp allocated on which device, read from what it logs while it loads.

llama.cpp has no call that tells this; its lines name a buffer type each, for example
``load_tensors: CUDA0 model buffer size = 1564.62 MiB``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Purpose = Literal["weights", "KV cache", "compute"]

_SIZE = re.compile(
    r"(?P<buffer>\S+) +(?P<kind>model|KV|RS|compute|output) buffer size = +(?P<mib>[\d.]+) MiB"
)
_PURPOSES: dict[str, Purpose] = {
    "model": "weights",
    "KV": "KV cache",
    "RS": "KV cache",  # what recurrent layers keep instead
    "compute": "compute",
    "output": "compute",
}
CPU = "CPU"
"""What llama.cpp calls the CPU, as a device and in the names of its buffers."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory of one buffer type; ``buffer`` is for example ``CUDA0``, ``CUDA_Host``, ``CPU``."""

    buffer: str
    purpose: Purpose
    mib: float


def read_allocations(lines: Iterable[str]) -> tuple[Allocation, ...]:
    """Return what ``lines`` of llama.cpp's log say was allocated, in their order."""
    found = filter(None, map(_SIZE.search, lines))
    return tuple(
        Allocation(size["buffer"], _PURPOSES[size["kind"]], float(size["mib"])) for size in found
    )


def mib_by_device(
    allocations: Iterable[Allocation], devices: Sequence[str]
) -> dict[str, dict[Purpose, float]]:
    """Sum up MiB by device and purpose; what lies on none of ``devices`` counts as the CPU's.

    A buffer type is named after its device, often with more behind it (``CUDA0_Split``,
    ``MTL0_Private``); memory of the host that a GPU can read (``CUDA_Host``) is the CPU's.
    """
    sums: dict[str, dict[Purpose, float]] = {}
    for allocation in allocations:
        of_device = sums.setdefault(_device_of(allocation.buffer, devices), {})
        of_device[allocation.purpose] = of_device.get(allocation.purpose, 0.0) + allocation.mib
    return sums


def _device_of(buffer: str, devices: Sequence[str]) -> str:
    for device in devices:
        if buffer == device or buffer.startswith(f"{device}_"):
            return device
    return CPU
