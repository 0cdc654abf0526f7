"""A model's weights in memory."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama_cpp import llama_cpp as llama

from speclsp.engine.llama.allocations import Allocation, read_allocations
from speclsp.engine.llama.library import collected_lines, start_backends
from speclsp.engine.llama.model_file import load_error
from speclsp.engine.llama.placement import device_array, placement_array, tensor_split_array
from speclsp.engine.params import ModelParams
from speclsp.errors import EngineUnavailableError

_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}
_LOAD_MODES = {"auto": -1, "none": 0, "mmap": 1, "mlock": 2, "mmap+mlock": 3, "dio": 4}
_ASSIGNED_LAYER = re.compile(r"layer +\d+ assigned to device ([^,]+)")

LoadProgress = Callable[[float], bool]
"""Takes the share that is loaded, 0 to 1; returns whether to go on."""


class LlamaModel:
    """Owns a ``llama_model``; :meth:`close` frees it, or the garbage collector does."""

    def __init__(
        self,
        pointer: int,
        kept_alive: tuple[Any, ...],
        layers: dict[str, int],
        allocations: tuple[Allocation, ...] = (),
    ) -> None:
        self.pointer = pointer
        self.layers = layers
        """Layers per device name; the output layer counts as one."""
        self.allocations = allocations
        """Where the weights lie."""
        # llama.cpp keeps pointers into the arrays that it was given.
        self._kept_alive = kept_alive
        self._free = weakref.finalize(self, llama.llama_model_free, pointer)

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""
        return int(llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.pointer)))

    @property
    def n_ctx_train(self) -> int:
        """Positions that the model was trained on."""
        return int(llama.llama_model_n_ctx_train(self.pointer))

    @property
    def size(self) -> int:
        """Bytes of all weights."""
        return int(llama.llama_model_size(self.pointer))

    @property
    def is_generative(self) -> bool:
        """Whether the model generates text from left to right by itself."""
        return (
            bool(llama.llama_model_has_decoder(self.pointer))
            and not llama.llama_model_has_encoder(self.pointer)
            and not llama.llama_model_is_diffusion(self.pointer)
        )

    @property
    def is_recurrent(self) -> bool:
        """Whether some layers keep a state instead of all positions."""
        return bool(
            llama.llama_model_is_recurrent(self.pointer)
            or llama.llama_model_is_hybrid(self.pointer)
        )

    @property
    def description(self) -> str:
        """llama.cpp's words for the model, for example ``qwen2 1.5B Q8_0``."""
        buffer = ctypes.create_string_buffer(256)
        llama.llama_model_desc(self.pointer, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    def close(self) -> None:
        """Free the weights; again changes nothing."""
        self._free()


def open_model(
    path: Path, params: ModelParams, n_gpu_layers: int, progress: LoadProgress
) -> LlamaModel:
    """Load the weights with ``n_gpu_layers`` of them on GPUs (-1 for all).

    Raises :class:`~speclsp.errors.ModelLoadError` where llama.cpp refuses or memory is short, and
    :class:`~speclsp.errors.EngineUnavailableError` where ``progress`` said no.
    """
    start_backends()
    native = llama.llama_model_default_params()
    devices = device_array(params.devices)
    placements = placement_array(params.tensor_placements)
    split = tensor_split_array(params.tensor_split)
    stopped = False

    def report(share: float, _user_data: int | None) -> bool:
        nonlocal stopped
        try:
            stopped = not progress(share)
        except Exception:  # noqa: BLE001  # it cannot pass through C; loading matters more
            return True
        return not stopped

    callback = llama.llama_progress_callback(report)
    native.devices = ctypes.cast(devices, ctypes.c_void_p) if devices is not None else None
    native.tensor_buft_overrides = ctypes.cast(placements, ctypes.c_void_p) if placements else None
    if split is not None:
        native.tensor_split = ctypes.cast(split, ctypes.POINTER(ctypes.c_float))
    native.n_gpu_layers = n_gpu_layers
    native.split_mode = _SPLIT_MODES[params.split_mode]
    native.load_mode = _LOAD_MODES[params.load_mode]
    native.main_gpu = params.main_gpu
    native.progress_callback = callback
    with collected_lines() as lines:
        pointer = llama.llama_model_load_from_file(os.fsencode(path), native)
    if not pointer:
        if stopped:
            raise EngineUnavailableError(f"Loading {path} was called off.")
        raise load_error(path, [line for level, line in lines if level == "error"])
    layers: dict[str, int] = {}
    for _, line in lines:
        if found := _ASSIGNED_LAYER.search(line):
            layers[found[1]] = layers.get(found[1], 0) + 1
    allocations = read_allocations(line for _, line in lines)
    return LlamaModel(pointer, (devices, placements, split, callback), layers, allocations)
