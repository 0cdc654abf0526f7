"""What is said where a command's packages are missing."""

import shlex
import sys
from typing import Any

from click.testing import CliRunner

from speclsp.cli.extras import install_extra
from speclsp.cli.http import http
from speclsp.errors import SettingsError


def test_the_line_names_packages_that_an_index_has_for_this_python():
    line = shlex.split(install_extra("http").partition(": ")[2])
    assert line[:4] == [sys.executable, "-m", "pip", "install"]
    packages = [package.partition(">=")[0] for package in line[4:]]
    assert packages == ["h11", "starlette", "uvicorn"]


def test_an_extra_of_another_version_is_named():
    assert install_extra("nope") == "Install the extra 'nope' of speclsp."


def test_speclsp_http_says_what_to_install(monkeypatch):
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "uvicorn", None)
    result = CliRunner().invoke(http, ["--port", "0"])
    assert isinstance(result.exception, SettingsError)
    assert "pip install 'h11>=" in result.exception.remedy
    assert " 'starlette>=" in result.exception.remedy
