"""``tools/gpu_report.sh``: what it compiles llama.cpp with, and whose libraries are measured."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "gpu_report.sh"
CUDA = {"nvcc": "", "nvidia-smi": "echo 9.0; echo 8.9; echo 9.0"}
PYTHON = 'echo "lib=$LLAMA_CPP_LIB_PATH"; echo "arguments=$*"'
"""In place of Python: what would be run."""


def checkout(folder: Path, tools: dict[str, str]) -> Path:
    """Make a folder with the script, a llama-server's build that tells its flags, and tools."""
    root = folder / "checkout"
    bin_folder = folder / "bin"
    build = f'echo "flags=$CMAKE_ARGS source=${{1:-}}" >&2; echo {root}/built/llama-server'
    for path, text in (
        (root / "tools" / "gpu_report.sh", SCRIPT.read_text(encoding="utf-8")),
        (root / "tools" / "peers" / "build_llama_server.sh", f"#!/bin/sh\n{build}\n"),
        (root / "built" / "llama-server", ""),
        *((bin_folder / name, f"#!/bin/sh\n{text}\n") for name, text in tools.items()),
        (bin_folder / "python", f"#!/bin/sh\n{PYTHON}\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return root


def run(root: Path, *words: str, **variables: str) -> tuple[str, str]:
    """Run the script, and return what it printed and what it said."""
    environment = {"PATH": f"{root.parent / 'bin'}:/usr/bin:/bin", "PYTHON": "python", **variables}
    script = root / "tools" / "gpu_report.sh"
    done = subprocess.run(
        ["bash", str(script), *words], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_cuda_is_compiled_for_the_gpus_that_are_there(tmp_path):
    root = checkout(tmp_path, CUDA)
    printed, said = run(root, "--quick")
    flags = "-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=89;90 -DBUILD_SHARED_LIBS=ON"
    assert f"flags={flags} source=\n" in said
    assert printed == (
        f"lib={root}/built\narguments=-m benchmarks gpu-report {root}/gpu-report "
        f"--llama-server {root}/built/llama-server --quick\n"
    )


@pytest.mark.parametrize(
    ("tools", "flags"),
    [({"hipconfig": ""}, "-DGGML_HIP=on"), ({"glslc": ""}, "-DGGML_VULKAN=on")],
    ids=["rocm", "vulkan"],
)
def test_other_gpus(tmp_path, tools, flags):
    _, said = run(checkout(tmp_path, tools))
    assert f"flags={flags} -DBUILD_SHARED_LIBS=ON" in said


def test_flags_of_the_user_come_first(tmp_path):
    _, said = run(checkout(tmp_path, CUDA), CMAKE_ARGS="-DGGML_SYCL=on")
    assert "flags=-DGGML_SYCL=on -DBUILD_SHARED_LIBS=ON" in said


def test_without_tools_the_installed_build_is_measured(tmp_path):
    root = checkout(tmp_path, {})
    printed, said = run(root)
    assert "the installed build is measured" in said
    assert printed == f"lib=\narguments=-m benchmarks gpu-report {root}/gpu-report\n"


def test_a_llama_server_that_is_there_is_not_built(tmp_path):
    root = checkout(tmp_path, CUDA)
    printed, said = run(root, LLAMA_SERVER=str(root / "built" / "llama-server"))
    assert said == ""
    assert printed.startswith(f"lib={root}/built\n")


def test_a_packed_copy_compiles_the_sources_that_came_with_it(tmp_path):
    root = checkout(tmp_path, {})
    (root / "carried" / "site").mkdir(parents=True)
    (root / "carried" / "llama_cpp_python-1.tar").touch()
    _, said = run(root)
    assert f"flags= -DBUILD_SHARED_LIBS=ON source={root}/carried/llama_cpp_python-1.tar" in said


def test_models_that_were_packed_are_measured(tmp_path):
    root = checkout(tmp_path, {})
    models = root / "carried" / "models"
    models.mkdir(parents=True)
    (models / "coder.gguf").touch()
    printed, _ = run(root, "--quick")
    assert printed.endswith(f"{root}/gpu-report --model {models}/coder.gguf --quick\n")
