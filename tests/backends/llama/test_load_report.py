"""What the log says of a loaded model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from speclsp.backends.llama import loading as module
from speclsp.backends.llama.library import DeviceInfo
from speclsp.backends.llama.loading import mib_by_device
from speclsp.settings import Settings

MIB = 1024**2


@dataclass
class Loaded:
    """As much of a target as the report asks for."""

    layers: dict[str, int]
    log_lines: tuple[str, ...] = ()
    description: str = "qwen2 1.5B Q8_0"
    size: int = 1564 * MIB
    n_ctx: int = 4096
    n_ctx_train: int = 32768
    n_batch: int = 2048
    n_ubatch: int = 512
    flash_attention: bool = True
    supports_rollback: bool = True
    max_draft: int = 127
    evaluates_again: bool = False

    @property
    def model(self) -> Loaded:
        """The facts of the model itself."""
        return self


def allocated(buffer: str, kind: str, mib: float) -> str:
    return f"x: {buffer} {kind} buffer size = {mib} MiB"


def gpu(name: str) -> DeviceInfo:
    return DeviceInfo(name, "NVIDIA Some GPU", "gpu", 7000 * MIB, 8000 * MIB, handle=0)


def report(
    target: Any, *gpus: DeviceInfo, params: Settings | None = None, n_ctx_asked: int = 4096
) -> list[tuple[str, str]]:
    return list(module.load_report(target, "coder.gguf", params or Settings(), gpus, n_ctx_asked))


def test_all_layers_on_one_gpu():
    target = Loaded(
        {"CUDA0": 29},
        (
            allocated("CPU_Mapped", "model", 125.0),
            allocated("CUDA0", "model", 1564.6),
            allocated("CUDA0", "KV", 112.0),
            allocated("CUDA0", "compute", 299.8),
            allocated("CUDA_Host", "compute", 11.0),
        ),
    )
    (_, loaded), *lines = report(target, gpu("CUDA0"))
    assert loaded.startswith(
        "loaded coder.gguf: qwen2 1.5B Q8_0, 1564.0 MiB; context 4096 (trained on 32768), "
        "batch 2048, micro-batch 512, flash attention on; llama.cpp "
    )
    assert lines == [
        (
            "info",
            (
                "coder.gguf: 29 of 29 layers on CUDA0 (NVIDIA Some GPU), 1976.4 MiB "
                "(weights 1564.6, KV cache 112.0, compute 299.8); 7000 of 8000 MiB were free before"
            ),
        ),
        ("info", "coder.gguf: 0 of 29 layers on CPU, 136.0 MiB (weights 125.0, compute 11.0)"),
    ]


def test_a_gpu_without_layers_is_listed_too():
    lines = report(Loaded({"CUDA1": 29}), gpu("CUDA0"), gpu("CUDA1"))
    assert [line.split(",")[0] for _, line in lines[1:]] == [
        "coder.gguf: 0 of 29 layers on CUDA0 (NVIDIA Some GPU)",
        "coder.gguf: 29 of 29 layers on CUDA1 (NVIDIA Some GPU)",
    ]


def test_all_gpus_at_once():
    target = Loaded({"Meta()": 29}, (allocated("Meta()", "model", 1564.6),))
    lines = report(target, gpu("CUDA0"), gpu("CUDA1"))
    assert any(
        line == "coder.gguf: 29 of 29 layers on CUDA0 and CUDA1 together, 1564.6 MiB "
        "(weights 1564.6)"
        for _, line in lines
    )


PARTLY = Loaded({"CPU": 4, "CUDA0": 25})


@pytest.mark.parametrize("n_gpu_layers", ["auto", "all"])
def test_layers_that_did_not_fit_are_a_warning(n_gpu_layers):
    *_, (level, line) = report(PARTLY, gpu("CUDA0"), params=Settings(n_gpu_layers=n_gpu_layers))
    assert level == "warning"
    assert line.startswith("coder.gguf: 4 of 29 layers did not fit the GPU and are slow on the CPU")
    assert "cache_type_k" in line


def test_layers_that_the_user_keeps_on_the_cpu_are_none():
    lines = report(PARTLY, gpu("CUDA0"), params=Settings(n_gpu_layers=25))
    assert {level for level, _ in lines} == {"info"}
    assert len(lines) == 3


@pytest.mark.parametrize("params", [Settings(device="none"), Settings(n_gpu_layers=0)])
def test_the_cpu_by_choice(params):
    *_, last = report(Loaded({"CPU": 29}), params=params)
    assert last == ("info", "coder.gguf: computing on the CPU, as the settings say")


def test_layers_asked_for_that_did_not_fit_are_a_warning():
    *_, (level, line) = report(PARTLY, gpu("CUDA0"), params=Settings(n_gpu_layers=28))
    assert (level, "4 of 29 layers did not fit" in line) == ("warning", True)


@pytest.mark.parametrize(
    ("backends", "driver", "level"),
    [((), None, "info"), (("CUDA",), None, "warning"), ((), "/usr/bin/nvidia-smi", "warning")],
)
def test_the_cpu_for_want_of_a_gpu(backends, driver, level, monkeypatch):
    monkeypatch.setattr(module, "gpu_backends", lambda: backends)
    monkeypatch.setattr("shutil.which", lambda name: driver)
    monkeypatch.setattr(module, "why_no_gpu", lambda: "the driver is too old")
    *_, last = report(Loaded({"CPU": 29}))
    remedy = "; docs/gpu.md names the remedies" if level == "warning" else ""
    line = "no GPU to offload to, computing on the CPU: the driver is too old"
    assert last == (level, line + remedy)


def test_what_else_is_worth_saying():
    target = Loaded(
        {"CUDA0": 29}, n_ctx=2048, flash_attention=False, supports_rollback=False, max_draft=0
    )
    lines = report(target, gpu("CUDA0"))
    assert "flash attention off" in lines[0][1]
    assert lines[2:] == [
        ("warning", "coder.gguf: the KV cache was cut from 4096 to 2048 positions to fit"),
        ("info", "coder.gguf cannot take tokens back: speculation is off for it"),
    ]


def test_how_a_model_with_states_takes_tokens_back():
    snapshots = Loaded({"CUDA0": 29}, supports_rollback=False, max_draft=7)
    assert report(snapshots, gpu("CUDA0"))[-1][1].endswith(
        "drafts have at most 7 tokens, as many as llama.cpp keeps snapshots for"
    )
    again = Loaded({"CUDA0": 29}, supports_rollback=False, evaluates_again=True)
    assert report(again, gpu("CUDA0"))[-1][1].endswith(
        "tokens behind a wrong draft are evaluated again"
    )


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


def test_sums_by_device():
    sums = mib_by_device(LOG, ["CUDA0"])
    assert sums == {
        "CPU": {"weights": 308.23, "compute": pytest.approx(15.65), "KV cache": 16.0},
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
def test_whose_memory_it_is(buffer, device):
    devices = ["CPU", "MTL0", "CUDA1", "CUDA10", "Vulkan0"]
    assert list(mib_by_device([f"x: {buffer} model buffer size = 1.0 MiB"], devices)) == [device]
