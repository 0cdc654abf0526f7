"""Starts the llama.cpp library of this process, routes its log and lists its devices.

llama.cpp keeps one log callback and one list of backends per process, and so does this module.
Importing it redirects the log away from stderr before llama.cpp writes anything.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from llama_cpp import llama_cpp as llama
from llama_cpp._ctypes_extensions import load_shared_library

from speclsp.seam.events import LogLevel

LogSink = Callable[[LogLevel, str], None]
DeviceKind = Literal["cpu", "gpu", "igpu", "accel"]

_LEVELS: dict[int, LogLevel] = {1: "debug", 2: "info", 3: "warning", 4: "error"}
_LEVEL_CONTINUED = 5


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device that ggml can compute on; memory in bytes, 0 if the backend does not know."""

    name: str
    description: str
    kind: DeviceKind
    memory_free: int
    memory_total: int
    handle: int = field(repr=False, compare=False)
    """``ggml_backend_dev_t``; only backends/llama uses it."""


class _ThreadLog(threading.local):
    """The state of one thread's log lines."""

    def __init__(self) -> None:
        self.level: LogLevel = "info"
        self.partial = ""
        self.collectors: list[list[tuple[LogLevel, str]]] = []


class _Log:
    """Splits llama.cpp's log into lines.  A line may arrive in pieces, and from any thread."""

    def __init__(self) -> None:
        self.sink: LogSink | None = None
        self.of_thread = _ThreadLog()

    def receive(self, raw_level: int, raw_text: bytes | None) -> None:
        own = self.of_thread
        if raw_level != _LEVEL_CONTINUED:
            own.level = _LEVELS.get(raw_level, "info")
        *lines, own.partial = (own.partial + (raw_text or b"").decode("utf-8", "replace")).split(
            "\n"
        )
        for line in lines:
            if line.strip(" ."):
                self._emit(own.level, line.rstrip())

    def _emit(self, level: LogLevel, line: str) -> None:
        for collected in self.of_thread.collectors:
            collected.append((level, line))
        sink = self.sink
        if sink is not None:
            sink(level, line)


_log = _Log()


@llama.llama_log_callback  # type: ignore[untyped-decorator]  # a ctypes function type
def _log_callback(level: int, text: bytes | None, _user_data: int | None) -> None:
    try:
        _log.receive(level, text)
    except Exception:  # noqa: BLE001  # ctypes would print it to stderr
        return


def c_library() -> Any:
    """Return this process's C library."""
    return ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)


def _silence() -> None:
    # A callback into Python would crash once the interpreter has ended.  abs() is a C function
    # that ignores all but its first argument and has no effect, so it serves as a log callback.
    nothing = ctypes.cast(c_library().abs, llama.llama_log_callback)
    llama.llama_log_set(nothing, None)


llama.llama_log_set(_log_callback, None)
atexit.register(_silence)


def route_log(sink: LogSink | None) -> None:
    """Send llama.cpp's log, line by line, to ``sink``; None drops it.

    ``sink`` gets llama.cpp's own level and may be called from any thread, during any call into
    llama.cpp.
    """
    _log.sink = sink


@contextmanager
def collected_lines() -> Iterator[list[tuple[LogLevel, str]]]:
    """Collect the lines that llama.cpp logs on this thread; the sink receives them too."""
    collectors = _log.of_thread.collectors
    collectors.append([])
    try:
        yield collectors[-1]
    finally:
        collectors.pop()


@functools.cache
def start_backends() -> tuple[str, ...]:
    """Initialise llama.cpp and its backends once per process; return what they logged."""
    with collected_lines() as lines:
        llama.llama_backend_init()
        functions = _ggml_functions()
        if functions.backend_reg_count() == 0:
            # Builds with loadable backends keep them beside the library.
            functions.backend_load_all_from_path(str(llama._base_path).encode())  # noqa: SLF001  # the one place that knows it
    return tuple(line for level, line in lines if level != "debug")


@functools.cache
def ggml() -> Any:
    """Start llama.cpp's backends and return libggml's device functions, named without ``ggml_``."""
    start_backends()
    return _ggml_functions()


_HANDLE = ctypes.c_void_p
_SIZE_POINTER = ctypes.POINTER(ctypes.c_size_t)
_PROTOTYPES: dict[str, tuple[list[Any], Any]] = {
    "backend_reg_count": ([], ctypes.c_size_t),
    "backend_reg_get": ([ctypes.c_size_t], _HANDLE),
    "backend_reg_name": ([_HANDLE], ctypes.c_char_p),
    "backend_load_all_from_path": ([ctypes.c_char_p], None),
    "backend_dev_count": ([], ctypes.c_size_t),
    "backend_dev_get": ([ctypes.c_size_t], _HANDLE),
    "backend_dev_name": ([_HANDLE], ctypes.c_char_p),
    "backend_dev_description": ([_HANDLE], ctypes.c_char_p),
    "backend_dev_type": ([_HANDLE], ctypes.c_int),
    "backend_dev_memory": ([_HANDLE, _SIZE_POINTER, _SIZE_POINTER], None),
    "backend_dev_buffer_type": ([_HANDLE], _HANDLE),
    "backend_buft_name": ([_HANDLE], ctypes.c_char_p),
}
"""Functions that llama_cpp does not declare: argument types and result type."""


@functools.cache
def _ggml_functions() -> Any:
    """Raises OSError if a library cannot be loaded, StopIteration where a function is absent."""
    base_path = llama._base_path  # noqa: SLF001  # honours LLAMA_CPP_LIB_PATH as llama_cpp does
    libraries = [load_shared_library(name, base_path) for name in ("ggml", "ggml-base")]
    functions = SimpleNamespace()
    for name, (argument_types, result_type) in _PROTOTYPES.items():
        owner = next(library for library in libraries if hasattr(library, f"ggml_{name}"))
        function = owner[f"ggml_{name}"]  # by item: a function object of our own
        function.argtypes, function.restype = argument_types, result_type
        setattr(functions, name, function)
    return functions


_WITHOUT_GPU = frozenset({"CPU", "BLAS", "ZenDNN", "zDNN", "RPC"})
"""llama.cpp's backends that use no local GPU."""
_KINDS: dict[int, DeviceKind] = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel"}


def devices() -> tuple[DeviceInfo, ...]:
    """Return this build's devices on this machine, with their free memory."""
    functions = ggml()
    found = []
    for device_idx in range(functions.backend_dev_count()):
        handle = functions.backend_dev_get(device_idx)
        kind = _KINDS.get(functions.backend_dev_type(handle))
        if kind is None:
            continue  # a device that combines others
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        functions.backend_dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
        found.append(
            DeviceInfo(
                name=functions.backend_dev_name(handle).decode(),
                description=functions.backend_dev_description(handle).decode("utf-8", "replace"),
                kind=kind,
                memory_free=free.value,
                memory_total=total.value,
                handle=handle,
            )
        )
    return tuple(found)


def buffer_types() -> dict[str, int]:
    """Return the handles of the devices' buffer types by name, for example ``CPU``, ``CUDA0``."""
    functions = ggml()
    found = {}
    for device in devices():
        buffer_type = functions.backend_dev_buffer_type(device.handle)
        if buffer_type:
            found[functions.backend_buft_name(buffer_type).decode()] = buffer_type
    return found


def gpu_backends() -> tuple[str, ...]:
    """Return the names of this build's GPU backends, whether or not they find a GPU."""
    functions = ggml()
    handles = map(functions.backend_reg_get, range(functions.backend_reg_count()))
    names = [functions.backend_reg_name(handle).decode() for handle in handles]
    return tuple(name for name in names if name not in _WITHOUT_GPU)


def why_no_gpu() -> str:
    """Return why there is no device to offload to: the build, or what its backends logged."""
    backends = gpu_backends()
    if not backends:
        return "this build of llama.cpp is for the CPU only"
    logged = "; ".join(dict.fromkeys(line.rstrip(".") for line in start_backends()))
    return f"this build of llama.cpp has {', '.join(backends)}, which finds no GPU here" + (
        f" ({logged})" if logged else ""
    )


def library_version() -> str:
    """Return llama.cpp's version as it names itself."""
    return str(llama.llama_version().decode("utf-8", "replace"))
