"""Loads a model with its context, using less GPU memory where it does not fit, and logs the result.

llama.cpp has no call that returns where it allocated memory, so its log lines are parsed: each
names a buffer type, for example ``load_tensors: CUDA0 model buffer size = 1564.62 MiB``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import psutil

from speclsp.backends.llama import fit
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.fit import Attempt, first_attempt, kv_bytes, layers_asked, next_attempt
from speclsp.backends.llama.library import DeviceInfo, gpu_backends, library_version, why_no_gpu
from speclsp.backends.llama.model import LoadProgress, offload_devices, open_model
from speclsp.backends.llama.model_file import check_model_file, read_gguf_header
from speclsp.backends.params import check_params, device_names
from speclsp.errors import DecodeError, ModelLoadError
from speclsp.seam.events import LogLevel
from speclsp.settings import Settings

Log = Callable[[LogLevel, str], None]
Purpose = Literal["weights", "KV cache", "compute"]

_MEMORY_SIGNS = ("alloc", "out of memory")
"""Parts of llama.cpp's messages about failed allocations."""
_LEAST_CTX = 2
"""Positions that one generated token needs."""
_MIB = 1024 * 1024
_CPU = "CPU"
"""llama.cpp's name of the CPU, as a device and in the names of its buffers."""
_SPLIT_TENSORS = "Meta("
"""Prefix of the device into which split_mode tensor combines all GPUs."""
_BUFFER_SIZE = re.compile(
    r"(?P<buffer>\S+) +(?P<kind>model|KV|RS|compute|output) buffer size = +(?P<mib>[\d.]+) MiB"
)
_PURPOSES: dict[str, Purpose] = {
    "model": "weights",
    "KV": "KV cache",
    "RS": "KV cache",  # the states of recurrent layers
    "compute": "compute",
    "output": "compute",
}


def load_target(
    path: Path,
    settings: Settings,
    *,
    progress: LoadProgress,
    log: Log,
    n_bytes_reserved: int = 0,
    memory_remedy: str = "Choose a smaller model or quantisation, or lower ctx_size.",
) -> LlamaTarget:
    """Load the model at ``path``, make its context, and warm it up.

    Where memory is short, ``settings.fit`` tries fewer layers on the GPU, then a smaller KV cache;
    ``n_bytes_reserved`` of the GPUs' memory stay free for models loaded later.
    ``memory_remedy`` tells the user what to do where nothing fits.
    ``progress`` takes the loaded share and returns whether to continue.
    Raises :class:`~speclsp.errors.SettingsError`, :class:`~speclsp.errors.ModelNotFoundError`,
    :class:`~speclsp.errors.ModelLoadError`, or
    :class:`~speclsp.errors.EngineUnavailableError` if ``progress`` returned false.
    """
    check_params(settings)
    check_model_file(path)
    gpus = offload_devices(settings)
    header = read_gguf_header(path)
    attempt = first_attempt(header, settings, gpus, n_bytes_reserved=n_bytes_reserved)
    n_ctx_asked = attempt.n_ctx
    if n_ctx_asked < _LEAST_CTX:
        raise ModelLoadError(
            f"The model {path} cannot complete in a context of {n_ctx_asked} position.",
            remedy="Raise ctx_size; 0 takes the model's trained context.",
        )
    while True:
        try:
            _check_kv_cache(sum(kv_bytes(header, settings)) * attempt.n_ctx, gpus)
            loaded = _load(path, settings, attempt, progress)
            break
        except ModelLoadError as error:
            if not any(sign in error.message.lower() for sign in _MEMORY_SIGNS):
                raise
            following = next_attempt(attempt, header.n_layers, fit.FIT_CTX)
            if following is None or not settings.fit:
                raise ModelLoadError(
                    f"The model {path} does not fit the memory: {error.message}",
                    remedy=memory_remedy,
                ) from error
            log("warning", _step_down(path, attempt, following, error))
            attempt = following
    report = load_report(loaded, path.name, settings, gpus, n_ctx_asked)
    for level, line in report:
        log(level, line)
    loaded.shortfall = "; ".join(line for level, line in report if level == "warning")
    return loaded


def _check_kv_cache(n_bytes: int, gpus: Sequence[DeviceInfo]) -> None:
    """Raise ModelLoadError if a KV cache exceeds the free memory of all devices together.

    Linux grants an allocation beyond it, and ends the process when llama.cpp clears the memory.
    """
    n_free = psutil.virtual_memory().available + sum(gpu.memory_free for gpu in gpus)
    if n_bytes > n_free:
        raise ModelLoadError(
            f"an allocation of {n_bytes // _MIB:,} MiB for the KV cache exceeds the "
            f"{n_free // _MIB:,} MiB that are free."
        )


def _load(path: Path, settings: Settings, attempt: Attempt, progress: LoadProgress) -> LlamaTarget:
    """Load weights and context once.  Raises ModelLoadError, and frees the weights first."""
    model = open_model(path, settings, attempt.n_gpu_layers, progress)
    if not model.is_generative:
        description = model.description
        model.close()
        raise ModelLoadError(
            f"{path} is not a text generation model ({description}).",
            remedy="Choose a decoder-only code model with fill-in-the-middle tokens.",
        )
    try:
        target = LlamaTarget(model, settings, attempt.n_ctx)
    except ModelLoadError:
        model.close()
        raise
    try:
        target.warm_up()
    except DecodeError as error:
        target.close()
        raise ModelLoadError(f"The model {path} cannot decode: {error.message}") from error
    return target


def _step_down(path: Path, failed: Attempt, following: Attempt, failure: ModelLoadError) -> str:
    if following.n_ctx != failed.n_ctx:
        step = f"a KV cache of {following.n_ctx} instead of {failed.n_ctx} positions"
    else:
        step = f"{following.n_gpu_layers} instead of {failed.n_gpu_layers} layers on the GPU"
    return f"{path.name} does not fit: trying {step} ({failure.message})"


def load_report(
    target: LlamaTarget,
    name: str,
    settings: Settings,
    gpus: Sequence[DeviceInfo],
    n_ctx_asked: int,
) -> list[tuple[LogLevel, str]]:
    """Return log lines about the model ``name``: its layers and memory by device.

    ``gpus`` are the devices to offload to, with their free memory before loading.
    """
    attention = "on" if target.flash_attention else "off"
    loaded = (
        f"loaded {name}: {target.model.description}, {target.model.size / _MIB:.1f} MiB; "
        f"context {target.n_ctx} (trained on {target.model.n_ctx_train}), "
        f"batch {target.n_batch}, micro-batch {target.n_ubatch}, flash attention {attention}; "
        f"llama.cpp {library_version()}"
    )
    lines: list[tuple[LogLevel, str]] = [("info", loaded)]
    lines += [("info", line) for line in _device_lines(target, name, gpus)]
    n_layers, n_on_cpu = sum(target.model.layers.values()), target.model.layers.get(_CPU, 0)
    if device_names(settings) == () or settings.n_gpu_layers == 0:
        lines.append(("info", f"{name}: computing on the CPU, as the settings say"))
    elif not gpus:
        line = f"no GPU to offload to, computing on the CPU: {why_no_gpu()}"
        if gpu_backends() or shutil.which("nvidia-smi") is not None:
            lines.append(("warning", f"{line}; docs/gpu.md names the remedies"))
        else:
            lines.append(("info", line))
    elif n_layers - n_on_cpu < layers_asked(settings, n_layers):
        slow = (
            f"{name}: {n_on_cpu} of {n_layers} layers did not fit the GPU and are slow on the CPU; "
            "a smaller quantisation, a lower ctx_size or a quantised KV cache (cache_type_k, "
            "cache_type_v) makes room for more"
        )
        lines.append(("warning", slow))
    if target.n_ctx < n_ctx_asked:
        cut = f"the KV cache was cut from {n_ctx_asked} to {target.n_ctx} positions to fit"
        lines.append(("warning", f"{name}: {cut}"))
    if line := _rollback_line(target):
        lines.append(("info", f"{name} {line}"))
    return lines


def _rollback_line(target: LlamaTarget) -> str:
    """Say how a model whose layers keep states takes tokens back; empty for other models."""
    if target.supports_rollback:
        return ""
    if not target.max_draft:
        return "cannot take tokens back: speculation is off for it"
    if target.evaluates_again:
        return (
            "keeps states instead of positions in some layers: tokens behind a wrong draft are "
            "evaluated again"
        )
    return (
        "keeps states instead of positions in some layers: drafts have at most "
        f"{target.max_draft} tokens, as many as llama.cpp keeps snapshots for"
    )


def _device_lines(target: LlamaTarget, name: str, gpus: Sequence[DeviceInfo]) -> Iterator[str]:
    n_layers = sum(target.model.layers.values())
    known = {gpu.name: gpu for gpu in gpus}
    devices = target.model.layers.keys() | known.keys()
    used = mib_by_device(target.log_lines, devices)
    # GPUs first.
    for device in sorted(devices | used.keys(), key=lambda name: (name == _CPU, name)):
        place, room = device, ""
        if device.startswith(_SPLIT_TENSORS):
            place = f"{' and '.join(sorted(known))} together"
        elif gpu := known.get(device):
            place = f"{device} ({gpu.description})"
            free, total = gpu.memory_free // _MIB, gpu.memory_total // _MIB
            room = f"; {free} of {total} MiB were free before"
        yield (
            f"{name}: {target.model.layers.get(device, 0)} of {n_layers} layers on {place}, "
            f"{_memory(used.get(device, {}))}{room}"
        )


def _memory(by_purpose: Mapping[Purpose, float]) -> str:
    parts = ", ".join(f"{purpose} {mib:.1f}" for purpose, mib in by_purpose.items())
    return f"{sum(by_purpose.values()):.1f} MiB" + (f" ({parts})" if parts else "")


def mib_by_device(
    log_lines: Iterable[str], devices: Iterable[str]
) -> dict[str, dict[Purpose, float]]:
    """Return the allocated MiB by device and purpose, parsed from llama.cpp's log.

    A buffer type is named after its device, often with a suffix (``CUDA0_Split``,
    ``MTL0_Private``).  Other buffers count for the CPU, host memory that a GPU can read
    (``CUDA_Host``) included.
    """
    known = tuple(devices)
    sums: dict[str, dict[Purpose, float]] = {}
    for found in filter(None, map(_BUFFER_SIZE.search, log_lines)):
        buffer, purpose = found["buffer"], _PURPOSES[found["kind"]]
        device = next((d for d in known if buffer == d or buffer.startswith(f"{d}_")), _CPU)
        of_device = sums.setdefault(device, {})
        of_device[purpose] = of_device.get(purpose, 0.0) + float(found["mib"])
    return sums
