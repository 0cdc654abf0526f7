"""Installs the build of llama-cpp-python that fits this machine, with the standard library alone.

    python -m speclsp.install_llama_cpp [--python PYTHON] [--dry-run] [--anew] [--index URL]

It tries, in this order: a prebuilt wheel for the GPU that is found (CUDA by the driver's version,
Metal), one for Vulkan, one for the CPU, and compiling.  With CMAKE_ARGS in the environment it
compiles at once.  It runs before anything is installed: from a checkout, or from a wheel of speclsp
on PYTHONPATH, since Python imports from wheels.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NEEDED_PYTHON = (3, 11)
REQUIREMENT = "llama-cpp-python>=0.3.36,<0.4"
WHEELS = "https://abetlen.github.io/llama-cpp-python/whl"
CUDA_INDEXES = ("cu118", "cu121", "cu122", "cu123", "cu124", "cu125", "cu130", "cu132")
"""Kinds of CUDA wheels that llama-cpp-python publishes."""
CUDA_RUNTIME = {
    "11": ("nvidia-cuda-runtime-cu11", "nvidia-cublas-cu11"),
    "12": ("nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12"),
    "13": ("nvidia-cuda-runtime>=13,<14", "nvidia-cublas>=13,<14"),
}
"""NVIDIA's packages with the libraries that CUDA wheels need beside the driver, by CUDA version."""
GPU_TOOLS = (
    # flag, program, the variable that may name it, where else it often is, how to get it
    (
        "GGML_CUDA",
        "nvcc",
        "CUDACXX",
        "/usr/local/cuda/bin",
        "Install the CUDA toolkit (developer.nvidia.com/cuda-downloads).",
    ),
    ("GGML_HIP", "hipconfig", "", "/opt/rocm/bin", "Install ROCm's development packages."),
    (
        "GGML_VULKAN",
        "glslc",
        "",
        "",
        "On Debian and Ubuntu: sudo apt install glslc libvulkan-dev spirv-headers",
    ),
    ("GGML_SYCL", "icpx", "", "", "Install oneAPI, and run: source /opt/intel/oneapi/setvars.sh"),
)
ROOT = Path(__file__).parents[1]
"""The folder or wheel that holds this package."""
VERIFY = (
    "from speclsp.install_llama_cpp import load_cuda_libraries as load; load(); "
    "import llama_cpp; print(llama_cpp.__version__, llama_cpp.llama_supports_gpu_offload())"
)
OWN_FLAGS = "-DLLAVA_BUILD=off -DCMAKE_PROJECT_llama_cpp_INCLUDE="
"""CMake's flags before the user's, but for the path of the file with ``USED_ALONE``.

llama.cpp's common library, and its models of pictures and sound, are two thirds of what would be
compiled, and nothing in speclsp calls them.
"""
USED_ALONE = 'set(LLAMA_BUILD_COMMON "$CACHE{LLAMA_BUILD_COMMON}")'
"""CMake's line for llama-cpp-python's project, which switches the cached variable of that name on.

A plain variable hides it: with what the user's flags say, or else empty, which is off.
"""
PROBE_TIMEOUT_S = 5
SECONDS_BETWEEN_LINES = 30


@dataclass
class Step:
    """One way to install: what is said, pip's arguments, or the reason why it cannot work.

    ``cmake_args`` are the user's flags, maybe none, where it compiles.
    """

    title: str
    arguments: tuple[str, ...] = ()
    cmake_args: str | None = None
    problem: str = ""

    @property
    def is_prebuilt(self) -> bool:
        """Whether it needs the wheels' host."""
        return any(WHEELS in argument for argument in self.arguments)


def load_cuda_libraries() -> None:
    """Load CUDA's libraries from NVIDIA's pip packages, where these are installed.

    The system's loader does not look into site-packages, and llama.cpp's library needs them.
    """
    for folder in sys.path:
        for name in ("cuda_runtime", "cublas", "cu13"):
            # cublasLt comes first, since cublas needs it.
            found = sorted(Path(folder or ".", "nvidia", name, "lib").glob("libc*.so.*"))
            for library in sorted(found, key=lambda path: "Lt" not in path.name):
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def driver_cuda() -> tuple[int, int] | None:
    """Return the newest CUDA version that the NVIDIA driver serves, such as (12, 4), or None."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        output = subprocess.run(  # noqa: S603  the driver's program
            [program], stdout=subprocess.PIPE, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"CUDA Version: *(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2])) if found else None


def cuda_index(version: tuple[int, int]) -> str | None:
    """Return the kind of wheel for a driver's CUDA version: the newest that it serves, or None."""
    served = [kind for kind in CUDA_INDEXES if (int(kind[2:4]), int(kind[4:])) <= version]
    return served[-1] if served else None


def has_vulkan() -> bool:
    """Return whether there is a Vulkan loader and a GPU's device file."""
    render = Path("/dev/dri")
    is_there = render.is_dir() and any(path.name.startswith("render") for path in render.iterdir())
    return is_there and ctypes.util.find_library("vulkan") is not None


def steps(index: str, lock: str, environment: Mapping[str, str]) -> list[Step]:
    """Return what to try, in order."""
    cmake_args = environment.get("CMAKE_ARGS", "")
    if index:
        return [wheel_step(f"Installing a prebuilt wheel from {index}", index)]
    if cmake_args:
        return [compile_step(cmake_args, lock, environment)]
    found = []
    version = driver_cuda()
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        found.append(wheel_step("Installing a prebuilt wheel for Metal", WHEELS + "/metal"))
    if version is not None:
        kind = cuda_index(version)
        title = "Installing a prebuilt wheel for CUDA ({}.{} is the driver's)".format(*version)
        if kind is None:
            found.append(Step(title, problem="llama-cpp-python has none for so old a driver"))
        else:
            has_runtime = ctypes.util.find_library("cudart") is not None
            more = () if has_runtime else CUDA_RUNTIME[kind[2:4]]
            found.append(wheel_step(title, f"{WHEELS}/{kind}", more))
    if has_vulkan():
        found.append(wheel_step("Installing a prebuilt wheel for Vulkan", WHEELS + "/vulkan"))
    found.append(wheel_step("Installing a prebuilt wheel for the CPU", WHEELS + "/cpu"))
    own = "-DGGML_CUDA=on" if version is not None and shutil.which("nvcc") else ""
    return [*found, compile_step(own, lock, environment)]


def wheel_step(title: str, index: str, more: tuple[str, ...] = ()) -> Step:
    """Return the step that installs a wheel from an index."""
    # Without --only-binary pip compiles as soon as PyPI has a newer version than the index.
    only = ("--only-binary", "llama-cpp-python", "--extra-index-url", index, REQUIREMENT)
    return Step(title, ("--retries", "1", "--timeout", "15", *only, *more))


def compile_step(cmake_args: str, lock: str, environment: Mapping[str, str]) -> Step:
    """Return the step that compiles llama.cpp with ``cmake_args``, which may name a GPU."""
    requirement = ("-r", lock) if lock else (REQUIREMENT,)
    title = "Compiling llama.cpp, which takes minutes unless a build was kept"
    # Not in pip's own cache, where other programs would find a build without what they may use.
    cache: tuple[str, ...] = ("--cache-dir", kept_builds(environment))
    if cmake_args:
        title = f"Compiling llama.cpp with {cmake_args}, which takes minutes"
        cache = ("--no-cache-dir",)  # pip ignores the flags that a kept build was compiled with
    problem = compiler_problem(environment) or toolkit_problem(cmake_args, environment)
    return Step(title, (*cache, *requirement), cmake_args, problem)


def kept_builds(environment: Mapping[str, str]) -> str:
    """Return the folder in which pip keeps the builds that are compiled here."""
    caches = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return str(Path(caches, "speclsp-llama.cpp"))


def python_problem() -> str:
    """Return what is wrong with this Python, or an empty string."""
    if sys.version_info < NEEDED_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        return (
            f"python3 is version {found}, but 3.11 or newer is needed.\n"
            "  Install one and name it: make PYTHON=python3.11"
        )
    try:
        import ensurepip  # noqa: F401, PLC0415  # only whether it exists
        import venv  # noqa: F401, PLC0415
    except ImportError:
        return (
            "this Python cannot make virtual environments.\n"
            "  On Debian and Ubuntu: sudo apt install python3-venv"
        )
    return ""


def compiler_problem(environment: Mapping[str, str]) -> str:
    """Return which compilers are missing and how to get them, or an empty string."""
    missing = []
    for variable, usual in (("CC", ("cc", "gcc", "clang")), ("CXX", ("c++", "g++", "clang++"))):
        wanted = environment.get(variable, "").split()
        names = (wanted[0],) if wanted else usual
        if not any(shutil.which(name) for name in names):
            missing.append(f"{variable} ({', '.join(names)})")
    if not missing:
        return ""
    return (
        f"no C/C++ compiler was found: {'; '.join(missing)}.\n"
        "  On Debian and Ubuntu: sudo apt install build-essential\n"
        "  On Fedora: sudo dnf install gcc gcc-c++ make\n"
        "  On macOS: xcode-select --install\n"
        "  Or take a prebuilt wheel of llama-cpp-python: see docs/install.md."
    )


def toolkit_problem(cmake_args: str, environment: Mapping[str, str]) -> str:
    """Return which tool is missing for the GPU that the flags name, or an empty string."""
    for flag, program, variable, folder, remedy in GPU_TOOLS:
        if not re.search(rf"-D\s*{flag}(:\w+)?=(on|1|true|yes)\b", cmake_args, re.IGNORECASE):
            continue
        is_named = bool(variable and environment.get(variable))
        if is_named or "CMAKE_CUDA_COMPILER" in cmake_args or shutil.which(program):
            continue
        is_there = folder and (Path(folder) / program).exists()
        step = f"It is in {folder}: export PATH={folder}:$PATH" if is_there else remedy
        return f"{flag} needs {program}, which was not found.\n  {step}\n  See docs/gpu.md."
    return ""


def is_reachable(url: str) -> bool:
    """Return whether the host of the prebuilt wheels answers."""
    request = urllib.request.Request(url + "/cpu/", method="HEAD")  # noqa: S310  https, ours
    try:
        with urllib.request.urlopen(request, timeout=PROBE_TIMEOUT_S):  # noqa: S310
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def installed(python: str) -> str:
    """Return the version in an environment and whether it uses GPUs, or an empty string."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    outcome = subprocess.run(  # noqa: S603  the environment's Python
        [python, "-c", VERIFY],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        check=False,
    )
    return outcome.stdout.strip().rpartition("\n")[2] if outcome.returncode == 0 else ""


def say(line: str) -> None:
    """Write a line for the user."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def perform(command: Sequence[str], cmake_args: str | None, *, dry_run: bool) -> int:
    """Run a command and print the time every half minute, or print it; return its exit code.

    With ``cmake_args`` it compiles, with our flags and then these; what is printed is for a shell.
    """
    users = f" {cmake_args}" if cmake_args else ""
    if dry_run:
        prefix = ""
        if cmake_args is not None:
            prefix = f'used=$(mktemp) && echo {shlex.quote(USED_ALONE)} >"$used" && '
            prefix += f"""CMAKE_ARGS="{OWN_FLAGS}'$used'"{users and shlex.quote(users)} """
        sys.stdout.write(prefix + shlex.join(command) + "\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if cmake_args is not None:
            used = Path(folder, "used_alone.cmake")
            used.write_text(USED_ALONE + "\n", encoding="utf-8")
            environment["CMAKE_ARGS"] = OWN_FLAGS + shlex.quote(used.as_posix()) + users
        what = "installing" if cmake_args is None else "compiling"
        started = time.monotonic()
        process = subprocess.Popen(command, env=environment)  # noqa: S603  pip
        while True:
            try:
                return process.wait(SECONDS_BETWEEN_LINES)
            except subprocess.TimeoutExpired:
                minutes, seconds = divmod(int(time.monotonic() - started), 60)
                say(f"  {what} … {minutes}:{seconds:02d}")


def install(python: str, found: Sequence[Step], *, anew: bool, dry_run: bool) -> int:
    """Try the steps until one works, or print their commands; return the exit code."""
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input")
    fresh = ("--no-cache-dir",) if anew else ()
    if anew:
        perform((*pip, "uninstall", "--quiet", "--yes", "llama-cpp-python"), None, dry_run=dry_run)
    offline = not dry_run and any(step.is_prebuilt for step in found) and not is_reachable(WHEELS)
    if offline:
        say(f"The prebuilt wheels ({WHEELS}) cannot be reached.")
    for step in found:
        if offline and step.is_prebuilt:
            continue
        say(f"{step.title}{': ' if step.problem else ''}{step.problem}")
        if step.problem:
            continue
        command = (*pip, "install", "-qq", *step.arguments, *fresh)
        code = perform(command, step.cmake_args, dry_run=dry_run)
        if code == 0 and not dry_run and (what := installed(python)):
            version, gpu = what.split()
            say(f"llama-cpp-python {version} is installed{', for a GPU' if gpu == 'True' else ''}.")
            return 0
    if dry_run:
        return 0
    say("llama-cpp-python could not be installed. docs/install.md has other ways.")
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Install, or print what would be done; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m speclsp.install_llama_cpp")
    parser.add_argument("--python", default=sys.executable, help="the environment's Python")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run none")
    parser.add_argument("--anew", action="store_true", help="reinstall llama-cpp-python")
    parser.add_argument("--index", default="", help="take a prebuilt wheel from this index only")
    parser.add_argument("--lock", default="", help="requirements with hashes, for compiling")
    parser.add_argument("--check", action="store_true", help="check what is needed")
    parser.add_argument("--no-compiler", action="store_true", help="check Python alone")
    options = parser.parse_args(arguments)
    if options.check:
        problems = [python_problem()]
        if not options.no_compiler:
            cmake_args = os.environ.get("CMAKE_ARGS", "")
            problems += [compiler_problem(os.environ), toolkit_problem(cmake_args, os.environ)]
        for problem in filter(None, problems):
            say("Problem: " + problem)
        return 1 if any(problems) else 0
    if not options.dry_run:
        try:
            version = installed(options.python)
        except OSError as error:
            parser.error(f"--python {options.python!r} cannot be run: {error}")
        if version and not options.anew:
            say(f"llama-cpp-python {version.split()[0]} is installed.")
            return 0
    found = steps(options.index, options.lock, os.environ)
    return install(options.python, found, anew=options.anew, dry_run=options.dry_run)


if __name__ == "__main__":
    sys.exit(main())
