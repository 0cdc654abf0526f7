"""What the log says of a loaded model: how many layers are where, and what memory they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from speclsp.engine.llama.allocations import CPU, Purpose, mib_by_device
from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.library import DeviceInfo, library_version, why_no_gpu
from speclsp.engine.params import ModelParams
from speclsp.request import LogLevel

Line = tuple[LogLevel, str]

_MIB = 1024 * 1024
_ALL_TOGETHER = "Meta("
"""What the device is called that llama.cpp makes of all with split_mode tensor."""
_MORE_ROOM = (
    "a smaller quantisation, a lower ctx_size or a quantised KV cache (cache_type_k, "
    "cache_type_v) makes room for more"
)


def load_report(
    target: LlamaTarget,
    name: str,
    params: ModelParams,
    gpus: Sequence[DeviceInfo],
    n_ctx_asked: int,
) -> list[Line]:
    """Return the log's lines on the model called ``name``, which was loaded with ``params``.

    ``gpus`` are the devices that it could be offloaded to, as they were before it was loaded.
    """
    attention = "on" if target.flash_attention else "off"
    loaded = (
        f"loaded {name}: {target.description}, {target.size / _MIB:.1f} MiB; "
        f"context {target.n_ctx} (trained on {target.n_ctx_train}), "
        f"batch {target.n_batch}, micro-batch {target.n_ubatch}, flash attention {attention}; "
        f"llama.cpp {library_version()}"
    )
    lines: list[Line] = [("info", line) for line in (loaded, *_device_lines(target, name, gpus))]
    lines += _cpu_remarks(target, name, params, gpus)
    if target.n_ctx < n_ctx_asked:
        cut = f"the KV cache was cut from {n_ctx_asked} to {target.n_ctx} positions to fit"
        lines.append(("warning", f"{name}: {cut}"))
    if not target.supports_rollback:
        lines.append(("info", f"{name} cannot take tokens back: speculation is off for it"))
    return lines


def _device_lines(target: LlamaTarget, name: str, gpus: Sequence[DeviceInfo]) -> Iterator[str]:
    n_layers = sum(target.layers.values())
    known = {gpu.name: gpu for gpu in gpus}
    used = mib_by_device(target.allocations, tuple(target.layers.keys() | known.keys()))
    # The GPUs first: that is what people look for.
    for device in sorted(
        target.layers.keys() | known.keys() | used.keys(), key=lambda name: (name == CPU, name)
    ):
        place, room = device, ""
        if device.startswith(_ALL_TOGETHER):
            place = f"{' and '.join(sorted(known))} together"
        elif gpu := known.get(device):
            place = f"{device} ({gpu.description})"
            room = (
                f"; {_in_mib(gpu.memory_free)} of {_in_mib(gpu.memory_total)} MiB were free before"
            )
        yield (
            f"{name}: {target.layers.get(device, 0)} of {n_layers} layers on {place}, "
            f"{_memory(used.get(device, {}))}{room}"
        )


def _memory(by_purpose: Mapping[Purpose, float]) -> str:
    parts = ", ".join(f"{purpose} {mib:.1f}" for purpose, mib in by_purpose.items())
    return f"{sum(by_purpose.values()):.1f} MiB" + (f" ({parts})" if parts else "")


def _in_mib(n_bytes: int) -> int:
    return n_bytes // _MIB


def _cpu_remarks(
    target: LlamaTarget, name: str, params: ModelParams, gpus: Sequence[DeviceInfo]
) -> list[Line]:
    """Say why layers are on the CPU."""
    n_layers = sum(target.layers.values())
    n_on_cpu = target.layers.get(CPU, 0)
    if params.devices == () or params.n_gpu_layers == 0:
        return [("info", f"{name}: computing on the CPU, as the settings say")]
    if not gpus:
        return [("info", f"no GPU to offload to, computing on the CPU: {why_no_gpu()}")]
    if isinstance(params.n_gpu_layers, int) or n_on_cpu == 0:
        return []
    slow = f"{n_on_cpu} of {n_layers} layers did not fit the GPU and are slow on the CPU"
    return [("warning", f"{name}: {slow}; {_MORE_ROOM}")]
