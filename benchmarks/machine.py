"""What a benchmark runs on: the machine, and models."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Final

from speclsp import __version__
from speclsp.backends.llama.library import devices
from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.backends.weights import LlamaLoader, Tokenizer, Weights, cost_true_remark
from speclsp.cores import physical_cpu_count
from speclsp.embedded import model_files
from speclsp.seam.events import LogLevel
from speclsp.settings import Settings

CPU_DEVICE: Final = "CPU"
_GIBIBYTE: Final = 2**30
_LONGEST_S: Final = 10.0
_DEVICES: Final = "Available devices:"


def machine_lines(
    layers: Mapping[str, int], n_threads: int, llama_server: Path | None
) -> list[tuple[str, str]]:
    """Return a description of the machine, as names and values.

    ``layers`` are the target model's per device.
    """
    found = [
        ("CPU", _cpu_model()),
        ("cores", f"{physical_cpu_count()} physical, {n_threads} threads used"),
        ("memory", _memory()),
        ("model's layers", ", ".join(f"{n} on {name}" for name, n in layers.items()) or "untold"),
        *_gpu_lines(layers),
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("speclsp", __version__),
        ("llama-cpp-python", _version("llama-cpp-python")),
    ]
    if llama_server is not None:
        found.append(("llama-server", _server_version(llama_server)))
        if offloads(layers):
            names = server_devices(llama_server)
            said = "untold" if names is None else ", ".join(names) or "none"
            found.append(("llama-server's devices", said))
    return found


def has_gpu() -> bool:
    """Whether our own llama.cpp can offload layers here."""
    return any(device.kind in ("gpu", "igpu") for device in devices())


@functools.cache
def server_devices(binary: Path) -> tuple[str, ...] | None:
    """Return the devices beside the CPU that a llama-server can use; None if it does not list them.

    The answer is cached.
    """
    lines = _output_lines([str(binary), "--list-devices"])
    if _DEVICES not in lines:
        return None
    found = (line.partition("(")[0].strip() for line in lines[lines.index(_DEVICES) + 1 :])
    return tuple(name for name in found if name)


def offloads(layers: Mapping[str, int]) -> bool:
    """Whether a model has layers on anything but the CPU."""
    return any(n > 0 for name, n in layers.items() if name != CPU_DEVICE)


def _gpu_lines(layers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Describe the GPUs that hold layers, and NVIDIA's driver where it is the one."""
    if not offloads(layers):
        return
    found = devices()
    # With split_mode tensor llama.cpp makes one device of all.
    together = not any(layers.get(device.name) for device in found if device.kind != "cpu")
    for device in found:
        if device.kind != "cpu" and (layers.get(device.name) or together):
            memory = f", {device.memory_total / _GIBIBYTE:.0f} GiB" if device.memory_total else ""
            yield (device.name, f"{device.description}{memory}")
    if nvidia_smi := shutil.which("nvidia-smi"):
        asked = [nvidia_smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        yield ("NVIDIA driver", next(iter(_output_lines(asked)), "untold"))


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _memory() -> str:
    try:
        n_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return "untold"
    return f"{n_bytes / _GIBIBYTE:.0f} GiB"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _server_version(binary: Path) -> str:
    lines = _output_lines([str(binary), "--version"])
    said = next((line for line in lines if line.startswith("version")), "")
    return said.partition(":")[2].strip() or "untold"


def _output_lines(command: Sequence[str]) -> list[str]:
    """Return a program's output, standard error first; nothing if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own programs
            command, capture_output=True, check=False, text=True, timeout=_LONGEST_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return (done.stderr + done.stdout).splitlines()


def remarks(settings: Settings) -> list[str]:
    """Return a line for each of the settings' models that was made by ``benchmarks make-model``.

    Raises :class:`~speclsp.errors.ModelError` where a model file cannot be read.
    """
    files = model_files(settings)
    paths = [files.target]
    if files.draft is not None and settings.speculation:
        paths.append(files.draft)
    said = ((path, cost_true_remark(read_gguf_header(path).metadata)) for path in paths)
    return [f"{path.name} is {remark}" for path, remark in said if remark]


def loaded_tokenizer(settings: Settings) -> Tokenizer:
    """Load what the settings' model knows of tokens, without its weights."""
    return LlamaLoader(_silent).tokenizer(settings)


@contextmanager
def loaded_models(settings: Settings) -> Iterator[tuple[Tokenizer, Weights]]:
    """Load the settings' models into this process, and free them in the end.

    Raises :class:`~speclsp.errors.SpecLspError` where a model cannot be used.
    """
    loader = LlamaLoader(_silent)
    tokenizer = loader.tokenizer(settings)
    weights = loader.weights(settings, tokenizer, lambda _share: True, _silent)
    try:
        yield tokenizer, weights
    finally:
        weights.close()


def _silent(_level: LogLevel, _line: str) -> None:
    """Log nothing."""
