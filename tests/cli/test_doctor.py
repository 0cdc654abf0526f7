from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from speclsp.cli import doctor_checks
from speclsp.cli.doctor import doctor as doctor_command
from speclsp.cli.main import cli

pytestmark = pytest.mark.real


def doctor(*options: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", "--threads", "1", *options], catch_exceptions=False)


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The machine's own limits are not these tests' business.
    monkeypatch.setattr(doctor_checks, "INOTIFY", tmp_path)


def test_a_good_installation() -> None:
    outcome = doctor()
    assert outcome.exit_code == 0, outcome.output
    rows = [line for line in outcome.output.splitlines() if line]
    assert all(line.startswith("ok ") for line in rows)
    for subject in ("python", "llama-cpp-python", "device", "model", "completion", "state folder"):
        assert any(line.split()[1].startswith(subject.split()[0]) for line in rows), subject
    assert "embedded-target" in outcome.output
    assert " tokens in " in outcome.output


@pytest.mark.parametrize("content", [None, b"no model"])
def test_a_model_that_cannot_be_used(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "some.gguf"
    if content is not None:
        path.write_bytes(content)
    outcome = doctor("--model", str(path))
    assert outcome.exit_code == 1
    lines = outcome.output.splitlines()
    (problem_idx,) = [idx for idx, line in enumerate(lines) if line.startswith("problem")]
    assert "some.gguf" in lines[problem_idx]
    assert lines[problem_idx + 1].startswith("         ")


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = doctor_checks.writable("cache folder", tmp_path / "file" / "inner")
    assert "persist" in finding.remedy


def test_low_watch_limits(tmp_path: Path) -> None:
    (tmp_path / "max_user_watches").write_text("8192\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    watches, instances = doctor_checks.watch_limits()
    assert "fs.inotify.max_user_watches=65536" in watches.remedy
    assert instances.remedy == ""


def test_a_missing_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ImportError("no llama_cpp here")

    monkeypatch.setattr(doctor_checks.importlib, "import_module", fail)
    outcome = CliRunner().invoke(doctor_command)
    assert outcome.exit_code == 1
    assert "no llama_cpp here" in outcome.output
    assert "pip install" in outcome.output
    assert "completion:" not in outcome.output
