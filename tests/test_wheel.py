"""The wheel carries the models and the sample project, and works from any folder."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([*pip, *offline, str(ROOT)], check=True, timeout=600)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_what_is_needed_and_no_more(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "speclsp/_fixtures/models/embedded-target-f16.gguf",
        "speclsp/_fixtures/models/embedded-draft-q8_0.gguf",
        "speclsp/_fixtures/models/embedded-edit-q8_0.gguf",
        "speclsp/_fixtures/models/MODEL_CARD.md",
        "speclsp/_fixtures/models/EDIT_MODEL_CARD.md",
        "speclsp/_fixtures/sample_project/shop/repositories.py",
        "speclsp/py.typed",
    ):
        assert name in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    models = "speclsp/_fixtures/models/"
    assert any(name.startswith(f"{models}sources") for name in names), "what they were trained on"
    left_out = ("tests/", "tools/", "training/", "benchmarks/", "examples/")
    assert not [name for name in names if name.startswith(left_out)]
    assert not [name for name in names if "__pycache__" in name or "/cases/" in name]


@pytest.mark.real
def test_the_installed_wheel_works_from_another_folder(wheel, tmp_path):
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = "from speclsp import embedded; print(embedded.embedded_target())"
    found = subprocess.run(
        [sys.executable, "-c", where],
        capture_output=True,
        text=True,
        env=environment,
        cwd=elsewhere,
        timeout=600,
        check=True,
    )
    assert found.stdout.strip().startswith(str(target))
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "complete",
        "params": {"prefix": "import os\nimport ", "nPredict": 8},
    }
    outcome = subprocess.run(
        [sys.executable, "-m", "speclsp", "complete", "--threads", "1"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=environment,
        cwd=elsewhere,
        timeout=600,
        check=True,
    )
    assert json.loads(outcome.stdout)["result"]["stats"]["nPredicted"] > 0
