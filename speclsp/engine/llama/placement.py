"""Devices and tensor placement as the arrays that llama.cpp takes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from llama_cpp import llama_cpp as llama

from speclsp.engine.llama.library import DeviceInfo, buffer_types, devices, why_no_gpu
from speclsp.engine.params import ModelParams
from speclsp.errors import ModelLoadError


class _TensorPlacement(ctypes.Structure):
    """``llama_model_tensor_buft_override``, which llama_cpp does not declare."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p))


def offload_devices(params: ModelParams) -> tuple[DeviceInfo, ...]:
    """Return the devices to offload to: those named, or all GPUs; one with ``split_mode`` none.

    As in llama.cpp, integrated GPUs count only where there is no other.
    Raises :class:`ModelLoadError` for a name or a number that is not there.
    """
    found = _devices_of(params.devices)
    if params.split_mode != "none" or not found:
        return found
    if params.main_gpu < 0:
        return ()
    if params.main_gpu >= len(found):
        raise ModelLoadError(
            f"There is no GPU number {params.main_gpu} to offload to.",
            remedy=f"{_device_list([device.name for device in found])}, counted from 0: "
            "correct main_gpu.",
        )
    return (found[params.main_gpu],)


def _devices_of(names: tuple[str, ...] | None) -> tuple[DeviceInfo, ...]:
    there = devices()
    if names is not None:
        usable = {device.name: device for device in there if device.kind != "cpu"}
        for name in names:
            if name not in usable:
                raise ModelLoadError(
                    f"There is no device named {name!r} to offload to.",
                    remedy=f"{_device_list(tuple(usable))}; `none` takes the CPU alone.",
                )
        return tuple(usable[name] for name in names)
    gpus = tuple(device for device in there if device.kind == "gpu")
    return gpus or tuple(device for device in there if device.kind == "igpu")


def _device_list(names: Sequence[str]) -> str:
    if not names:
        return f"There is no GPU: {why_no_gpu()}"
    return "There are " + ", ".join(names)


def device_array(names: tuple[str, ...] | None) -> Any:
    """Return a NULL-terminated array of device handles, or None for llama.cpp's own choice."""
    if names is None:
        return None
    handles = [device.handle for device in _devices_of(names)]
    return (ctypes.c_void_p * (len(handles) + 1))(*handles, None)


def tensor_split_array(shares: tuple[float, ...]) -> Any:
    """Return an array with a share for each device that llama.cpp may know, or None."""
    if not shares:
        return None
    n_devices = int(llama.llama_max_devices())
    if len(shares) > n_devices:
        raise ModelLoadError(
            f"tensor_split names {len(shares)} devices, but llama.cpp knows {n_devices} at most."
        )
    return (ctypes.c_float * n_devices)(*shares)


def placement_array(placements: tuple[tuple[str, str], ...]) -> Any:
    """Return a NULL-terminated array of tensor placements, or None for none.

    Raises :class:`ModelLoadError` for a buffer type that is not there.
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
