import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from speclsp.bench.cases import load_cases

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


def test_the_fixtures_say_where_they_are_from_as_their_tool_does() -> None:
    tool = runpy.run_path(str(ROOT / "tools/make_fixture_cases.py"))
    folder = ROOT / "fixtures" / "cases"
    cases = load_cases(folder / "cases.jsonl")
    assert tool["readme"](cases) == (folder / "README.md").read_text(encoding="utf-8")
    assert {case.project_name for case in cases} == {package.name for package in tool["PACKAGES"]}
