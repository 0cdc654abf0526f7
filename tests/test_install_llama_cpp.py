"""Which build of llama-cpp-python is tried on which machine, as a dry run prints it."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from speclsp import install_llama_cpp as script

SCRIPT = Path(script.__file__)


def program(folder: Path, name: str, output: str = "") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A Linux machine with compilers and nothing else."""
    for name in ("cc", "c++"):
        program(tmp_path, name)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    for name in ("CC", "CXX", "CMAKE_ARGS", "CUDACXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(script.platform, "system", lambda: "Linux")
    monkeypatch.setattr(script, "has_vulkan", lambda: False)
    monkeypatch.setattr(script.ctypes.util, "find_library", lambda _: None)
    monkeypatch.setattr(script, "is_reachable", lambda _: pytest.fail("a dry run asks nobody"))
    return tmp_path


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert script.main(["--dry-run", "--python", "py", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def indexes(lines: list[str]) -> list[str]:
    return [line.rpartition("/whl/")[2].split()[0] if "/whl/" in line else "" for line in lines]


def test_without_a_gpu(machine, capsys):
    lines = dry_run(capsys)
    assert indexes(lines) == ["cpu", ""]
    assert "--only-binary llama-cpp-python" in lines[0]
    assert "--only-binary" not in lines[1]


def test_it_says_what_it_does(machine, capsys):
    assert script.main(["--dry-run", "--python", "py"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "Installing a prebuilt wheel for the CPU",
        "Compiling llama.cpp, which takes minutes unless a build was kept",
    ]


def test_builds_are_kept_apart_from_pips(machine, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert f"--cache-dir {tmp_path}/caches/speclsp-llama.cpp " in dry_run(capsys)[-1]
    assert dry_run(capsys, "--anew")[-1].endswith(" --no-cache-dir"), "pip takes the last one"


TELLS = """#!{python}
import os, pathlib, shlex
flags = shlex.split(os.environ.get("CMAKE_ARGS", ""))
name = "-DCMAKE_PROJECT_llama_cpp_INCLUDE="
said = [flag.removeprefix(name) for flag in flags]
said = [pathlib.Path(it).read_text() if it != flag else it for it, flag in zip(said, flags)]
pathlib.Path("told").write_text(repr(said))
"""
"""A program in place of pip: it tells CMake's flags, and the file that is included."""


@pytest.mark.parametrize("users", ["", "-DLLAVA_BUILD=on '-DCMAKE_C_FLAGS=-O2 -g'"])
def test_a_build_and_the_printed_command_have_our_flags_and_then_the_users(
    users, capsys, monkeypatch, tmp_path
):
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    pip = tmp_path / "pip"
    pip.write_text(TELLS.format(python=sys.executable))
    pip.chmod(0o755)
    told = tmp_path / "told"
    script.perform([str(pip)], users, dry_run=True)
    line = capsys.readouterr().out
    assert script.perform([str(pip)], users, dry_run=False) == 0
    wanted = ["-DLLAVA_BUILD=off", script.USED_ALONE + "\n", *shlex.split(users)]
    assert told.read_text() == repr(wanted)
    told.unlink()
    subprocess.run(["sh", "-c", line], check=True)
    assert told.read_text() == repr(wanted)


PROJECT = """
cmake_minimum_required(VERSION 3.21)
project(llama_cpp NONE)
option(LLAVA_BUILD "" ON)
set(LLAMA_BUILD_COMMON ON CACHE BOOL "" FORCE)
foreach(name LLAVA_BUILD LLAMA_BUILD_COMMON)
    if(${name})
        message(STATUS "built: ${name}")
    endif()
endforeach()
"""
"""How llama-cpp-python sets what is built."""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is missing")
@pytest.mark.parametrize("built", [[], ["LLAVA_BUILD"], ["LLAMA_BUILD_COMMON"]])
def test_the_users_flags_outweigh_ours(built, monkeypatch, tmp_path, capfd):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    users = " ".join(f"-D{name}=on" for name in built)
    command = ["sh", "-c", 'eval "cmake -B build $CMAKE_ARGS"']
    assert script.perform(command, users, dry_run=False) == 0
    said = capfd.readouterr().out.splitlines()
    assert [line.removeprefix("-- built: ") for line in said if "built: " in line] == built


@pytest.mark.parametrize(
    ("driver", "kind", "runtime"),
    [
        ("12.4", "cu124", "nvidia-cublas-cu12"),
        ("12.8", "cu125", "nvidia-cublas-cu12"),
        ("12.0", "cu118", "nvidia-cublas-cu11"),
        ("13.1", "cu130", "nvidia-cublas>=13,<14"),
    ],
)
def test_the_driver_says_which_cuda_wheel(driver, kind, runtime, machine, capsys):
    program(machine, "nvidia-smi", f"| NVIDIA-SMI 550.54   CUDA Version: {driver}     |")
    lines = dry_run(capsys)
    assert indexes(lines) == [kind, "cpu", ""]
    assert runtime in lines[0], "the toolkit is missing"


def test_a_toolkit_needs_no_runtime_packages_and_is_compiled_with(machine, capsys, monkeypatch):
    program(machine, "nvidia-smi", "CUDA Version: 12.4")
    program(machine, "nvcc")
    monkeypatch.setattr(script.ctypes.util, "find_library", lambda name: f"lib{name}.so")
    lines = dry_run(capsys)
    assert "nvidia-cublas" not in lines[0]
    assert "' -DGGML_CUDA=on' py -m pip " in lines[-1]
    assert "--no-cache-dir" in lines[-1], "pip may have kept a build for the CPU"


def test_too_old_a_driver_and_vulkan(machine, capsys, monkeypatch):
    program(machine, "nvidia-smi", "CUDA Version: 11.2")
    monkeypatch.setattr(script, "has_vulkan", lambda: True)
    assert indexes(dry_run(capsys)) == ["vulkan", "cpu", ""]


def test_apples_gpu(machine, capsys, monkeypatch):
    monkeypatch.setattr(script.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(script.platform, "machine", lambda: "arm64")
    assert indexes(dry_run(capsys)) == ["metal", "cpu", ""]


def test_flags_and_an_index_leave_no_choice(machine, capsys, monkeypatch):
    program(machine, "nvidia-smi", "CUDA Version: 12.4")
    assert indexes(dry_run(capsys, "--index", "https://mine/whl/cu999")) == ["cu999"]
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_NATIVE=off")
    (line,) = dry_run(capsys, "--lock", "requirements.lock")
    assert "' -DGGML_NATIVE=off' py -m pip " in line
    assert line.endswith("-r requirements.lock")


@pytest.mark.parametrize("arguments", [(), ("--anew",)])
def test_a_python_that_cannot_be_run_is_an_error(arguments, tmp_path, capsys):
    for python in ("none-of-that-name", str(tmp_path)):
        with pytest.raises(SystemExit):
            script.main(["--python", python, *arguments])
        assert f"--python {python!r} cannot be run" in capsys.readouterr().err


def test_what_fails_is_followed_by_the_next_way(machine, capsys, monkeypatch):
    """A wheel that installs and cannot be imported (no CUDA runtime) counts as failed."""
    program(machine, "nvidia-smi", "CUDA Version: 12.4")
    ran: list[str] = []
    works: list[str] = []

    def perform(command: tuple[str, ...], _: str | None, *, dry_run: bool) -> int:
        assert not dry_run
        ran.append(indexes([" ".join(command)])[0])
        if ran[-1] == "cpu":
            works.append("0.3.36 False")
        return 1 if ran[-1] == "" else 0

    monkeypatch.setattr(script, "perform", perform)
    monkeypatch.setattr(script, "is_reachable", lambda _: True)
    monkeypatch.setattr(script, "installed", lambda _: works[0] if works else "")
    assert script.main([]) == 0
    assert ran == ["cu124", "cpu"]
    ran.clear()
    works.clear()
    monkeypatch.setattr(script, "is_reachable", lambda _: False)
    assert script.main([]) == 1
    assert ran == [""], "wheels that cannot be reached are not tried"
    assert "cannot be reached" in capsys.readouterr().err


def test_it_runs_by_path_and_from_an_archive_before_anything_is_installed(tmp_path):
    import zipfile

    wheel = tmp_path / "speclsp-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (SCRIPT, SCRIPT.parent / "__init__.py"):
            archive.write(path, f"speclsp/{path.name}")
    for command, environment in (
        ([str(SCRIPT)], {}),
        (["-m", "speclsp.install_llama_cpp"], {"PYTHONPATH": str(wheel)}),
    ):
        outcome = subprocess.run(
            [sys.executable, "-S", "-P", *command, "--dry-run"],
            env={"PATH": "/usr/bin:/bin", **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "llama-cpp-python>=" in outcome.stdout
