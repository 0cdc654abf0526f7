"""The table of clients and features: what a run found, kept in files, and drawn.

A file in ``tests/clients/results``, of a client in an editor, says for each feature ``yes``,
``no``, ``–`` where the client has no such thing, or a sentence about what stays the client's own.
The table in docs/editors.md is drawn from these files.
"""

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

HERE: Final = Path(__file__).parents[1] / "clients"
PINS: Final[dict[str, dict[str, str]]] = tomllib.loads((HERE / "clients.toml").read_text())
CHECKOUTS: Final = os.environ.get("SPECLSP_CLIENTS", "")
IS_WRITTEN: Final = bool(os.environ.get("SPECLSP_CLIENTS_WRITE"))
"""Whether a run writes its results and recordings into the repository."""
HAS_NONE: Final = "–"

FEATURES: Final = {
    "shown": "typed, and seen on the screen",
    "whole": "accepted whole",
    "word": "accepted by word",
    "line": "accepted by line",
    "undone": "accepted and undone",
    "dismissed": "dismissed",
    "typed-through": "typed through",
    "other-buffer": "another buffer",
    "accents": "é before the cursor",
    "emoji": "an emoji before the cursor",
    "cjk": "CJK before the cursor",
    "crlf": "CRLF file",
    "tabs": "tabs",
    "empty": "empty file",
    "large": "file of 2 MB",
    "no-newline": "no newline at the end",
    "closed": "closed while a request runs",
    "real": "Qwen2.5-Coder 0.5B",
}
"""Features in the order of the table's rows."""


def feature(name: str) -> pytest.MarkDecorator:
    """Mark a test as the cell of a feature; its property ``client`` names the column."""
    assert name in FEATURES
    return pytest.mark.feature(name)


def checkout(name: str) -> Path:
    """Return a plugin's checkout; skips where there is none."""
    if not CHECKOUTS:
        pytest.skip("SPECLSP_CLIENTS names no folder of plugins (tests/clients/clients.toml)")
    path = Path(CHECKOUTS) / name
    if not path.is_dir():
        pytest.skip(f"{path} is missing: {PINS[name]['repository']} at {PINS[name]['commit']}")
    head = ("git", "-C", str(path), "rev-parse", "HEAD")
    found = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
    if found != PINS[name]["commit"]:
        pytest.skip(f"{path} is at {found[:7] or 'no commit'}, not at {PINS[name]['commit']}")
    return path


def real_model() -> str:
    """Return the path of Qwen2.5-Coder 0.5B; skips where there is none."""
    folder = Path(os.environ.get("SPECLSP_REAL_MODELS", "")).expanduser()
    path = folder / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
    if not path.is_file():
        pytest.skip(f"SPECLSP_REAL_MODELS names no folder with {path.name}")
    return str(path)


def note_result(folder: Path, client: str, editor: str, feature: str, found: str) -> None:
    """Put one cell of the table into its client's file; ``client`` may name a commit's short id."""
    path = folder / f"{client}, {editor}.json"
    kept: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    cells = {**kept.get("features", {}), feature: found}
    ordered = {name: cells[name] for name in FEATURES if name in cells}
    pin = PINS.get(client)
    written = {
        "client": client,
        "commit": pin["commit"][:7] if pin else "",
        "editor": editor,
        "features": ordered,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8")


PAGE: Final = HERE.parents[1] / "docs" / "editors.md"
_MARKS: Final = ("<!-- the table of make clients -->\n", "<!-- its end -->\n")


def table_in_page() -> str:
    """Return the table that docs/editors.md has."""
    _, _, behind = PAGE.read_text("utf-8").partition(_MARKS[0])
    return behind.partition(_MARKS[1])[0]


def write_into_page(folder: Path) -> None:
    """Put the table of a folder of results into docs/editors.md."""
    before, mark, behind = PAGE.read_text("utf-8").partition(_MARKS[0])
    _, end, after = behind.partition(_MARKS[1])
    assert mark
    assert end
    PAGE.write_text(before + mark + table(folder) + end + after, "utf-8")


def table(folder: Path) -> str:
    """Return the table of a folder of results as Markdown, with notes below it."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    notes: list[str] = []

    def cell(text: str) -> str:
        if text in {"yes", "no", HAS_NONE, ""}:
            return text
        if text not in notes:
            notes.append(text)
        return f"({notes.index(text) + 1})"

    rows = [["", *(one["client"] for one in found)], ["---"] * (len(found) + 1)]
    rows.append(["version", *(one["commit"] or "built in" for one in found)])
    rows.append(["editor", *(one["editor"] for one in found)])
    for feature, words in FEATURES.items():
        rows.append([words, *(cell(one["features"].get(feature, "")) for one in found)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([*lines, *([""] if numbered else []), *numbered]) + "\n"
