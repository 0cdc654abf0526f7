"""Check what an installation needs before it starts, and say the remedy of what is missing.

    python3 tools/check_machine.py [--no-compiler]

Runs on any Python 3, which is why it is written the old way.
"""

import os
import shutil
import sys

NEEDED_PYTHON = (3, 11)
PREBUILT = "Or take a prebuilt wheel of llama-cpp-python: see Installation in README.md."


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


def main():
    """Print every problem; return 1 where there is one."""
    problems = [python_problem()]
    if "--no-compiler" not in sys.argv[1:]:
        problems.append(compiler_problem())
    problems = [problem for problem in problems if problem]
    for problem in problems:
        sys.stderr.write("Problem: %s\n" % problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
