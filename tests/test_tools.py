import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "fixtures" / "models"
INSTALL = ROOT / "speclsp" / "install_llama_cpp.py"


def check(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(INSTALL), "--check", *argv],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=600,
        check=False,
    )


def test_a_missing_compiler_is_told_before_anything_starts(tmp_path):
    outcome = check(PATH=str(tmp_path), CC="", CXX="")
    assert outcome.returncode == 1
    assert "no C/C++ compiler" in outcome.stderr
    assert "build-essential" in outcome.stderr
    assert "prebuilt" in outcome.stderr


def test_with_a_prebuilt_wheel_no_compiler_is_needed(tmp_path):
    assert check("--no-compiler", PATH=str(tmp_path), CC="", CXX="").returncode == 0


def test_the_compiler_that_is_named_must_be_there():
    outcome = check(CC="no-such-compiler-xyz -O2")
    assert outcome.returncode == 1
    assert "no-such-compiler-xyz" in outcome.stderr


@pytest.mark.parametrize(
    ("cmake_args", "program"),
    [
        ("-DGGML_CUDA=on", "nvcc"),
        ("-DGGML_NATIVE=off -DGGML_CUDA:BOOL=ON", "nvcc"),
        ("-DGGML_HIP=ON", "hipconfig"),
        ("-DGGML_VULKAN=1", "glslc"),
        ("-DGGML_SYCL=on", "icpx"),
        ("", None),
        ("-DGGML_CUDA=off", None),
        ("-DGGML_CUDA_FA=on", None),
        ("-DGGML_CUDA=on -DCMAKE_CUDA_COMPILER=/opt/cuda/bin/nvcc", None),
    ],
)
def test_a_missing_toolkit_is_told(tmp_path, cmake_args, program):
    (tmp_path / "cc").touch(0o755)
    (tmp_path / "c++").touch(0o755)
    outcome = check(PATH=str(tmp_path), CC="", CXX="", CUDACXX="", CMAKE_ARGS=cmake_args)
    assert outcome.returncode == (program is not None), outcome.stderr
    if program:
        assert f"needs {program}, which was not found" in outcome.stderr
        assert "docs/gpu.md" in outcome.stderr
        (tmp_path / program).touch(0o755)
        again = check(PATH=str(tmp_path), CC="", CXX="", CUDACXX="", CMAKE_ARGS=cmake_args)
        assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("before", "flags", "anew"),
    [
        # what is there will do where nothing is asked for
        ("\n", {}, False),
        ("-DGGML_CUDA=on \n", {}, False),
        ("-DGGML_CUDA=on \n", {"CMAKE_ARGS": "-DGGML_CUDA=on"}, False),
        ("-DGGML_CUDA=on \n", {"CMAKE_ARGS": " -DGGML_CUDA=on "}, False),
        (" https://wheels/cu124\n", {"LLAMA_CPP_INDEX": "https://wheels/cu124"}, False),
        # a build for the CPU is no build for a GPU
        ("\n", {"CMAKE_ARGS": "-DGGML_CUDA=on"}, True),
        ("", {"CMAKE_ARGS": "-DGGML_CUDA=on"}, True),
        ("-DGGML_VULKAN=on \n", {"CMAKE_ARGS": "-DGGML_CUDA=on"}, True),
        (" https://wheels/cpu\n", {"LLAMA_CPP_INDEX": "https://wheels/cu124"}, True),
        # the first time
        (None, {}, None),
        (None, {"CMAKE_ARGS": "-DGGML_CUDA=on"}, True),
    ],
)
def test_make_compiles_anew_for_other_flags(tmp_path, before, flags, anew):
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    stamps = tmp_path / ".venv" / "stamps"
    stamps.mkdir(parents=True)
    (stamps / "venv").touch()
    if before is not None:
        (stamps / "llama").write_text(before)
        (stamps / "run").touch()
    unset = {"CMAKE_ARGS": "", "LLAMA_CPP_INDEX": "", "MAKEFLAGS": "", "MAKELEVEL": ""}
    plan = subprocess.run(
        ["make", "--dry-run", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, **unset, **flags},
        timeout=600,
        check=True,
    ).stdout
    assert "speclsp demo" in plan
    assert ("install_llama_cpp.py --python" in plan) == (anew is not False)
    assert ("--anew" in plan) == bool(anew)


def test_an_old_python_is_told():
    script = (
        "import runpy, sys; sys.version_info = (3, 9, 1);"
        "sys.argv = ['x', '--check', '--no-compiler'];"
        f"runpy.run_path({str(INSTALL)!r}, run_name='__main__')"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert outcome.returncode == 1
    assert "3.11" in outcome.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_runs_quietly_and_its_end_is_shown_where_it_fails(tmp_path, code):
    log = tmp_path / "log"
    command = [sys.executable, "-c", f"print('its output'); raise SystemExit({code})"]
    outcome = subprocess.run(
        [sys.executable, str(ROOT / "tools/run_with_progress.py"), "Working", str(log), *command],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert outcome.returncode == code
    assert log.read_text() == "its output\n"
    assert ("its output" in outcome.stderr) == (code != 0)
    assert "Working: " in outcome.stderr


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_the_locks_pin_everything_with_hashes_and_name_no_host(name):
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|file:|--index|--find-links|(?<![\w.])/\w", text)
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert blocks
    for block in blocks:
        assert re.match(r"[a-z0-9-]+==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_the_development_lock_agrees_with_the_other():
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))

    assert pins("requirements.lock") < pins("requirements-dev.lock")


def test_what_is_installed_is_copied_and_not_compiled_again(tmp_path):
    tool = [sys.executable, str(ROOT / "tools" / "copy_installed.py")]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    place = "import sysconfig; print(sysconfig.get_path('platlib'))"
    folder = subprocess.check_output([python, "-c", place], text=True).strip()
    subprocess.run([*tool, "llama-cpp-python", folder], check=True)
    version = "from importlib.metadata import version; print(version('llama-cpp-python'))"
    assert subprocess.check_output([python, "-c", version]) == subprocess.check_output(
        [sys.executable, "-c", version]
    )
    assert list(Path(folder, "llama_cpp", "lib").glob("*llama*"))

    missing = subprocess.run(
        [*tool, "no-such-package", folder], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 1
    assert "is not installed for" in missing.stderr
