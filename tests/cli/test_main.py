import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from forked_speclsp import run_speclsp
from llama_cpp_statistics import record

import speclsp.cli
from speclsp import __version__
from speclsp.cli import main as main_module
from speclsp.cli.main import SUBCOMMANDS, cli


def run(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, cwd=cwd, timeout=600, check=False
    )


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_exists_and_has_a_help_text(name):
    outcome = CliRunner().invoke(cli, [name, "--help"], catch_exceptions=False)
    assert outcome.exit_code == 0
    assert "Usage:" in outcome.output


def test_an_error_that_the_log_has_shown_is_printed_once(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    model = tmp_path / "none.gguf"
    outcome = run_speclsp("explain", f"{tmp_path / 'a.py'}:1:5", "--model", str(model))
    assert outcome.returncode == 1
    assert outcome.stderr.count(f"There is no model file at {model}".encode()) == 1


def test_help_lists_the_subcommands_and_imports_none_of_them():
    script = (
        "import sys; sys.argv = ['speclsp', '--help']\n"
        "from speclsp.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "loaded = {'llama_cpp', 'pygls', 'numpy', 'watchdog', 'rich'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    outcome = run("-c", script)
    assert outcome.returncode == 0, outcome.stderr
    for name, help_text in SUBCOMMANDS.items():
        assert f"{name} " in outcome.stdout
        assert help_text in outcome.stdout


def test_python_m_speclsp_is_the_command(tmp_path):
    outcome = run("-m", "speclsp", "--version", cwd=tmp_path)
    assert outcome.stdout.strip() == f"speclsp, version {__version__}"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /dev/full")
def test_output_that_a_full_disk_does_not_take_is_one_line():
    command = f"{sys.executable} -m speclsp --version > /dev/full"
    outcome = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert outcome.stderr == "Error: [Errno 28] No space left on device\n"
    assert outcome.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="file names are UTF-8 elsewhere")
def test_a_path_that_is_not_utf8_is_printed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")
    path = tmp_path / "a\udcff"
    path.write_bytes(record([1, 2], {3: 4}))
    outcome = run("-m", "speclsp", "ngram", "verify", str(path))
    assert outcome.stdout == f"{tmp_path}/a\\udcff: fine.\n"


def test_an_unknown_subcommand_is_a_usage_error():
    outcome = CliRunner().invoke(cli, ["compleat"])
    assert outcome.exit_code == 2
    assert "compleat" in outcome.stderr


def add_subcommands_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the modules of a folder to the package of the subcommands."""
    monkeypatch.setattr(speclsp.cli, "__path__", [*speclsp.cli.__path__, str(folder)])
    found = dict.fromkeys((path.stem for path in folder.iterdir()), "")
    monkeypatch.setattr(main_module, "SUBCOMMANDS", {**SUBCOMMANDS, **found})


def test_a_missing_engine_is_told_with_its_remedy(monkeypatch, tmp_path):
    (tmp_path / "needs_engine_for_test.py").write_text("import llama_cpp_not_built\n")
    add_subcommands_in(tmp_path, monkeypatch)
    outcome = CliRunner().invoke(cli, ["needs_engine_for_test"])
    assert outcome.exit_code == 2
    assert "pip install llama-cpp-python" in outcome.output
    assert "llama_cpp_not_built" in outcome.output


def test_a_broken_engine_is_told_with_its_remedy_where_a_model_is_loaded(monkeypatch, tmp_path):
    broken = tmp_path / "llama_cpp.py"
    broken.write_text("raise RuntimeError('libcudart.so.12: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome = run("-m", "speclsp", "explain", f"{broken}:1:1")
    assert outcome.returncode == 1
    assert "cannot be imported: libcudart.so.12: cannot open" in outcome.stderr
    assert "pip install llama-cpp-python" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_another_missing_module_is_not_blamed_on_the_engine(monkeypatch, tmp_path):
    (tmp_path / "needs_other_for_test.py").write_text("import something_else_missing\n")
    add_subcommands_in(tmp_path, monkeypatch)
    outcome = CliRunner().invoke(cli, ["needs_other_for_test"])
    assert isinstance(outcome.exception, ModuleNotFoundError)
