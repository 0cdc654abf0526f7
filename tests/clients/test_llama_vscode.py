"""llama.vscode in a real VS Code: it is built from its checkout, and each cell is a test there.

editors/vscode/test/clients has the tests, which need a workbench, npm and a browser.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from client_features import FEATURES, HERE, IS_WRITTEN, checkout, feature, real_model
from client_recordings import RECORDINGS, of_http, write_recording

REPOSITORY = HERE.parents[1]
EXTENSION = REPOSITORY / "editors" / "vscode"
NAME = "llama.vscode"
EDITOR = "VS Code 1.139"
UNREACHABLE = 69
FETCHED = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=given, text=True, capture_output=True, check=False)


def fetch(folder: Path) -> None:
    """Fetch the packages of a folder; skips where the registry cannot be reached."""
    if not (folder / "node_modules").is_dir():
        done = run(*FETCHED, cwd=folder)
        if done.returncode:
            pytest.skip(f"npm cannot fetch the packages of {folder.name}: {done.stderr[-300:]}")


def built(source: Path, folder: Path) -> Path:
    """Return a plugin's VSIX."""
    copy = folder / NAME
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git", "node_modules", "dist"))
    fetch(copy)
    vsce = str(EXTENSION / "node_modules" / ".bin" / "vsce")
    package = (vsce, "package", "--no-dependencies", "--allow-missing-repository")
    done = run(*package, cwd=copy)
    assert done.returncode == 0, done.stdout + done.stderr
    (vsix,) = copy.glob("*.vsix")
    return vsix


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Build the plugin, and return the environment of its tests in the workbench."""
    source = checkout(NAME)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not (shutil.which("npm") and chromium):
        pytest.skip("npm or chromium is missing")
    workbench = run(str(REPOSITORY / "tools" / "editors" / "fetch_vscode.sh"), cwd=REPOSITORY)
    if workbench.returncode == UNREACHABLE:
        pytest.skip(workbench.stderr)
    assert workbench.returncode == 0, workbench.stderr
    fetch(EXTENSION)
    return {
        "SPECLSP_LLAMA_VSCODE": str(built(source, tmp_path_factory.mktemp("llama-vscode"))),
        "SPECLSP_VSCODE": workbench.stdout.strip(),
        "CHROMIUM": str(chromium),
    }


def cells(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Run the tests in the workbench, which write into a folder, and return each feature's cell."""
    environment = {**environment, "SPECLSP_CLIENTS_FOLDER": str(folder)}
    done = run("npm", "run", "--silent", "test:clients", cwd=EXTENSION, **environment)
    print(done.stdout[-20_000:], done.stderr[-5_000:])  # noqa: T201  pytest shows it
    found: dict[str, str] = json.loads((folder / "found.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="session")
def found(given: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("trial-model")
    found = cells(folder, given)
    sent = json.loads((folder / "sent.json").read_text("utf-8"))
    entries = of_http([{**one, "status": None} for one in sent])
    for entry in entries:
        del entry["status"]
    write_recording(RECORDINGS if IS_WRITTEN else folder, NAME, EDITOR, "http", entries)
    return found


@feature("real")
def test_a_real_model(given, tmp_path, record_property):
    model = real_model()
    record_property("client", NAME)
    record_property("editor", EDITOR)
    found = cells(tmp_path, {**given, "SPECLSP_CLIENTS_MODEL": model})
    assert [found.get(name) for name in ("shown", "whole", "undone")] == ["yes"] * 3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=feature(name)) for name in FEATURES if name != "real"]
)
def test_a_feature(name, found, record_property):
    record_property("client", NAME)
    record_property("editor", EDITOR)
    assert found.get(name) == "yes"
