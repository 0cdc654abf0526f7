"""``speclsp doctor``: checks the installation, and prints a remedy for each problem."""

from __future__ import annotations

import importlib
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from speclsp.backends.memory import find_memory, nvidia_memory
from speclsp.backends.weights import LlamaLoader
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.cli.window_completer import make_completer
from speclsp.completer.local import LocalCompleter
from speclsp.embedded import is_trial, model_files
from speclsp.errors import SpecLspError
from speclsp.models.choice import named, resolve_models, without_names
from speclsp.models.presets import recommend
from speclsp.printable import printable
from speclsp.prompt.families import REWRITING_REMARK, REWRITING_REMEDY, rewrites_regions
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document
from speclsp.seam.events import LogLine, Problem
from speclsp.settings import Settings
from speclsp.settings_resolution import resolve
from speclsp.storage.locations import cache_dir, make_private_folder, state_dir
from speclsp.window.window import Window

ENGINE_PACKAGE = "llama-cpp-python"
MEBIBYTE = 1024 * 1024
GPU_KINDS = frozenset({"gpu", "igpu"})
GPU_PAGE = "docs/gpu.md"
INSTALL_COMMAND = "python -m speclsp.install_llama_cpp"
NO_GPU_REMEDY = (
    "Check the driver (`nvidia-smi`, `vulkaninfo --summary`, `rocminfo`) and that it is as new as "
    f"the toolkit; {GPU_PAGE} has the usual causes.  `--device none` takes the CPU on purpose."
)
_CUDA_REMEDY = (
    "Tell the loader where the CUDA toolkit's libraries are, for example "
    "`export LD_LIBRARY_PATH=/usr/local/cuda/lib64`."
)
LIBRARY_REMEDIES = {
    "libcuda.so": "Install the NVIDIA driver: `nvidia-smi` must list the GPU.",
    "libcudart": _CUDA_REMEDY,
    "libcublas": _CUDA_REMEDY,
    "libvulkan": "Install the Vulkan loader: `sudo apt install libvulkan1`.",
}
"""The remedy if a library that llama.cpp needs is missing, by a part of its name."""

INOTIFY = Path("/proc/sys/fs/inotify")
ENOUGH_WATCHES = 65536
ENOUGH_INSTANCES = 64

_TRIAL_PREFIX = "def add(a, b):\n    return "
_TRIAL_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; a ``remedy`` makes it a problem."""

    subject: str
    text: str
    remedy: str = ""
    noteworthy: bool = False
    """Whether it works, but not as well as it could."""


def findings(settings: Settings, missing: Finding | None = None) -> Iterator[Finding]:
    """Run all checks.  Those of the models need llama.cpp, and models: ``missing`` says which lack.

    Another model than the named one is not tried in its place.
    """
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    if settings.engine_url:
        yield from completion(settings)
    else:
        engine = list(engine_library(settings))
        yield from engine
        if missing is not None:
            yield missing
        elif not engine[0].remedy:
            yield from models(settings)
    yield writable("cache folder", cache_dir())
    yield writable("state folder", state_dir())
    yield from watch_limits()


def engine_library(settings: Settings) -> Iterator[Finding]:
    """Check that llama.cpp can be used, and which devices it sees."""
    try:
        version = metadata.version(ENGINE_PACKAGE)
        library = importlib.import_module("speclsp.backends.llama.library")
        description = f"{version}, llama.cpp {library.library_version()}"
        devices = library.devices()
    except (ImportError, OSError, RuntimeError, SpecLspError) as error:
        yield Finding(ENGINE_PACKAGE, f"cannot be used: {error}", _engine_remedy(str(error)))
        return
    yield Finding(ENGINE_PACKAGE, description)
    gpus = [device.name for device in devices if device.kind in GPU_KINDS]
    if gpus:
        backends = ", ".join(library.gpu_backends())
        yield Finding("GPU offload", f"this build has {backends}, which finds {', '.join(gpus)}")
    elif library.gpu_backends() and wants_gpu(settings):
        yield Finding("GPU offload", library.why_no_gpu(), NO_GPU_REMEDY)
    else:
        yield Finding(
            "GPU offload", f"{library.why_no_gpu()} ({GPU_PAGE} shows how to get another)"
        )
    for device in devices:
        memory = (
            f", {device.memory_free // MEBIBYTE} of {device.memory_total // MEBIBYTE} MiB free"
            if device.memory_total
            else ""
        )
        yield Finding("device", f"{device.name}: {device.description} ({device.kind}{memory})")


def _engine_remedy(reason: str) -> str:
    for part, remedy in LIBRARY_REMEDIES.items():
        if part in reason:
            return remedy
    return (
        f"Install it: `{INSTALL_COMMAND}` chooses the build for this machine; `pip install "
        "llama-cpp-python` compiles it."
    )


def wants_gpu(settings: Settings) -> bool:
    """Return whether the settings let the target model use the GPU."""
    return settings.device.strip() != "none" and settings.n_gpu_layers != 0


def models(settings: Settings) -> Iterator[Finding]:
    """Check the target model's file, and run one completion."""
    try:
        files = model_files(settings)
        tokenizer = LlamaLoader(lambda _level, _line: None).tokenizer(settings)
    except SpecLspError as error:
        yield Finding("model", error.message, error.remedy or "Name another model with --model.")
        return
    tokens = f"{files.target}: fill-in-the-middle tokens of {tokenizer.family.name}"
    if rewrites_regions(files.target.name):
        yield Finding("model", f"{tokens}, but {REWRITING_REMARK}.", REWRITING_REMEDY)
    else:
        yield Finding("model", tokens)
    yield from completion(settings)


def completion(settings: Settings) -> Iterator[Finding]:
    """Load the models as the server does, or connect to the remote engine; complete once."""
    completer = make_completer(settings) if settings.engine_listens else LocalCompleter(settings)
    window = Window(completer, settings)
    completer.start()
    try:
        trial = _trial(window)
        stats = completer.statistics()
        if stats.engine or (settings.engine_listens and stats.model):
            yield Finding("remote engine", f"{stats.model}, n_ctx {stats.n_ctx}")
        if stats.next_edits:
            yield Finding("next edits", stats.next_edits)
        for lack in stats.lacks:
            yield Finding("remote engine", lack, noteworthy=True)
        while not settings.engine_url and (event := completer.next_event(0.0)) is not None:
            if isinstance(event, LogLine) and event.level in {"info", "warning"}:
                yield Finding("loading", event.message, noteworthy=event.level == "warning")
            elif isinstance(event, Problem) and event.message != trial.text:
                yield Finding("model", event.message, event.remedy or "See the message.")
        yield trial
        if not settings.engine_url:
            yield from gpu_use(settings, stats.layers)
    finally:
        window.close()


def _trial(window: Window) -> Finding:
    document = Document(
        uri="doctor:",
        path="doctor.py",
        repo_name="doctor",
        language_id="python",
        text=_TRIAL_PREFIX + "\n",
    )
    window.open_document(document)
    request = CompletionRequest(
        uri=document.uri,
        version=document.version,
        offset=len(_TRIAL_PREFIX),
        origin="program",
        wait_for_model=True,
        settings={"n_predict": _TRIAL_TOKENS, "deadline_ms": 10 * 60 * 1000},
    )
    try:
        result = window.ask(request, CancellationToken()).result()
    except SpecLspError as error:
        return Finding("completion", error.message, error.remedy or "See the log of the server.")
    stats = window.statistics()
    if stats.engine:
        first_ms, all_ms = result.stats.ms_prompt, result.stats.ms_prompt + result.stats.ms_predict
        words = f"{result.stats.n_predicted} tokens in {all_ms:.0f} ms"
        return Finding("completion", f"{words}, the first in {first_ms:.0f} ms")
    layers = ", ".join(f"{n} layers on {device}" for device, n in stats.layers.items())
    draft = f", draft model {stats.draft_model}" if stats.draft_model else ""
    return Finding(
        "completion",
        f"{result.stats.n_predicted} tokens in {result.stats.ms_predict:.0f} ms; "
        f"{stats.model}{draft}, context {stats.n_ctx}, {layers or 'layers unknown'}",
    )


def gpu_use(settings: Settings, layers: Mapping[str, int]) -> Iterator[Finding]:
    """Check that a GPU, if there is one, holds some of the layers."""
    if not layers or not wants_gpu(settings) or not layers.keys() <= {"CPU"}:
        return
    library = importlib.import_module("speclsp.backends.llama.library")
    gpus = [device.name for device in library.devices() if device.kind in GPU_KINDS]
    if gpus:
        yield Finding(
            "GPU use",
            f"no layer of the model is on {' or '.join(gpus)}",
            "Free memory of the GPU, take a smaller model or quantisation, or lower ctx_size; "
            f"the lines above show what was tried, and {GPU_PAGE} has the remedies.",
        )


def writable(subject: str, folder: Path) -> Finding:
    """Check that a folder of speclsp is writable."""
    remedy = f"Make {folder} writable, or set `persist` to false so that nothing is kept."
    try:
        make_private_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Finding(subject, f"{folder}: {error.strerror or error}", remedy)
    return Finding(subject, str(folder))


def watch_limits() -> Iterator[Finding]:
    """Check the system's limits on watching folders, if it has them."""
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


def named_models(settings: Settings) -> tuple[Finding | None, Settings]:
    """Return the problem of a model that is not there, and settings that name files only."""
    try:
        return None, resolve_models(settings)
    except SpecLspError as error:
        remedy = error.remedy or "Name another model."
        return Finding("model", error.message, remedy), without_names(settings)


def next_step(settings: Settings) -> str:
    """Return what to do where nothing is wrong."""
    if settings.engine_url:
        return "open a file in your editor; all is well."
    memory = find_memory()
    if memory.kind == "CPU" and wants_gpu(settings) and (gpu := nvidia_memory()) is not None:
        return f"install llama.cpp for the {gpu.name}: `{INSTALL_COMMAND}`."
    if not is_trial(settings):
        return "open a file in your editor; all is well."
    choice = named(recommend(memory))
    if choice.is_downloaded:
        return f"set `model` to {choice.name}: the trial model is in use."
    size = f"{(choice.size_bytes or 0) / 1e9:.1f} GB"
    return f"choose a real model: `speclsp models pull {choice.name}` ({choice.title}, {size})."


def print_findings(found: Iterable[Finding]) -> list[Finding]:
    """Print findings as they come, each with its remedy, and return the problems."""
    problems: list[Finding] = []
    for finding in found:
        if finding.remedy:
            problems.append(finding)
            mark = click.style("problem", fg="red")
        elif finding.noteworthy:
            mark = click.style("note   ", fg="yellow")
        else:
            mark = click.style("ok     ", fg="green")
        text = printable(finding.text, keep="\t\n")
        click.echo(f"{mark}  {finding.subject}: {text}")
        if finding.remedy:
            click.echo(f"         {finding.remedy}")
    return problems


@click.command(cls=SettingsCommand)
def doctor(**options: Any) -> None:
    """Check the installation, with the given settings.

    Every line begins with ok, note or problem; the exit code is 1 if there is a problem.
    The last line is the one next step.
    """
    given = resolve([given_options(options)]).settings
    missing, resolved = named_models(given)
    problems = print_findings(findings(resolved, missing))
    click.echo(f"Next: {problems[0].remedy if problems else next_step(resolved)}")
    sys.exit(1 if problems else 0)
