"""Loads a model's weights onto the chosen devices."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from llama_cpp import llama_cpp as llama

from speclsp.backends.llama.library import (
    DeviceInfo,
    buffer_types,
    collected_lines,
    devices,
    start_backends,
    why_no_gpu,
)
from speclsp.backends.llama.model_file import load_error
from speclsp.backends.params import device_names, tensor_placements, tensor_split
from speclsp.errors import EngineUnavailableError, ModelLoadError
from speclsp.settings import Settings

_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}
_LOAD_MODES = {"auto": -1, "none": 0, "mmap": 1, "mlock": 2, "mmap+mlock": 3, "dio": 4}
_ASSIGNED_LAYER = re.compile(r"layer +\d+ assigned to device ([^,]+)")

LoadProgress = Callable[[float], bool]
"""Takes the loaded share, 0 to 1; returns whether to continue."""


class _TensorPlacement(ctypes.Structure):
    """``llama_model_tensor_buft_override``, which llama_cpp does not declare."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p))


class LlamaModel:
    """Owns a ``llama_model``, freed by :meth:`close` or by the garbage collector."""

    def __init__(self, pointer: int, log_lines: Sequence[str], kept_alive: tuple[Any, ...]) -> None:
        self.pointer = pointer
        self.log_lines = tuple(log_lines)
        """What llama.cpp logged while it loaded the model."""
        self.layers: dict[str, int] = {}
        """Layers per device name; the output layer counts as one."""
        for line in log_lines:
            if found := _ASSIGNED_LAYER.search(line):
                self.layers[found[1]] = self.layers.get(found[1], 0) + 1
        # llama.cpp keeps pointers into these arrays.
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
        """Whether the model is a decoder-only model, which generates text from left to right."""
        return (
            bool(llama.llama_model_has_decoder(self.pointer))
            and not llama.llama_model_has_encoder(self.pointer)
            and not llama.llama_model_is_diffusion(self.pointer)
        )

    @cached_property
    def is_recurrent(self) -> bool:
        """Whether some layers keep one state instead of every position."""
        return bool(
            llama.llama_model_is_recurrent(self.pointer)
            or llama.llama_model_is_hybrid(self.pointer)
        )

    @cached_property
    def fim_middle(self) -> int:
        """The token before the middle of a fill-in-the-middle prompt; -1 for none."""
        return int(llama.llama_vocab_fim_mid(llama.llama_model_get_vocab(self.pointer)))

    @property
    def description(self) -> str:
        """llama.cpp's description of the model, for example ``qwen2 1.5B Q8_0``.

        Without the size where llama.cpp does not know it, which it writes as ``?B``.
        """
        buffer = ctypes.create_string_buffer(256)
        llama.llama_model_desc(self.pointer, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace").replace(" ?B", "")

    def close(self) -> None:
        """Free the weights; further calls do nothing."""
        self._free()


def open_model(
    path: Path, settings: Settings, n_gpu_layers: int, progress: LoadProgress
) -> LlamaModel:
    """Load the weights with ``n_gpu_layers`` layers on GPUs (-1 for all).

    Raises :class:`~speclsp.errors.ModelLoadError` if llama.cpp refuses or memory is short, and
    :class:`~speclsp.errors.EngineUnavailableError` if ``progress`` returned false.
    """
    start_backends()
    native = llama.llama_model_default_params()
    named_devices = _device_array(device_names(settings))
    placements = _placement_array(tensor_placements(settings))
    split = _tensor_split_array(tensor_split(settings))
    stopped = False

    def report(share: float, _user_data: int | None) -> bool:
        nonlocal stopped
        try:
            stopped = not progress(share)
        except Exception:  # noqa: BLE001  # it cannot pass through C; loading matters more
            return True
        return not stopped

    callback = llama.llama_progress_callback(report)
    if named_devices is not None:
        native.devices = ctypes.cast(named_devices, ctypes.c_void_p)
    if placements is not None:
        native.tensor_buft_overrides = ctypes.cast(placements, ctypes.c_void_p)
    if split is not None:
        native.tensor_split = ctypes.cast(split, ctypes.POINTER(ctypes.c_float))
    native.n_gpu_layers = n_gpu_layers
    native.split_mode = _SPLIT_MODES[settings.split_mode]
    native.load_mode = _LOAD_MODES[settings.load_mode]
    native.main_gpu = settings.main_gpu
    # llama.cpp's kernels for Intel's AMX end the process where GCC 12 compiled them, and in some
    # virtual machines (its issue 20824 and pull request 26954).
    native.use_extra_bufts = b"AMX_INT8 = 1" not in llama.llama_print_system_info()
    native.progress_callback = callback
    with collected_lines() as lines:
        pointer = llama.llama_model_load_from_file(os.fsencode(path), native)
    if not pointer:
        if stopped:
            raise EngineUnavailableError(f"Loading {path} was called off.")
        raise load_error(path, [line for level, line in lines if level == "error"])
    kept_alive = (named_devices, placements, split, callback)
    return LlamaModel(pointer, [line for _, line in lines], kept_alive)


def offload_devices(settings: Settings) -> tuple[DeviceInfo, ...]:
    """Return the devices to offload to: the named ones, else all GPUs; one with split_mode none.

    As in llama.cpp, integrated GPUs count only where there is no discrete one.
    Raises :class:`ModelLoadError` for a name or number that does not exist.
    """
    found = _devices_named(device_names(settings))
    if settings.split_mode != "none" or not found:
        return found
    if settings.main_gpu < 0:
        return ()
    if settings.main_gpu >= len(found):
        raise ModelLoadError(
            f"There is no GPU number {settings.main_gpu} to offload to.",
            remedy=f"{_device_list([device.name for device in found])}, counted from 0: "
            "correct main_gpu.",
        )
    return (found[settings.main_gpu],)


def _devices_named(names: tuple[str, ...] | None) -> tuple[DeviceInfo, ...]:
    """Return the devices with these names, ``cuda:0`` for ``CUDA0``; None means all GPUs."""
    available = devices()
    if names is not None:
        usable = {device.name: device for device in available if device.kind != "cpu"}
        known = {name.casefold(): name for name in usable}
        names = tuple(known.get(name.replace(":", "").casefold(), name) for name in names)
        for name in names:
            if name not in usable:
                raise ModelLoadError(
                    f"There is no device named {name!r} to offload to.",
                    remedy=f"{_device_list(tuple(usable))}; `none` takes the CPU alone.",
                )
        return tuple(usable[name] for name in names)
    gpus = tuple(device for device in available if device.kind == "gpu")
    return gpus or tuple(device for device in available if device.kind == "igpu")


def _device_list(names: Sequence[str]) -> str:
    if not names:
        return f"There is no GPU: {why_no_gpu()}"
    return "There are " + ", ".join(names)


def _device_array(names: tuple[str, ...] | None) -> Any:
    """Return a NULL-terminated array of device handles, or None for llama.cpp's own choice."""
    if names is None:
        return None
    handles = [device.handle for device in _devices_named(names)]
    return (ctypes.c_void_p * (len(handles) + 1))(*handles, None)


def _tensor_split_array(shares: tuple[float, ...]) -> Any:
    """Return an array with a share for each of llama.cpp's device slots, or None."""
    if not shares:
        return None
    n_devices = int(llama.llama_max_devices())
    if len(shares) > n_devices:
        raise ModelLoadError(
            f"tensor_split names {len(shares)} devices, but llama.cpp knows {n_devices} at most."
        )
    return (ctypes.c_float * n_devices)(*shares)


def _placement_array(placements: tuple[tuple[str, str], ...]) -> Any:
    """Return a NULL-terminated array of tensor placements, or None for none.

    Raises :class:`ModelLoadError` for a buffer type that does not exist.
    """
    if not placements:
        return None
    types = buffer_types()
    rows = []
    for pattern, type_name in placements:
        if type_name not in types:
            raise ModelLoadError(
                f"There is no buffer type named {type_name!r} to place {pattern!r} in.",
                remedy=f"There are {', '.join(sorted(types))}.",
            )
        rows.append(_TensorPlacement(pattern.encode(), types[type_name]))
    return (_TensorPlacement * (len(rows) + 1))(*rows, _TensorPlacement(None, None))
