"""The invariants of ARCHITECTURE.md about who may import what, checked on the source."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import speclsp
from speclsp.lsp.framing import FrameDecoder, frame

PACKAGE = Path(speclsp.__file__).parent

# The layer of each module or package directly below speclsp/.
LAYERS = {
    "__init__": 0,
    "errors": 0,
    "events": 0,
    "settings": 0,
    "settings_resolution": 0,
    "cancellation": 0,
    "request": 0,
    "documents": 0,
    "seam": 0,
    "embedded": 0,
    "install_llama_cpp": 0,
    "atomic_write": 0,
    "prompt": 1,
    "drafting": 1,
    "decoding": 1,
    "text": 1,
    "secrets": 1,
    "storage": 1,
    "ngrams": 1,
    "engine": 2,
    "hub": 2,
    "remote": 2,
    "project": 2,
    "completer": 3,
    "engine_process": 3,
    "suggestions": 3,
    "lsp": 4,
    "cli": 5,
    "__main__": 5,
}

# Third-party packages that only one place may import.
ONLY_IN = {
    "llama_cpp": ("engine/llama/",),
    # The headless protocol runs on the same JSON-RPC stack.
    "pygls": ("lsp/", "cli/headless.py"),
    "lsprotocol": ("lsp/",),
    "psutil": (
        "engine/battery.py",
        "engine/llama/loading.py",
        "engine_process/lifetime.py",
    ),
    "watchdog": ("project/watch.py",),
    "pathspec": ("project/",),
    "sqlite3": ("storage/",),
    "huggingface_hub": ("hub/download.py",),
    "httpx2": ("remote/",),
    "distributed": ("cli/ngram_build.py",),
    "click": ("cli/",),
    "rich": ("cli/",),
}

# L1 computes: no threads, no processes, no network; only the stores touch files.
PURE = {"prompt", "drafting", "decoding", "text", "secrets"}
IMPURE_MODULES = {
    "threading",
    "subprocess",
    "socket",
    "asyncio",
    "multiprocessing",
    "time",
    "random",
}


def sources() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if "_fixtures" not in p.parts)


def imported_modules(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def home(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def test_every_module_has_a_layer():
    assert {home(path) for path in sources()} <= set(LAYERS)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path):
    layer = LAYERS[home(path)]
    for module in imported_modules(path):
        parts = module.split(".")
        if parts[0] == "speclsp" and len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS[parts[1]] <= layer, f"{path} (L{layer}) imports {module}"


def test_no_import_cycles():
    """Imports for type checkers count, too."""
    paths = {
        ".".join(("speclsp", *p.relative_to(PACKAGE).with_suffix("").parts)): p for p in sources()
    }
    graph = {name: imported_modules(path) & paths.keys() for name, path in paths.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


# The two sides of the seam: what the one holds the other does not import.
SIDES = {"suggestions": "completer", "lsp": "completer", "completer": "suggestions"}


@pytest.mark.parametrize(
    "path",
    [p for p in sources() if home(p) in SIDES],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_the_sides_of_the_seam_meet_in_it_only(path: Path):
    other = f"speclsp.{SIDES[home(path)]}"
    assert not [m for m in imported_modules(path) if m == other or m.startswith(f"{other}.")]


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_foreign_packages_stay_behind_their_border(path: Path):
    relative = path.relative_to(PACKAGE).as_posix()
    for module in imported_modules(path):
        allowed = ONLY_IN.get(module.split(".")[0])
        if allowed is not None:
            assert relative.startswith(allowed), f"{relative} imports {module}"


@pytest.mark.parametrize(
    "path", [p for p in sources() if home(p) in PURE], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_the_computing_layer_has_no_threads_clock_or_files(path: Path):
    assert not IMPURE_MODULES & {m.split(".")[0] for m in imported_modules(path)}
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not {"open", "print"} & calls


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_prints_since_stdout_is_the_wire(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{path}:{node.lineno}"


def test_no_folder_is_a_drawer_for_everything():
    stems = {p.stem for p in sources()}
    assert not stems & {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_the_product_knows_neither_its_benchmarks_nor_its_training(path: Path):
    beside = {"benchmarks", "training", "tests", "tools"}
    assert not beside & {module.split(".")[0] for module in imported_modules(path)}


def test_initialize_is_answered_before_most_modules_are_imported():
    """lsprotocol alone takes 0.2 s, and editors wait for the answer."""
    code = """
import sys
from speclsp.cli import serve

def stop(_):
    sys.exit("\\n".join(sys.modules))

serve._make_server = stop
serve.serve([])
"""
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"capabilities": {}}}
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        input=frame(json.dumps(message).encode()),
    )
    (answer,) = FrameDecoder().feed(outcome.stdout)
    assert json.loads(answer)["id"] == 7
    loaded = {name.partition(".")[0] for name in outcome.stderr.decode().split()}
    assert "speclsp" in loaded
    assert not loaded & {"lsprotocol", "pygls", "cattrs", "attrs", "platformdirs"}
    parts = ("secrets", "suggestions", "engine_process", "text", "engine", "project")
    assert not {f"speclsp.{part}" for part in parts} & set(outcome.stderr.decode().split())


@pytest.mark.parametrize(
    "module", ["speclsp.suggestions.window", "speclsp.lsp.server", "speclsp.engine_process.client"]
)
def test_the_windows_side_loads_no_engine(module: str):
    """A window's server shall answer ``initialize`` at once and take little memory."""
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    engines = {"engine.llama", "completer", "drafting", "storage", "ngrams"}
    heavy = {"numpy", "llama_cpp", "sqlite3", "watchdog"} | {f"speclsp.{name}" for name in engines}
    assert not heavy & set(loaded)
