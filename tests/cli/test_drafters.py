"""The example of a third party's drafter, installed and run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from speclsp.cli.drafters import drafters

ROOT = Path(__file__).parents[2]


def test_the_drafters_are_listed():
    outcome = CliRunner().invoke(drafters, [], catch_exceptions=False)
    names = [line.split()[1] for line in outcome.output.splitlines()]
    assert {"prompt-lookup", "draft"} <= set(names)


def test_options_are_listed_below_their_drafter_with_default_and_bounds():
    output = CliRunner().invoke(drafters, [], catch_exceptions=False).output
    lines = output.partition("draft ")[2].splitlines()[1:4]
    assert [line.split()[0] for line in lines] == ["n_max", "n_min", "p_min"]
    assert "3, at least 0: maximum tokens of one draft." in lines[0]
    (line,) = output.partition("ngram-mod ")[2].splitlines()[1:2]
    assert "24, at least 1, at most 1024: tokens of context that must match." in line


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the example; returns an environment in which it is found."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *offline, str(ROOT / "examples/echo_drafter")], check=True, timeout=600)
    return {**os.environ, "PYTHONPATH": str(target)}


def run(
    command: str, environment: dict[str, str], *options: str, data: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "speclsp", command, *options],
        input=data,
        capture_output=True,
        encoding="utf-8",
        env=environment,
        timeout=600,
        check=True,
    )


def test_the_example_is_listed(installed):
    outcome = run("drafters", installed)
    (row,) = [line for line in outcome.stdout.splitlines() if "echo" in line]
    assert row.split() == ["off", "echo", "speclsp-echo", "1.0:", "speclsp_echo:create"]


@pytest.mark.real
def test_the_example_drafts(installed):
    prefix = "a = [1, 1, 1, 1, 1, 1]\nb = [1, 1,"
    params = {"path": "a.py", "prefix": prefix, "suffix": "\n", "nPredict": 16}
    request = {"jsonrpc": "2.0", "id": 1, "method": "complete", "params": params}
    texts = []
    # Mode auto goes by times and may find that no draft pays, above all on a busy machine.
    for options in (["--drafters", "echo", "--mode", "first"], ["--no-speculation"]):
        outcome = run("complete", installed, "--threads", "1", *options, data=json.dumps(request))
        result = json.loads(outcome.stdout)["result"]
        texts.append(result["text"])
        if "echo" in options:
            assert result["stats"]["drafters"]["echo"]["nDrafts"] > 0
    assert texts[0] == texts[1]
