"""The invariants of ARCHITECTURE.md about who may import what, checked on the source."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import speclsp
from speclsp.rpc.framing import FrameDecoder, frame

PACKAGE = Path(speclsp.__file__).parent

# The layer of each module or package directly below speclsp/.
LAYERS = {
    "__init__": 0,
    "errors": 0,
    "event_loop": 0,
    "log": 0,
    "printable": 0,
    "settings": 0,
    "settings_resolution": 0,
    "common_ends": 0,
    "cores": 0,
    "model_title": 0,
    "vocabulary_protocol": 0,
    "seam": 0,
    "embedded": 0,
    "install_llama_cpp": 0,
    "atomic_write": 0,
    "rpc": 1,
    "prompt": 1,
    "drafting": 1,
    "edits": 1,
    "decoding": 1,
    "reporting": 1,
    "text": 1,
    "secrets": 1,
    "storage": 1,
    "ngrams": 1,
    "backends": 2,
    "models": 2,
    "project": 2,
    "completer": 3,
    "engine_process": 3,
    "window": 3,
    "lsp": 4,
    "http_server": 4,
    "cli": 5,
    "__main__": 5,
}

# Third-party packages that only one place may import.
ONLY_IN = {
    "llama_cpp": ("backends/llama/",),
    # The headless protocol runs on the same JSON-RPC stack.
    "pygls": ("rpc/", "lsp/", "cli/headless.py"),
    "lsprotocol": ("lsp/",),
    "psutil": ("completer/battery.py", "backends/llama/loading.py", "engine_process/lifetime.py"),
    "watchdog": ("project/watch.py",),
    "pathspec": ("project/",),
    "sqlite3": ("storage/",),
    "huggingface_hub": ("models/",),
    # Code goes to engines by backends/http/, requests for models by models/.
    "httpx2": ("backends/http/", "models/"),
    "distributed": ("cli/ngram_build.py",),
    "starlette": ("http_server/",),
    "uvicorn": ("cli/http.py", "http_server/connections.py"),
    "click": ("cli/",),
    "rich": ("cli/",),
}

# L1 computes: no threads, no processes, no network; only the stores touch files.
PURE = {"prompt", "drafting", "edits", "decoding", "reporting", "text", "secrets"}
IMPURE_MODULES = {
    "threading",
    "subprocess",
    "socket",
    "asyncio",
    "multiprocessing",
    "time",
    "random",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One module of the product."""

    name: str
    """Its path below ``speclsp/``."""
    home: str
    """The module or package directly below ``speclsp/``."""
    modules: frozenset[str]
    """The modules that it imports; ``from a import b`` counts as a and a.b."""
    calls: frozenset[str]
    """The names that it calls as functions."""


def read(path: Path) -> Source:
    modules: set[str] = set()
    calls: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.add(node.func.id)
    relative = path.relative_to(PACKAGE)
    home = relative.parts[0] if len(relative.parts) > 1 else relative.stem
    return Source(relative.as_posix(), home, frozenset(modules), frozenset(calls))


SOURCES = [read(path) for path in sorted(PACKAGE.rglob("*.py")) if "_fixtures" not in path.parts]


def top(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_every_module_has_a_layer():
    assert len(SOURCES) > 150
    assert {source.home for source in SOURCES} <= set(LAYERS)


def test_imports_go_down_only():
    upward = [
        (source.name, module)
        for source in SOURCES
        for module in source.modules
        if (parts := module.split("."))[0] == "speclsp"
        and LAYERS.get((*parts, "")[1], 0) > LAYERS[source.home]
    ]
    assert upward == []


def test_no_import_cycles():
    """Imports for type checkers count, too."""
    by_module = {
        f"speclsp.{source.name.removesuffix('.py').replace('/', '.')}": source.modules
        for source in SOURCES
    }
    graph = {name: modules & by_module.keys() for name, modules in by_module.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


# The two sides of the seam: what the one holds the other does not import.
SIDES = {"window": "completer", "lsp": "completer", "completer": "window"}


def test_the_sides_of_the_seam_meet_in_it_only():
    across = [
        (source.name, module)
        for source in SOURCES
        for module in source.modules
        if f"{module}.".startswith(f"speclsp.{SIDES.get(source.home, '-')}.")
    ]
    assert across == []


def test_foreign_packages_stay_behind_their_border():
    strays = [
        (source.name, module)
        for source in SOURCES
        for module in source.modules
        if not source.name.startswith(ONLY_IN.get(module.partition(".")[0], ""))
    ]
    assert strays == []


def test_the_computing_layer_has_no_threads_clock_or_files():
    pure = [source for source in SOURCES if source.home in PURE]
    assert {source.home for source in pure} == PURE
    assert [s.name for s in pure if IMPURE_MODULES & top(s.modules) or "open" in s.calls] == []


def test_nothing_prints_since_stdout_is_the_wire():
    assert [source.name for source in SOURCES if "print" in source.calls] == []


def test_no_folder_is_a_drawer_for_everything():
    stems = {Path(source.name).stem for source in SOURCES}
    assert not stems & {"utils", "util", "helpers", "common", "misc"}


def test_the_product_knows_neither_its_benchmarks_nor_its_training():
    beside = {"benchmarks", "training", "tests", "tools"}
    assert [source.name for source in SOURCES if beside & top(source.modules)] == []


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
    parts = ("secrets", "window", "engine_process", "text", "backends", "project")
    assert not {f"speclsp.{part}" for part in parts} & set(outcome.stderr.decode().split())


@pytest.mark.parametrize(
    "module", ["speclsp.window.window", "speclsp.lsp.server", "speclsp.engine_process.client"]
)
def test_the_windows_side_loads_no_engine(module):
    """A window's server shall answer ``initialize`` at once and take little memory."""
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    engines = {"backends.llama", "completer", "drafting", "storage", "ngrams"}
    heavy = {"numpy", "llama_cpp", "sqlite3", "watchdog", "httpx2", "huggingface_hub"} | {
        f"speclsp.{name}" for name in engines
    }
    assert not heavy & set(loaded)
