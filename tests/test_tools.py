import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.loading import load_target
from speclsp.engine.params import target_params
from speclsp.settings import Settings

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "fixtures" / "models"
CHECK = ROOT / "tools" / "check_machine.py"


def check(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECK), *argv],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=30,
        check=False,
    )


def test_a_missing_compiler_is_told_before_anything_starts(tmp_path: Path) -> None:
    outcome = check(PATH=str(tmp_path), CC="", CXX="")
    assert outcome.returncode == 1
    assert "no C/C++ compiler" in outcome.stderr
    assert "build-essential" in outcome.stderr
    assert "prebuilt" in outcome.stderr


def test_with_a_prebuilt_wheel_no_compiler_is_needed(tmp_path: Path) -> None:
    assert check("--no-compiler", PATH=str(tmp_path), CC="", CXX="").returncode == 0


def test_the_compiler_that_is_named_must_be_there() -> None:
    outcome = check(CC="no-such-compiler-xyz -O2")
    assert outcome.returncode == 1
    assert "no-such-compiler-xyz" in outcome.stderr


def test_an_old_python_is_told() -> None:
    script = (
        "import runpy, sys; sys.version_info = (3, 9, 1); sys.argv = ['x', '--no-compiler'];"
        f"runpy.run_path({str(CHECK)!r}, run_name='__main__')"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert outcome.returncode == 1
    assert "3.11" in outcome.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_runs_quietly_and_its_end_is_shown_where_it_fails(
    tmp_path: Path, code: int
) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", f"print('its output'); raise SystemExit({code})"]
    outcome = subprocess.run(
        [sys.executable, str(ROOT / "tools/run_with_progress.py"), "Working", str(log), *command],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert outcome.returncode == code
    assert log.read_text() == "its output\n"
    assert ("its output" in outcome.stderr) == (code != 0)
    assert "Working: " in outcome.stderr


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_the_locks_pin_everything_with_hashes_and_name_no_host(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|file:|--index|--find-links|(?<![\w.])/\w", text)
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert blocks
    for block in blocks:
        assert re.match(r"[a-z0-9-]+==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_the_development_lock_agrees_with_the_other() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))

    assert pins("requirements.lock") < pins("requirements-dev.lock")


def deepen(source: str, target: Path, n_layers: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/deepen_model.py"), str(MODELS / source)]
    return subprocess.run(
        [*command, str(target), "--layers", str(n_layers)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_deepened_model_says_the_same(tmp_path: Path, target_f16: LlamaTarget) -> None:
    path = tmp_path / "deep.gguf"
    assert deepen("embedded-target-f16.gguf", path, 9).returncode == 0
    model_params, context_params = target_params(Settings(threads=1, ctx_size=512))
    deep = load_target(
        path,
        model_params,
        context_params,
        fit=False,
        progress=lambda share: True,
        log=lambda level, line: None,
    )
    tokens = list(range(300, 340))
    target_f16.truncate(0)
    expected = target_f16.decode(tokens, 1)
    assert (deep.decode(tokens, 1) == expected).all()
    assert deep.layers == {"CPU": target_f16.layers["CPU"] + 4}
    deep.close()


@pytest.mark.parametrize(
    ("source", "n_layers", "problem"),
    [
        ("embedded-target-f16.gguf", 5, "has 5 layers already"),
        ("embedded-target-q8_0.gguf", 9, "quantised"),
        ("none.gguf", 9, "No such file"),
    ],
)
def test_a_model_that_cannot_be_deepened(
    tmp_path: Path, source: str, n_layers: int, problem: str
) -> None:
    outcome = deepen(source, tmp_path / "deep.gguf", n_layers)
    assert outcome.returncode == 1
    assert problem in outcome.stderr
    assert not (tmp_path / "deep.gguf").exists()
