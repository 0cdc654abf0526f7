"""The script that builds llama-server, with a CMake that compiles nothing."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "peers" / "build_llama_server.sh"

CMAKE = """#!/bin/sh
echo "$*" >>"$CALLS"
[ -z "$CMAKE_FAILS" ] || { echo "no such architecture"; exit 1; }
case $1 in
--build)
    mkdir -p "$2/bin" && echo '#!/bin/sh' >"$2/bin/llama-server"
    chmod +x "$2/bin/llama-server" ;;
esac
"""


class Machine:
    """A folder to build in, a source distribution, and a CMake that writes down its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        programs = folder / "programs"
        programs.mkdir()
        (programs / "cmake").write_text(CMAKE)
        (programs / "cmake").chmod(0o755)
        sources = folder / "llama_cpp_python-9.9.9" / "vendor" / "llama.cpp"
        sources.mkdir(parents=True)
        (sources / "CMakeLists.txt").write_text("project(llama.cpp)\n")
        self.tarball = folder / "llama_cpp_python-9.9.9.tar.gz"
        with tarfile.open(self.tarball, "w:gz") as archive:
            archive.add(sources.parents[1], arcname="llama_cpp_python-9.9.9")
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "SPECLSP_PEERS": str(folder / "peers"),
            "CALLS": str(self.calls),
            "CMAKE_ARGS": "",
            "CMAKE_FAILS": "",
            "JOBS": "2",
        }

    def build(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(SCRIPT), *argv],
            capture_output=True,
            text=True,
            env={**self.environment, **environment},
            timeout=600,
            check=False,
        )

    def n_calls(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_programs_path_is_all_that_is_printed(machine):
    outcome = machine.build(str(machine.tarball), CMAKE_ARGS="-DGGML_BLAS=on -DGGML_LTO=on")
    assert outcome.returncode == 0, outcome.stderr
    server = machine.folder / "peers" / "build" / "bin" / "llama-server"
    assert outcome.stdout == f"{server}\n"
    configuring, building = machine.calls.read_text().splitlines()
    assert configuring.endswith("-DGGML_BLAS=on -DGGML_LTO=on")
    assert "-DBUILD_SHARED_LIBS=OFF" in configuring
    assert building.endswith("--target llama-server --parallel 2")


def test_what_is_built_is_not_built_again_until_something_changes(machine):
    first = machine.build(str(machine.tarball))
    again = machine.build(str(machine.tarball))
    assert (again.returncode, again.stdout, machine.n_calls()) == (0, first.stdout, 2)
    assert machine.build(str(machine.tarball), CMAKE_ARGS="-DGGML_BLAS=on").returncode == 0
    assert machine.n_calls() == 4


def test_other_arguments_begin_anew_and_what_was_interrupted_goes_on(machine):
    build = machine.folder / "peers" / "build"
    cache = build / "CMakeCache.txt"
    assert machine.build(str(machine.tarball), CMAKE_ARGS="-DGGML_BLAS=on").returncode == 0
    cache.write_text("GGML_BLAS=on")
    (build / "bin" / "llama-server").unlink()
    assert machine.build(str(machine.tarball), CMAKE_ARGS="-DGGML_BLAS=on").returncode == 0
    assert cache.exists()
    assert machine.build(str(machine.tarball)).returncode == 0
    assert not cache.exists()


def test_a_build_that_fails_says_why_and_is_tried_again(machine):
    outcome = machine.build(str(machine.tarball), CMAKE_FAILS="1")
    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert "no such architecture" in outcome.stderr
    assert "The whole log is" in outcome.stderr
    assert machine.build(str(machine.tarball)).returncode == 0


def test_a_missing_cmake_is_told_with_its_remedy(machine):
    programs = machine.folder / "fewer"
    programs.mkdir()
    for name in ("bash", "sed", "dirname", "basename", "cat", "tar"):
        (programs / name).symlink_to(str(shutil.which(name)))
    outcome = machine.build(str(machine.tarball), PATH=str(programs))
    assert outcome.returncode == 2
    assert "cmake is missing" in outcome.stderr
    assert "pip install cmake" in outcome.stderr


def test_a_missing_compiler_is_told(machine):
    outcome = machine.build(str(machine.tarball), CXX="no-such-compiler-xyz")
    assert outcome.returncode == 2
    assert "no-such-compiler-xyz" in outcome.stderr


def test_a_tarball_without_llama_cpp_is_told(machine):
    other = machine.folder / "other.tar.gz"
    with tarfile.open(other, "w:gz") as archive:
        archive.add(machine.tarball, arcname="other-1/other")
    outcome = machine.build(str(other))
    assert outcome.returncode == 1
    assert "has no vendor/llama.cpp" in outcome.stderr


def test_sources_that_cannot_be_fetched_are_told(machine):
    outcome = machine.build(
        PIP_INDEX_URL="http://127.0.0.1:9/", PIP_RETRIES="0", PIP_CONFIG_FILE=""
    )
    assert outcome.returncode == 69
    assert "cannot be fetched" in outcome.stderr
    assert machine.n_calls() == 0
