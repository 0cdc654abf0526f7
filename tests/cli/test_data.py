from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from speclsp.cli.data import data
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.locations import accepted_store_path, state_dir, token_store_path, workspace_id
from speclsp.storage.token_store import TokenStore


@pytest.fixture(autouse=True)
def _own_folders(private_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def run(*arguments: str, expected_exit: int = 0) -> Result:
    result = CliRunner().invoke(data, arguments)
    assert result.exit_code == expected_exit, result.output
    return result


def keep_something(here: str, there: str) -> None:
    tokens = TokenStore.open()
    for number, root in enumerate((here, here, there)):
        tokens.put(root, "f", bytes([number]) * 16, np.zeros(100, np.int32))
    tokens.close()
    accepted = AcceptedStore.open()
    accepted.append(here, "x")
    accepted.append(there, "y")
    accepted.close()


def test_nothing_kept(tmp_path):
    output = run("list").output
    assert "Nothing is kept." in output
    assert str(token_store_path()) in output
    assert str(accepted_store_path()) in output
    assert not (tmp_path / "cache").exists()
    assert "0 files and 0 accepted" in run("forget", "--all").output
    assert not (tmp_path / "state").exists()


def test_list_shows_what_is_kept_by_workspace(tmp_path):
    keep_something(str(tmp_path / "here"), "/there")
    lines = run("list").output.splitlines()
    (here,) = [line for line in lines if workspace_id(str(tmp_path / "here")).hex()[:12] in line]
    (there,) = [line for line in lines if workspace_id("/there").hex()[:12] in line]
    assert here.split()[1:4] == ["2", "200", "1"]
    assert here.rstrip().endswith(str(tmp_path / "here"))
    assert there.split()[1:4] == ["1", "100", "1"]
    assert there.rstrip().endswith("(elsewhere)")


def test_forget_a_workspace_by_folder_and_by_id(tmp_path):
    keep_something(str(tmp_path / "here"), "/there")
    output = run("forget", "--workspace", ".").output
    assert "2 files and 1 accepted completions" in output
    assert "1 files and 1 accepted" in run(
        "forget", "--workspace", workspace_id("/there").hex()[:12]
    ).output  # fmt: skip
    assert "Nothing is kept." in run("list").output


def test_a_short_name_is_no_id_of_another_workspace():
    keep_something("/here", "/there")
    for n_digits in range(12):
        name = workspace_id("/there").hex()[:n_digits]
        error = run("forget", "--workspace", name, expected_exit=2).stderr
        assert "Nothing is kept for" in error
        assert "an id needs its 12 digits" in error


def test_forget_all(tmp_path):
    keep_something(str(tmp_path / "here"), "/there")
    output = run("forget", "--all").output
    assert "3 files and 2 accepted completions" in output
    assert "Nothing is kept." in run("list").output


@pytest.mark.parametrize("arguments", [(), ("--all", "--workspace", "."), ("--workspace", "/no")])
def test_unclear_or_unknown_forget(arguments):
    assert "Error" in run("forget", *arguments, expected_exit=2).output


@pytest.mark.parametrize("workspace", ["", "/there"])
def test_damaged_store_is_told_and_removed(tmp_path, workspace):
    keep_something(str(tmp_path / "here"), "/there")
    token_store_path().write_bytes(b"nonsense" * 1000)
    result = run("list")
    assert "damaged" in result.stderr
    assert "damaged" in result.stdout
    aside = token_store_path().with_name("tokens.sqlite3.damaged")
    assert aside.exists()
    output = run("forget", *(("--workspace", workspace) if workspace else ("--all",))).stdout
    assert f"0 files and {1 if workspace else 2} accepted" in output
    assert f"Removed {aside}, a damaged database" in output
    assert not aside.exists()


def test_a_folder_that_only_a_damaged_store_knows_is_forgotten_with_it(tmp_path):
    keep_something(str(tmp_path / "here"), "/there")
    for path in (token_store_path(), accepted_store_path()):
        path.write_bytes(b"nonsense" * 1000)
    run("list")
    damaged = {*tmp_path.rglob("*.damaged")}
    assert len(damaged) == 2
    for name in ("/typo", "", "x" * 300):
        assert "by --all alone" in run("forget", "--workspace", name, expected_exit=2).stderr
    assert {*tmp_path.rglob("*.damaged")} == damaged, "no folder of that name exists"
    output = run("forget", "--workspace", ".").stdout
    assert output.count("a damaged database") == 2
    assert "0 files and 0 accepted completions" in output
    assert not [*tmp_path.rglob("*.damaged")]


def test_a_linked_folders_target_keeps_its_damaged_stores(tmp_path):
    keep_something(str(tmp_path / "here"), "/there")
    state_dir().rename(tmp_path / "elsewhere")
    state_dir().symlink_to(tmp_path / "elsewhere")
    aside = tmp_path / "elsewhere" / f"{accepted_store_path().name}.damaged"
    aside.write_text("kept")
    result = CliRunner().invoke(data, ["forget", "--workspace", "/there"])
    assert "symbolic link" in str(result.exception)
    accepted_store_path().unlink()  # now no store is opened that could refuse the link
    run("forget", "--workspace", "/there")
    assert aside.read_text() == "kept"


def test_forget_all_removes_links_and_goes_on(tmp_path):
    keep_something(str(tmp_path / "here"), "/there")
    (tmp_path / "target").write_text("kept")
    accepted_store_path().unlink()
    accepted_store_path().symlink_to(tmp_path / "target")
    result = CliRunner().invoke(data, ["list"])
    assert "symbolic link" in str(result.exception)
    output = run("forget", "--all").output
    assert f"Removed the symbolic link {accepted_store_path()}" in output
    assert "3 files and 0 accepted completions" in output
    assert (tmp_path / "target").read_text() == "kept"
    assert "Nothing is kept." in run("list").output


def test_forget_all_removes_a_linked_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "tokens.sqlite3").write_text("kept")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "speclsp").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in run("forget", "--all").output
    assert not (tmp_path / "cache" / "speclsp").exists()
    assert (tmp_path / "elsewhere" / "tokens.sqlite3").read_text() == "kept"
