"""`:Speclsp install`, with a Python that writes down what it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pynvim import NvimError
from real_neovim import REPOSITORY, SERVER, Editor

PYTHON = """#!/bin/sh
echo "$PYTHONPATH|$*" >> {log}
case "$*" in
    "-c "*) exit 0 ;;
    "-m venv"*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m speclsp.install_llama_cpp") exit {llama} ;;
    "-m pip"*) printf '#!/bin/sh\\nexec {server} "$@"\\n' > "${{0%/*}}/speclsp"
        chmod +x "${{0%/*}}/speclsp" ;;
esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Put the Python on PATH and return the file that it writes to."""
    folder, log = tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    script = PYTHON.format(log=log, server=SERVER, llama=getattr(request, "param", 0))
    (folder / "python3").write_text(script)
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return log


def test_the_server_is_installed_and_started(log: Path, bare: Editor, project: Path) -> None:
    bare.nvim.command("let g:loaded_python3_provider = 0")  # it would ask our Python, too
    bare.lua("require('speclsp').setup({})")
    told = "speclsp: the server is not installed; :Speclsp install installs it."
    assert told in bare.nvim.command_output("messages")
    bare.open(project / "customers.py")
    bare.nvim.command("Speclsp install")
    assert bare.lua("return require('speclsp').statusline()") == "speclsp installing"
    bare.until_ready()
    told = "speclsp: the server is installed; :Speclsp model chooses a better model."
    assert told in bare.nvim.command_output("messages")
    environment = bare.home / "data" / "nvim" / "speclsp" / "environment"
    assert log.read_text().splitlines()[1:] == [
        f"{REPOSITORY}|-m venv --clear {environment}",
        f"{REPOSITORY}|-m speclsp.install_llama_cpp",
        f"{REPOSITORY}|-m pip install --no-input --upgrade {REPOSITORY}",
    ]


@pytest.mark.parametrize("log", [3], indirect=True)
def test_a_failed_step_is_named(log: Path, bare: Editor) -> None:
    bare.lua("require('speclsp').setup({})")
    bare.nvim.command("Speclsp install")
    bare.until(lambda: "failed (exit status 3)" in bare.nvim.command_output("messages"))
    assert bare.lua("return require('speclsp').statusline()") == "speclsp not installed"
    assert "-m pip" not in log.read_text()


def test_only_on_windows_is_py_a_name_of_pythons(log: Path, bare: Editor) -> None:
    folder = log.with_name("bin")
    (folder / "python3").rename(folder / "py")
    bare.lua("vim.env.PATH = ...", str(folder))
    bare.lua("require('speclsp').setup({})")
    with pytest.raises(NvimError, match=r"needs Python 3\.11"):
        bare.nvim.command("Speclsp install")


@pytest.mark.parametrize(
    ("version", "is_older"), [("0.0.1", True), ("99.0.0", False), ("unknown", False), ("", False)]
)
def test_an_older_server_is_known(version: str, is_older: bool, bare: Editor) -> None:
    assert bare.lua("return require('speclsp.install').is_older(...)", version) is is_older
