"""Check what an installation needs before it starts, and say the remedy of what is missing.

    python3 tools/check_machine.py [--no-compiler]

The environment variable CMAKE_ARGS says which GPU llama.cpp is compiled for.

Runs on any Python 3, which is why it is written the old way.
"""

import os
import re
import shutil
import sys
from pathlib import Path

NEEDED_PYTHON = (3, 11)
PREBUILT = "Or take a prebuilt wheel of llama-cpp-python: see Installation in README.md."
GPU_TOOLS = (
    # flag, program, the variables that may name it, where else it often is, how to get it
    (
        "GGML_CUDA",
        "nvcc",
        ("CUDACXX",),
        "/usr/local/cuda/bin",
        "Install the CUDA toolkit (developer.nvidia.com/cuda-downloads).",
    ),
    ("GGML_HIP", "hipconfig", (), "/opt/rocm/bin", "Install ROCm's development packages."),
    (
        "GGML_VULKAN",
        "glslc",
        (),
        "",
        "On Debian and Ubuntu: sudo apt install glslc libvulkan-dev spirv-headers",
    ),
    ("GGML_SYCL", "icpx", (), "", "Install oneAPI, and run: source /opt/intel/oneapi/setvars.sh"),
)


def python_problem():
    """Return what is wrong with this Python, or an empty string."""
    if sys.version_info < NEEDED_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        wanted = ".".join(map(str, NEEDED_PYTHON))
        return (
            "python3 is version %s, but %s or newer is needed.\n"
            "  Install one and name it: make PYTHON=python%s" % (found, wanted, wanted)
        )
    try:
        import ensurepip  # noqa: F401, PLC0415  # its absence is what is asked
        import venv  # noqa: F401, PLC0415
    except ImportError:
        return (
            "this Python cannot make virtual environments.\n"
            "  On Debian and Ubuntu: sudo apt install python3-venv"
        )
    return ""


def compiler_problem():
    """Return which compilers are missing and how to get them, or an empty string."""
    missing = []
    for variable, usual in (("CC", ("cc", "gcc", "clang")), ("CXX", ("c++", "g++", "clang++"))):
        wanted = os.environ.get(variable, "").split()
        names = (wanted[0],) if wanted else usual
        if not any(shutil.which(name) for name in names):
            missing.append("%s (%s)" % (variable, ", ".join(names)))
    if not missing:
        return ""
    return (
        "no C/C++ compiler was found: %s.\n"
        "  llama-cpp-python compiles llama.cpp when it is installed.\n"
        "  On Debian and Ubuntu: sudo apt install build-essential\n"
        "  On Fedora: sudo dnf install gcc gcc-c++ make\n"
        "  On macOS: xcode-select --install\n"
        "  %s" % ("; ".join(missing), PREBUILT)
    )


def gpu_problem():
    """Return which tool the GPU that CMAKE_ARGS names lacks, or an empty string."""
    arguments = os.environ.get("CMAKE_ARGS", "")
    for flag, program, variables, folder, how_to_get_it in GPU_TOOLS:
        if not re.search(r"-D\s*%s(:\w+)?=(on|1|true|yes)\b" % flag, arguments, re.IGNORECASE):
            continue
        named = any(os.environ.get(variable) for variable in variables)
        if named or "CMAKE_CUDA_COMPILER" in arguments or shutil.which(program):
            continue
        is_there = folder and (Path(folder) / program).exists()
        return "%s needs %s, which was not found.\n  %s\n  See docs/gpu.md." % (
            flag,
            program,
            "It is in %s: export PATH=%s:$PATH" % (folder, folder) if is_there else how_to_get_it,
        )
    return ""


def main():
    """Print every problem; return 1 where there is one."""
    problems = [python_problem()]
    if "--no-compiler" not in sys.argv[1:]:
        problems += [compiler_problem(), gpu_problem()]
    problems = [problem for problem in problems if problem]
    for problem in problems:
        sys.stderr.write("Problem: %s\n" % problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
