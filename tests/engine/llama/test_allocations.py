"""What llama.cpp's log says of its memory."""

from __future__ import annotations

import pytest

from speclsp.engine.llama.allocations import Allocation, mib_by_device, read_allocations

# As llama.cpp prints them, with and without a GPU.
LOG = """\
load_tensors: offloaded 25/29 layers to GPU
load_tensors:   CPU_Mapped model buffer size =   308.23 MiB
load_tensors:        CUDA0 model buffer size =  1256.39 MiB
llama_context:  CUDA_Host  output buffer size =     4.64 MiB
llama_kv_cache:        CPU KV buffer size =    16.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =    96.00 MiB
sched_reserve:      CUDA0 compute buffer size =   299.75 MiB
sched_reserve:  CUDA_Host compute buffer size =    11.01 MiB
sched_reserve:      CUDA0 compute buffer size is  299.7500 MiB, matches expectation of  299.7500 MiB
llama_kv_cache: size =  112.00 MiB (  4096 cells,  28 layers,  1/1 seqs), K (f16):   56.00 MiB
""".splitlines()


def test_each_buffer_is_read_once() -> None:
    assert read_allocations(LOG) == (
        Allocation("CPU_Mapped", "weights", 308.23),
        Allocation("CUDA0", "weights", 1256.39),
        Allocation("CUDA_Host", "compute", 4.64),
        Allocation("CPU", "KV cache", 16.0),
        Allocation("CUDA0", "KV cache", 96.0),
        Allocation("CUDA0", "compute", 299.75),
        Allocation("CUDA_Host", "compute", 11.01),
    )


def test_sums_by_device() -> None:
    sums = mib_by_device(read_allocations(LOG), ["CUDA0"])
    assert sums == {
        "CPU": {
            "weights": 308.23,
            "compute": pytest.approx(15.65),
            "KV cache": 16.0,
        },
        "CUDA0": {"weights": 1256.39, "KV cache": 96.0, "compute": 299.75},
    }


@pytest.mark.parametrize(
    ("buffer", "device"),
    [
        ("MTL0_Private", "MTL0"),
        ("CUDA1", "CUDA1"),
        ("CUDA10", "CUDA10"),
        ("CUDA1_Split", "CUDA1"),
        ("Vulkan_Host", "CPU"),
        ("CPU_REPACK", "CPU"),
    ],
)
def test_whose_memory_it_is(buffer: str, device: str) -> None:
    devices = ["CPU", "MTL0", "CUDA1", "CUDA10", "Vulkan0"]
    assert list(mib_by_device([Allocation(buffer, "weights", 1.0)], devices)) == [device]
