"""What the package imports is what it declares."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def imported() -> set[str]:
    """Return the top-level names of all modules that the package's modules import."""
    names: set[str] = set()
    for file in (ROOT / "speclsp").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"speclsp"}


def declared() -> set[str]:
    """Return the names of the package's dependencies."""
    return names_in(project()["dependencies"])


def optional() -> set[str]:
    """Return the names of what the package imports where an extra is installed."""
    extras = project()["optional-dependencies"]
    return names_in(extras["cluster"] + extras["http"])


def names_in(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", line)[0]) for line in requirements}


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def distributions_of(name: str) -> set[str]:
    """Return the names of what may be installed to import ``name``."""
    return {normal(found) for found in packages_distributions().get(name, [name])}


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.slow
def test_every_import_is_a_declared_dependency():
    known = declared() | optional()
    assert {name for name in imported() if not distributions_of(name) & known} == set()


@pytest.mark.slow
def test_every_dependency_is_imported_and_locked():
    assert declared() <= set().union(*map(distributions_of, imported()))
    for lock in ("requirements.lock", "requirements-dev.lock"):
        pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE))
        assert declared() <= pinned
