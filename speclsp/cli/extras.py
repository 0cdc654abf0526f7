"""Packages that single commands need, and the line that installs them beside this speclsp."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires

_OF_EXTRA = re.compile(r"(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")


def install_extra(extra: str) -> str:
    """Return a remedy: how to install the packages of an extra for the Python that runs this.

    They are installed by their own names: speclsp may come from a checkout or from a file.
    """
    try:
        rows = [_OF_EXTRA.fullmatch(row) for row in requires("speclsp") or ()]
    except PackageNotFoundError:  # run from its folder
        rows = []
    packages = [row["package"] for row in rows if row and row["extra"] == extra]
    if not packages:
        return f"Install the extra {extra!r} of speclsp."
    line = shlex.join([sys.executable, "-m", "pip", "install", *packages])
    return f"Install what it needs: {line}"
