"""What to try first: as many layers on the GPU as the estimates find room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from speclsp.engine.llama.fit import Attempt, first_attempt
from speclsp.engine.llama.gguf_header import GgufHeader, read_gguf_header
from speclsp.engine.llama.library import DeviceInfo
from speclsp.engine.llama.placement import offload_devices
from speclsp.engine.llama.shape import estimate_shape
from speclsp.engine.params import ContextParams, ModelParams

_MEMORY_KEPT_FREE = 512 * 1024 * 1024
"""Bytes of each GPU that the estimates leave to the backend itself and to others."""


def n_layers_of(header: GgufHeader) -> int:
    """Return how many layers can be offloaded: the repeating ones and the output."""
    return header.number("block_count", 0) + 1


def plan(
    header: GgufHeader,
    model_params: ModelParams,
    context_params: ContextParams,
    gpus: Sequence[DeviceInfo],
    *,
    fit: bool,
    n_bytes_reserved: int = 0,
) -> Attempt:
    """Return what to try first.

    A number of layers that the user set is tried as it is; ``auto`` takes the most that the
    estimates find room for beside ``n_bytes_reserved``, or all of them without ``fit``.
    """
    n_ctx = _wanted_ctx(header, context_params)
    n_layers = n_layers_of(header)
    if not gpus:
        return Attempt(0, n_ctx)
    if isinstance(model_params.n_gpu_layers, int):
        # llama.cpp takes a negative number for all.
        wanted = model_params.n_gpu_layers
        return Attempt(n_layers if wanted < 0 else min(wanted, n_layers), n_ctx)
    if model_params.n_gpu_layers == "all" or not fit:
        return Attempt(n_layers, n_ctx)
    free = sum(max(0, gpu.memory_free - _MEMORY_KEPT_FREE) for gpu in gpus)
    shape = estimate_shape(header, model_params, replace(context_params, n_ctx=n_ctx))
    return first_attempt(shape, free - n_bytes_reserved, n_ctx)


def bytes_wanted(
    path: Path, model_params: ModelParams, context_params: ContextParams, *, beside: ModelParams
) -> int:
    """Estimate what a model that is loaded later takes of the GPUs of one loaded ``beside`` it.

    Raises :class:`~speclsp.errors.ModelLoadError` or
    :class:`~speclsp.errors.ModelNotFoundError` where the file or a device cannot be used.
    """
    shared = {gpu.name for gpu in offload_devices(model_params)}
    if not shared.intersection(gpu.name for gpu in offload_devices(beside)):
        return 0
    header = read_gguf_header(path)
    n_gpu_layers = model_params.n_gpu_layers
    if not isinstance(n_gpu_layers, int) or n_gpu_layers < 0:
        n_gpu_layers = n_layers_of(header)
    n_ctx = _wanted_ctx(header, context_params)
    shape = estimate_shape(header, model_params, replace(context_params, n_ctx=n_ctx))
    return shape.offloaded_bytes(n_gpu_layers, n_ctx)


def _wanted_ctx(header: GgufHeader, params: ContextParams) -> int:
    n_ctx_train = header.number("context_length", params.n_ctx)
    return min(params.n_ctx or n_ctx_train, n_ctx_train)
