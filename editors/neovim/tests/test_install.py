"""`:Speclsp install`, with a Python that writes down what it is asked for."""

import shutil
import subprocess
from pathlib import Path

import pytest
from pynvim import NvimError
from real_neovim import FLOATS, PLUGIN, REPOSITORY, SERVER

PYTHON = """#!/bin/sh
echo "$PYTHONPATH|$*" >> {log}
case "$*" in
    "-c "*) exit 0 ;;
    "-m venv"*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m speclsp.install_llama_cpp") {llama} ;;
    "-m pip"*) printf '#!/bin/sh\\nexec {server} "$@"\\n' > "${{0%/*}}/speclsp"
        chmod +x "${{0%/*}}/speclsp" ;;
esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Put the Python on PATH and return the file that it writes to."""
    folder, log = tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    script = PYTHON.format(log=log, server=SERVER, llama=getattr(request, "param", ":"))
    (folder / "python3").write_text(script)
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return log


def test_the_server_is_installed_and_started(log, bare, project):
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


def test_an_environment_whose_python_is_gone_is_made_anew(log, bare, project):
    programs = bare.home / "data" / "nvim" / "speclsp" / "environment" / "bin"
    programs.mkdir(parents=True)
    (programs / "speclsp").write_text(f"#!{programs}/python\n")
    (programs / "speclsp").chmod(0o755)
    (programs / "python").symlink_to("/nowhere/python3")
    bare.lua("require('speclsp').setup({})")
    assert bare.lua("return require('speclsp').statusline()") == "speclsp not installed"
    (programs / "python").unlink()  # as `venv --clear` does
    bare.open(project / "customers.py")
    bare.nvim.command("Speclsp install")
    bare.until_ready()
    assert f"|-m venv --clear {programs.parent}" in log.read_text()


def test_a_step_that_cannot_start_is_named(log, bare):
    python = log.with_name("bin") / "python3"
    python.write_text(python.read_text().replace("mkdir -p", "exit 0; mkdir -p"))
    bare.lua("require('speclsp').setup({})")
    for n_times in (1, 2):
        bare.nvim.command("Speclsp install")
        bare.until(
            lambda: bare.nvim.command_output("messages").count("failed (ENOENT: ") == n_times  # noqa: B023
        )
    assert bare.lua("return require('speclsp').statusline()") == "speclsp not installed"


COMPILING = 'echo compiling; until [ -e "${0%/*}/done" ]; do sleep 0.05; done'


@pytest.mark.parametrize("log", [COMPILING], indirect=True)
def test_what_the_installation_does_is_shown_until_it_ends(log, bare, project):
    bare.lua("require('speclsp').setup({})")
    bare.lua("require('speclsp.progress').after_ms = 0")
    bare.nvim.command("Speclsp install")
    bare.until(lambda: bare.lua(FLOATS) == ["speclsp: installing the server: compiling"])
    (bare.home / "data/nvim/speclsp/environment/bin/done").touch()
    bare.until(lambda: bare.lua(FLOATS) == [])


@pytest.mark.parametrize("log", ["exit 3"], indirect=True)
def test_a_failed_step_is_named(log, bare):
    bare.lua("require('speclsp').setup({})")
    bare.nvim.command("Speclsp install")
    bare.until(lambda: "failed (exit status 3)" in bare.nvim.command_output("messages"))
    assert bare.lua("return require('speclsp').statusline()") == "speclsp not installed"
    assert "-m pip" not in log.read_text()


def test_only_on_windows_is_py_a_name_of_pythons(log, bare):
    folder = log.with_name("bin")
    (folder / "python3").rename(folder / "py")
    bare.lua("vim.env.PATH = ...", str(folder))
    bare.lua("require('speclsp').setup({})")
    with pytest.raises(NvimError, match=r"needs Python 3\.11"):
        bare.nvim.command("Speclsp install")


def test_an_older_server_is_known(bare):
    for version, is_older in (("0.0.1", True), ("99.0.0", False), ("unknown", False), ("", False)):
        assert bare.lua("return require('speclsp.install').is_older(...)", version) is is_older


def published(folder: Path) -> Path:
    """Return a repository that has the plugin at its root, as `make dist` packs it."""
    source = folder / "speclsp.nvim"
    ignored = shutil.ignore_patterns("tests", "__pycache__")
    shutil.copytree(PLUGIN, source, ignore=ignored)
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "all")):
        subprocess.run(["git", *identity, "-C", source, *command], check=True)
    return source


def test_vim_pack_takes_the_plugin_from_a_local_repository(without_plugin, tmp_path):
    editor = without_plugin
    address = f"file://{published(tmp_path)}"
    # --clean leaves out the folder that packages are installed into.
    editor.nvim.command("let &packpath = stdpath('data') .. '/site,' .. &packpath")
    editor.lua("vim.pack.add({ { src = ... } }, { confirm = false, load = true })", address)
    editor.lua("require('speclsp').setup(...)", {"cmd": str(SERVER)})
    assert "speclsp" in editor.lua("return vim.pack.get()[1].path")
    assert editor.nvim.command_output("Speclsp status")


def test_lspconfigs_entry_starts_the_server(without_plugin, tmp_path, project):
    """The file that is ready for nvim-lspconfig, with the trial model in place of `auto`."""
    editor = without_plugin
    editor.nvim.command(f"set runtimepath^={REPOSITORY}/editors/registries/nvim-lspconfig")
    editor.lua(
        "vim.lsp.config('speclsp', { cmd = { ..., 'serve', '--stdio' }, "
        "init_options = { model = '' } })",
        str(SERVER),
    )
    editor.lua("vim.lsp.enable('speclsp')")
    editor.lua("vim.lsp.inline_completion.enable()")
    editor.open(project / "customers.py")
    attached = "return #vim.lsp.get_clients({ name = 'speclsp', bufnr = 0 })"
    editor.until(lambda: editor.lua(attached))
    root = editor.lua(
        "return vim.lsp.get_clients({ name = 'speclsp', bufnr = 0 })[1].config.root_dir"
    )
    assert root == str(project)
    state = (
        "local client = vim.lsp.get_clients({ name = 'speclsp', bufnr = 0 })[1] "
        "local answer = client:request_sync('speclsp/statistics', vim.empty_dict(), 9000, 0) "
        "return vim.tbl_get(answer or {}, 'result', 'state')"
    )
    editor.until(lambda: editor.lua(state) == "ready")
    editor.keys("GoCUSTOMER_8 = make_")
    assert "customer" in editor.until_ghost()
