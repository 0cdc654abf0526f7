"""What the owner fills in once stands where packages and pages need it."""

import json
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools/owner.py"))
FILLED = {
    "repository": "https://github.com/somebody/speclsp/",
    "security_contact": "holes@somebody.example",
    "publisher": "somebody",
}


def texts() -> dict[str, str]:
    names = (TOOL["PYPROJECT"], TOOL["PACKAGE"], TOOL["SECURITY"])
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in names}


def test_the_files_say_what_the_owner_filled_in():
    assert TOOL["written"](TOOL["owner"](), texts()) == texts()


def test_what_is_filled_in_is_written_once_and_may_be_taken_back():
    before = texts()
    after = TOOL["written"](FILLED, before)
    urls = tomllib.loads(after["pyproject.toml"])["project"]["urls"]
    assert urls["Issues"] == "https://github.com/somebody/speclsp/issues"
    package = json.loads(after["editors/vscode/package.json"])
    assert package["publisher"] == "somebody"
    assert package["repository"]["url"] == "https://github.com/somebody/speclsp.git"
    assert "holes@somebody.example.\n" in after["SECURITY.md"]
    assert TOOL["written"](FILLED, after) == after
    nothing = dict.fromkeys(FILLED, "")
    assert TOOL["written"](nothing, after) == TOOL["written"](nothing, before)


def test_what_is_missing_is_named():
    run = [sys.executable, str(ROOT / "tools/owner.py"), "--missing"]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert told == "".join(
        f"owner.toml: {name} is not filled in.\n" for name in TOOL["missing"](TOOL["owner"]())
    )
    assert TOOL["missing"](dict.fromkeys(FILLED, "")) == list(FILLED)
    assert TOOL["missing"](FILLED) == []
