"""llama.cpp's log and devices."""

import subprocess
import sys
from pathlib import Path

from speclsp.backends.llama import library
from speclsp.backends.llama.library import (
    _Log,
    buffer_types,
    collected_lines,
    devices,
    library_version,
    route_log,
)
from speclsp.backends.llama.vocabulary import load_vocabulary

_LOAD_AND_DECODE = """
import sys
from pathlib import Path
from speclsp.backends.llama.loading import load_target
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.backends.llama.library import route_log
from speclsp.backends.llama.model import open_model
from speclsp.settings import Settings

lines = []
if len(sys.argv) > 3:
    route_log(lambda level, line: lines.append(f"{level} {line}"))
path = Path(sys.argv[1])
vocabulary = load_vocabulary(path)
arguments = dict(progress=lambda share: True, log=lambda level, line: None)
target = load_target(path, Settings(), **arguments)
target.decode(vocabulary.tokenize("def f(x):").tolist(), 1)
try:
    target.decode([10**6], 1)
except Exception:
    pass
broken = Path(sys.argv[2])
try:
    open_model(broken, Settings(), 0, lambda share: True)
except Exception:
    pass
if len(sys.argv) > 3:
    Path(sys.argv[3]).write_text("\\n".join(lines), encoding="utf-8")
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _LOAD_AND_DECODE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )


def _broken(model_folder: Path, tmp_path: Path) -> str:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes((model_folder / "embedded-target-f16.gguf").read_bytes()[:200_000])
    return str(broken)


def test_nothing_of_the_log_reaches_the_process_streams(model_folder, tmp_path):
    run = _run(str(model_folder / "embedded-target-f16.gguf"), _broken(model_folder, tmp_path))
    assert (run.stdout, run.stderr) == ("", "")


def test_the_sink_gets_the_log_with_its_levels(model_folder, tmp_path):
    log = tmp_path / "log"
    run = _run(
        str(model_folder / "embedded-target-f16.gguf"), _broken(model_folder, tmp_path), str(log)
    )
    assert (run.stdout, run.stderr) == ("", "")
    lines = log.read_text(encoding="utf-8").splitlines()
    assert any("general.architecture" in line and line.startswith("info ") for line in lines)
    assert any(line.startswith("error ") and "not within the file bounds" in line for line in lines)
    assert any("assigned to device CPU" in line and line.startswith("debug ") for line in lines)


def test_a_line_in_pieces_becomes_one_and_a_failing_sink_harms_nothing():
    log = _Log()
    lines: list[tuple[str, str]] = []
    log.sink = lambda level, line: lines.append((level, line))
    log.receive(3, b"one ")
    log.receive(5, b"two\nthree\n")
    log.receive(2, b"....\n")
    log.receive(4, b"broken \xff bytes\n")
    log.receive(2, None)
    assert lines == [("warning", "one two"), ("warning", "three"), ("error", "broken \ufffd bytes")]


def test_the_log_goes_to_the_sink_of_the_moment(model_folder):
    lines: list[str] = []

    def failing(level, line):
        lines.append(line)
        raise RuntimeError("a sink that fails")

    route_log(failing)
    try:
        with collected_lines() as collected:
            load_vocabulary(model_folder / "embedded-draft-q8_0.gguf")
    finally:
        route_log(None)
    assert len(lines) > 10
    assert len(collected) == len(lines)


def test_the_cpu_is_always_a_device():
    found = devices()
    cpu = next(device for device in found if device.kind == "cpu")
    assert cpu.name == "CPU"
    assert cpu.memory_total > 0
    assert "CPU" in buffer_types()
    assert library_version()


class Backends:
    """libggml's registry with these backends."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def backend_reg_count(self) -> int:
        return len(self.names)

    def backend_reg_get(self, backend_idx: int) -> int:
        return backend_idx

    def backend_reg_name(self, handle: int) -> bytes:
        return self.names[handle].encode()


def test_a_build_says_which_gpus_it_is_for(monkeypatch):
    monkeypatch.setattr(library, "ggml", lambda: Backends("CUDA", "BLAS", "CPU"))
    monkeypatch.setattr(library, "start_backends", lambda: ())
    assert library.gpu_backends() == ("CUDA",)
    assert library.why_no_gpu() == "this build of llama.cpp has CUDA, which finds no GPU here"
    said = ("ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",) * 2
    monkeypatch.setattr(library, "start_backends", lambda: said)
    assert library.why_no_gpu().endswith(f" here ({said[0]})")
    monkeypatch.setattr(library, "ggml", lambda: Backends("CPU"))
    assert library.why_no_gpu() == "this build of llama.cpp is for the CPU only"


def test_the_backends_of_this_build_are_asked():
    assert "CPU" not in library.gpu_backends()
    assert library.why_no_gpu().startswith("this build of llama.cpp ")
