"""The workflows, which no host has run yet, name targets, files and versions that exist."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from speclsp import __version__

ROOT = Path(__file__).parents[1]
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}
JOBS = [(name, job) for name, flow in WORKFLOWS.items() for job in flow["jobs"]]


def steps(name: str, job: str) -> list[dict[str, Any]]:
    return list(WORKFLOWS[name]["jobs"][job]["steps"])


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_what_is_run_exists(name, job):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in (step["run"] for step in steps(name, job) if "run" in step):
        words = shlex.split(command)
        if words[0] == "make":
            assert set(words[1:]) <= targets, command
        for word in words:
            if re.match(r"(speclsp|tests)/[\w./]+$", word):
                assert (ROOT / word).exists(), word


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_job_ends_and_may_do_little(name, job):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    described = WORKFLOWS[name]["jobs"][job]
    assert described["timeout-minutes"] <= 45
    assert (described.get("permissions", {}) == {}) == (job not in {"publish", "notes"})
    # Actions are those of GitHub and of the Python package index.
    for used in (step["uses"] for step in described["steps"] if "uses" in step):
        assert re.match(r"(actions/[a-z-]+@v\d+|pypa/gh-action-pypi-publish@release/v1)$", used)


def test_the_matrix_begins_with_the_least_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = WORKFLOWS["checks.yml"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert f">={versions[0]}" == project["requires-python"]
    assert versions == sorted(versions, key=lambda version: int(version.split(".")[1]))


def test_the_entry_for_mason_installs_this_version():
    path = ROOT / "editors/registries/mason/packages/speclsp/package.yaml"
    entry = yaml.safe_load(path.read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert entry["source"]["id"] == f"pkg:pypi/{project['name']}@{__version__}"
    assert entry["licenses"] == [project["license"]]
    assert entry["bin"] == {name: f"pypi:{name}" for name in project["scripts"]}
    registry = ROOT / "editors/registries/nvim-lspconfig/lsp"
    assert (registry / f"{entry['neovim']['lspconfig']}.lua").exists()
