"""Writes what owner.toml says into pyproject.toml, the VS Code extension's package and SECURITY.md.

``python tools/owner.py`` (``make owner``) writes; ``--missing`` prints what is not filled in.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYPROJECT, PACKAGE = "pyproject.toml", "editors/vscode/package.json"
SECURITY = "SECURITY.md"

_URLS = re.compile(r"\[project\.urls\]\n(?:.+\n)*\n")
_CONTACT = re.compile(r"(names here: ).*(\.\n)")
_NO_CONTACT = "*not filled in yet*"
_NO_PUBLISHER = "speclsp"


def owner(root: Path = ROOT) -> dict[str, str]:
    """Return what the owner filled in, by name; empty where nothing is."""
    found: dict[str, str] = tomllib.loads((root / "owner.toml").read_text(encoding="utf-8"))
    return found


def missing(filled: dict[str, str]) -> list[str]:
    """Return the names of what is not filled in."""
    return [name for name, value in filled.items() if not value]


def written(filled: dict[str, str], texts: dict[str, str]) -> dict[str, str]:
    """Return the files' texts with what the owner filled in."""
    repository = filled["repository"].rstrip("/")
    urls = {
        "Homepage": repository,
        "Documentation": f"{repository}/tree/main/docs",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    table = f"[project.urls]\n{lines}\n" if repository else ""
    pyproject = _URLS.sub("", texts[PYPROJECT])
    pyproject = pyproject.replace("[project.scripts]\n", f"{table}[project.scripts]\n", 1)

    package = json.loads(texts[PACKAGE])
    package["publisher"] = filled["publisher"] or _NO_PUBLISHER
    for name, value in (
        ("repository", {"type": "git", "url": f"{repository}.git"}),
        ("bugs", {"url": urls["Issues"]}),
    ):
        if repository:
            package[name] = value
        else:
            package.pop(name, None)

    contact = filled["security_contact"] or _NO_CONTACT
    return {
        PYPROJECT: pyproject,
        PACKAGE: json.dumps(package, indent=2, ensure_ascii=False) + "\n",
        SECURITY: _CONTACT.sub(lambda found: f"{found[1]}{contact}{found[2]}", texts[SECURITY]),
    }


def main() -> None:
    """Write the files, or print what is missing."""
    filled = owner()
    if sys.argv[1:] == ["--missing"]:
        for name in missing(filled):
            sys.stdout.write(f"owner.toml: {name} is not filled in.\n")
        return
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in (PYPROJECT, PACKAGE, SECURITY)
    }
    for name, text in written(filled, texts).items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
