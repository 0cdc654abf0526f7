"""The checks of ``speclsp doctor``: what an installation needs, and the remedy of what it lacks."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from speclsp.cancellation import CancellationToken
from speclsp.cli.waiting import complete_when_ready
from speclsp.completer.local import LocalCompleter
from speclsp.engine.models import LlamaLoader, model_files
from speclsp.errors import SpecLspError
from speclsp.index_store.locations import cache_dir, state_dir
from speclsp.request import CompletionRequest, Event, Problem
from speclsp.settings import Settings

NEEDED_PYTHON = (3, 11)
ENGINE_PACKAGE = "llama-cpp-python"
MEBIBYTE = 1024 * 1024

INOTIFY = Path("/proc/sys/fs/inotify")
ENOUGH_WATCHES = 65536
ENOUGH_INSTANCES = 64

_TRIAL_PREFIX = "def add(a, b):\n    return "
_TRIAL_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; a ``remedy`` makes it a problem."""

    subject: str
    text: str
    remedy: str = ""


def findings(settings: Settings) -> Iterator[Finding]:
    """Check one thing after another.  The checks of the engine end at its first problem."""
    yield python()
    yield compiler()
    engine_found = False
    for finding in engine_library():
        engine_found = not finding.remedy
        yield finding
    if engine_found:
        yield from models(settings)
    yield writable("cache folder", cache_dir())
    yield writable("state folder", state_dir())
    yield from watch_limits()


def python() -> Finding:
    """Check the interpreter's version."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < NEEDED_PYTHON:
        wanted = ".".join(map(str, NEEDED_PYTHON))
        return Finding("python", found, f"Install Python {wanted} or newer.")
    return Finding("python", f"{found} ({sys.executable})")


def compiler() -> Finding:
    """Say which compilers there are; they are needed only to compile llama.cpp."""
    usual = {"C": ("CC", "cc", "gcc", "clang"), "C++": ("CXX", "c++", "g++", "clang++")}
    found: list[str] = []
    for language, (variable, *names) in usual.items():
        wanted = os.environ.get(variable, "").split()
        paths = [path for name in wanted[:1] or names if (path := shutil.which(name))]
        found.append(f"{language} {paths[0] if paths else 'none'}")
    return Finding("compiler", f"{', '.join(found)} (needed only to compile llama.cpp)")


def engine_library() -> Iterator[Finding]:
    """Check that llama.cpp can be used, and which devices it sees."""
    try:
        version = metadata.version(ENGINE_PACKAGE)
        library = importlib.import_module("speclsp.engine.llama.library")
        description = f"{version}, llama.cpp {library.library_version()}"
        devices = library.devices()
    except (ImportError, OSError, RuntimeError, SpecLspError) as error:
        yield Finding(
            ENGINE_PACKAGE,
            f"cannot be used: {error}",
            "Install it: `pip install --force-reinstall llama-cpp-python`, or a prebuilt wheel as "
            "the README's section Installation says.",
        )
        return
    yield Finding(ENGINE_PACKAGE, description)
    offload = library.supports_gpu_offload()
    yield Finding(
        "GPU offload",
        "this build offloads to the GPU"
        if offload
        else "this build is for the CPU only (the README says how to install one for the GPU)",
    )
    for device in devices:
        memory = f", {device.memory_total // MEBIBYTE} MiB" if device.memory_total else ""
        yield Finding("device", f"{device.name}: {device.description} ({device.kind}{memory})")


def models(settings: Settings) -> Iterator[Finding]:
    """Load the models as the server does, and complete something."""
    try:
        files = model_files(settings)
        words = LlamaLoader(lambda _level, _line: None).words(settings)
    except SpecLspError as error:
        yield Finding("model", error.message, error.remedy or "Name another model with --model.")
        return
    yield Finding("model", f"{files.target}: fill-in-the-middle tokens of {words.family.name}")
    completer = LocalCompleter(settings)
    completer.start()
    try:
        yield _trial(completer)
        for problem in _problems(completer):
            yield Finding("model", problem.message, problem.remedy or "See the message.")
    finally:
        completer.close()


def _trial(completer: LocalCompleter) -> Finding:
    request = CompletionRequest(
        uri="doctor:",
        path="doctor.py",
        repo_name="doctor",
        prefix=_TRIAL_PREFIX,
        suffix="\n",
        n_predict=_TRIAL_TOKENS,
        deadline_ms=10 * 60 * 1000,
    )
    try:
        result = complete_when_ready(completer, request, CancellationToken())
    except SpecLspError as error:
        return Finding("completion", error.message, error.remedy or "See the log of the server.")
    assert result is not None, "nobody cancels this request"
    stats = completer.statistics()
    layers = ", ".join(f"{n} layers on {device}" for device, n in stats.layers.items())
    draft = f", draft model {stats.draft_model}" if stats.draft_model else ""
    return Finding(
        "completion",
        f"{result.stats.n_predicted} tokens in {result.stats.ms_total:.0f} ms; "
        f"{stats.model}{draft}, context {stats.n_ctx}, {layers or 'layers unknown'}",
    )


def _problems(completer: LocalCompleter) -> list[Problem]:
    found: list[Event] = []
    while (event := completer.next_event(0.0)) is not None:
        found.append(event)
    return [event for event in found if isinstance(event, Problem)]


def writable(subject: str, folder: Path) -> Finding:
    """Check that files can be written where speclsp keeps them."""
    remedy = f"Make {folder} writable, or set `persist` to false so that nothing is kept."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Finding(subject, f"{folder}: {error.strerror}", remedy)
    return Finding(subject, str(folder))


def watch_limits() -> Iterator[Finding]:
    """Check how many folders the system lets us watch, where it has such limits."""
    for name, enough in (
        ("max_user_watches", ENOUGH_WATCHES),
        ("max_user_instances", ENOUGH_INSTANCES),
    ):
        try:
            limit = int((INOTIFY / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        remedy = (
            f"Large projects may not be watched: sudo sysctl fs.inotify.{name}={enough}."
            if limit < enough
            else ""
        )
        yield Finding("file watching", f"fs.inotify.{name} = {limit}", remedy)
