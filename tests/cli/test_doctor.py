import dataclasses
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from speclsp.backends.llama import library
from speclsp.backends.llama.library import DeviceInfo, DeviceKind
from speclsp.backends.memory import Memory
from speclsp.cli import doctor as checks
from speclsp.cli.doctor import Finding
from speclsp.cli.doctor import doctor as doctor_command
from speclsp.cli.main import cli
from speclsp.embedded import embedded_draft
from speclsp.settings import Settings

pytestmark = pytest.mark.real


def doctor(*options: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", "--threads", "1", *options], catch_exceptions=False)


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The machine's own limits are not these tests' business.
    monkeypatch.setattr(checks, "INOTIFY", tmp_path)


def test_a_good_installation():
    outcome = doctor()
    assert outcome.exit_code == 0, outcome.output
    *rows, last = [line for line in outcome.output.splitlines() if line]
    assert last.startswith("Next: choose a real model: `speclsp models pull qwen")
    assert all(line.startswith("ok ") for line in rows)
    for subject in ("python", "llama-cpp-python", "device", "model", "completion", "state folder"):
        assert any(line.split()[1].startswith(subject.split()[0]) for line in rows), subject
    assert "embedded-target" in outcome.output
    assert " tokens in " in outcome.output
    # As the log says it.
    assert "loading: embedded-target-f16.gguf: 7 of 7 layers on CPU, " in outcome.output
    assert "GPU offload: this build" in outcome.output
    assert "next edits: none: the model is not known to propose them" in outcome.output


def test_the_model_of_next_edits_and_its_memory():
    outcome = doctor("--edit-model", str(embedded_draft()), "--edit-format", "sweep-8")
    assert outcome.exit_code == 0, outcome.output
    assert f"next edits: format sweep-8, {embedded_draft().name}" in outcome.output
    assert f"loading: {embedded_draft().name}: 4 of 4 layers on CPU, " in outcome.output


def test_the_embedded_model_of_next_edits():
    outcome = doctor("--edit-model", "embedded")
    assert outcome.exit_code == 0, outcome.output
    assert "next edits: format sweep-21, embedded-edit-q8_0.gguf" in outcome.output


def test_a_format_whose_tokens_the_vocabulary_lacks_is_named():
    outcome = doctor("--edit-format", "zeta-2")
    assert outcome.exit_code == 0, outcome.output
    reason = "the model's vocabulary lacks <[fim-suffix]>, <[fim-prefix]>, <[fim-middle]>, which"
    (line,) = [line for line in outcome.output.splitlines() if "next edits: " in line]
    assert f"next edits: none: {reason} edit_format zeta-2 needs" in line


def test_what_ends_the_loading_is_said_once():
    outcome = doctor("--device", "CUDA7")
    assert outcome.exit_code == 1
    assert outcome.output.count("There is no device named 'CUDA7'") == 1


@pytest.mark.parametrize("content", [None, b"no model"])
def test_a_model_that_cannot_be_used(tmp_path, content):
    path = tmp_path / "some.gguf"
    if content is not None:
        path.write_bytes(content)
    outcome = doctor("--model", str(path))
    assert outcome.exit_code == 1
    lines = outcome.output.splitlines()
    (problem_idx,) = [idx for idx, line in enumerate(lines) if line.startswith("problem")]
    assert "some.gguf" in lines[problem_idx]
    assert lines[problem_idx + 1].startswith("         ")


def test_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    finding = checks.writable("cache folder", tmp_path / "file" / "inner")
    assert "persist" in finding.remedy


def test_low_watch_limits(tmp_path):
    (tmp_path / "max_user_watches").write_text("8192\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    watches, instances = checks.watch_limits()
    assert "fs.inotify.max_user_watches=65536" in watches.remedy
    assert instances.remedy == ""


def test_a_missing_engine(monkeypatch):
    monkeypatch.setattr(
        checks.importlib, "import_module", Mock(side_effect=ImportError("no llama_cpp here"))
    )
    outcome = CliRunner().invoke(doctor_command)
    assert outcome.exit_code == 1
    assert "no llama_cpp here" in outcome.output
    assert "pip install" in outcome.output
    assert "completion:" not in outcome.output


def device(name: str, kind: DeviceKind) -> DeviceInfo:
    return DeviceInfo(name, "a device", kind, 3 << 30, 4 << 30, handle=0)


def engine_findings(
    monkeypatch: pytest.MonkeyPatch,
    backends: tuple[str, ...],
    devices: tuple[DeviceInfo, ...],
    **changes: Any,
) -> list[Finding]:
    monkeypatch.setattr(library, "gpu_backends", lambda: backends)
    monkeypatch.setattr(library, "start_backends", lambda: ("ggml_cuda_init: too old a driver.",))
    monkeypatch.setattr(library, "devices", lambda: devices)
    return list(checks.engine_library(Settings(**changes)))


def test_a_gpu_that_is_found(monkeypatch):
    found = (device("CUDA0", "gpu"), device("CPU", "cpu"))
    _, offload, first, _ = engine_findings(monkeypatch, ("CUDA",), found)
    assert offload.text == "this build has CUDA, which finds CUDA0"
    assert first.text == "CUDA0: a device (gpu, 3072 of 4096 MiB free)"


def test_a_build_for_a_gpu_that_finds_none(monkeypatch):
    _, offload, _ = engine_findings(monkeypatch, ("CUDA",), (device("CPU", "cpu"),))
    assert offload.text == (
        "this build of llama.cpp has CUDA, which finds no GPU here "
        "(ggml_cuda_init: too old a driver)"
    )
    assert "nvidia-smi" in offload.remedy


@pytest.mark.parametrize("changes", [{"device": "none"}, {"n_gpu_layers": 0}])
def test_who_wants_the_cpu_needs_no_gpu(monkeypatch, changes):
    _, offload, _ = engine_findings(monkeypatch, ("CUDA",), (device("CPU", "cpu"),), **changes)
    assert offload.remedy == ""
    monkeypatch.setattr(library, "devices", lambda: (device("CUDA0", "gpu"),))
    assert list(checks.gpu_use(Settings(**changes), {"CPU": 6})) == []


def test_a_build_for_the_cpu_alone_is_no_problem(monkeypatch):
    _, offload, _ = engine_findings(monkeypatch, (), (device("CPU", "cpu"),))
    assert offload.text.startswith("this build of llama.cpp is for the CPU only (docs/gpu.md")
    assert offload.remedy == ""


def test_a_gpu_that_has_nothing_to_do(monkeypatch):
    monkeypatch.setattr(library, "devices", lambda: (device("CUDA0", "gpu"),))
    (finding,) = checks.gpu_use(Settings(), {"CPU": 6})
    assert finding.text == "no layer of the model is on CUDA0"
    assert "ctx_size" in finding.remedy
    assert list(checks.gpu_use(Settings(), {"CPU": 2, "CUDA0": 4})) == []
    # A model that could not be loaded has no layers, and its own finding.
    assert list(checks.gpu_use(Settings(), {})) == []


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("libcudart.so.12: cannot open shared object file", "LD_LIBRARY_PATH"),
        ("libcuda.so.1: cannot open shared object file", "NVIDIA driver"),
        ("libvulkan.so.1: cannot open shared object file", "libvulkan1"),
    ],
)
def test_a_library_that_lacks_another(monkeypatch, reason, remedy):
    monkeypatch.setattr(checks.importlib, "import_module", Mock(side_effect=OSError(reason)))
    (finding,) = checks.engine_library(Settings())
    assert reason in finding.text
    assert remedy in finding.remedy


def test_the_next_step_is_one_line(monkeypatch):
    outcome = doctor("--model", "qwen2.5-coder-7b-q4_k_m", "--offline")
    assert outcome.exit_code == 1
    assert "problem  model: Qwen2.5-Coder 7B Q4_K_M is not downloaded." in outcome.output
    assert outcome.output.splitlines()[-1] == (
        "Next: Run `speclsp models pull qwen2.5-coder-7b-q4_k_m`."
    )
    nvidia = Memory(kind="NVIDIA GPU", name="GeForce", total_bytes=8 << 30, free_bytes=7 << 30)
    monkeypatch.setattr(checks, "find_memory", lambda: dataclasses.replace(nvidia, kind="CPU"))
    monkeypatch.setattr(checks, "nvidia_memory", lambda: nvidia)
    assert checks.INSTALL_COMMAND in checks.next_step(Settings(model="some.gguf"))
    monkeypatch.setattr(checks, "nvidia_memory", lambda: None)
    assert "all is well" in checks.next_step(Settings(model="some.gguf"))


def test_a_misspelt_drafter_ends_with_the_name_to_write():
    outcome = doctor("--spec-type", "ngram-smple")
    assert outcome.exit_code == 1
    last = outcome.output.splitlines()[-1]
    assert last.startswith("Next: Write `ngram-simple` in `drafters` (`--spec-type`); known are ")
