"""A project to type into, and Neovims to type with."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_folder import engines_of_the_tests  # noqa: F401  # a fixture for all tests
from real_neovim import BACKENDS, SOURCE, VERSIONS, Editor
from rewriting_model import rewriting

from tests.support.recording_server import RecordingServer, recording_server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / "customers.py").write_text(SOURCE)
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "bare" in metafunc.fixturenames:
        is_drawn = metafunc.definition.get_closest_marker("each_backend") is not None
        editors = BACKENDS if is_drawn else VERSIONS
        metafunc.parametrize("bare", editors.values(), ids=editors.keys(), indirect=True)


@pytest.fixture
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Editor]:
    """A Neovim in which setup() has not been called yet."""
    suite, backend = request.param
    editor = Editor(suite, tmp_path / "home", backend)
    yield editor
    editor.close()
    shutil.rmtree(tmp_path / "home", ignore_errors=True)


@pytest.fixture
def without_plugin(tmp_path: Path) -> Iterator[Editor]:
    """A Neovim 0.12 without the plugin on its runtime path."""
    editor = Editor("forky", tmp_path / "home", has_plugin=False)
    yield editor
    editor.close()


@pytest.fixture
def editor(bare: Editor, project: Path) -> Editor:
    """A Neovim with the server ready and customers.py open, the cursor on its last line."""
    bare.setup()
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.keys("G")
    return bare


@pytest.fixture
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", "") as server:
        # One use after another, as a user accepts them.
        server.answer = rewriting(lambda region: re.sub(r"\bprices\b", "amounts", region, count=1))
        yield server
