import gc
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from speclsp.cli import serve as serve_module
from speclsp.cli.serve import serve
from speclsp.cli.window_completer import make_completer
from speclsp.completer.local import LocalCompleter
from speclsp.engine_process.client import SharedCompleter
from speclsp.settings import Settings


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--ws", "127.0.0.1:0"], "--ws"),
        (["--tcp", "127.0.0.1:0"], "--tcp"),
        (["--ctx-size", "x"], "--ctx-size"),
    ],
)
def test_wrong_options_are_usage_errors(argv, word):
    outcome = CliRunner().invoke(serve, argv)
    assert outcome.exit_code == 2
    assert word in outcome.output


@pytest.fixture
def interpreter() -> Iterator[None]:
    interval_s = sys.getswitchinterval()
    yield
    gc.unfreeze()
    sys.setswitchinterval(interval_s)


@pytest.mark.usefixtures("interpreter")
def test_the_interpreter_has_nothing_to_look_through_at_the_end(monkeypatch):
    monkeypatch.setattr(serve_module, "serve_stdio", lambda *_: 0)
    n_before = gc.get_freeze_count()
    assert CliRunner().invoke(serve, ["--stdio"]).exit_code == 0
    assert gc.get_freeze_count() > n_before


@pytest.mark.usefixtures("interpreter")
def test_without_a_safe_folder_for_a_shared_engine_the_window_has_its_own(
    tmp_path, monkeypatch, caplog
):
    settings = Settings(engine="shared", persist=False)
    assert isinstance(make_completer(settings), SharedCompleter)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    completer = make_completer(settings)
    assert isinstance(completer, LocalCompleter)
    completer.close()
    assert "too long" in caplog.text
    assert "loads the models itself" in caplog.text
