from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from speclsp.cli import serve as serve_module
from speclsp.cli.serve import serve


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--stdio", "--tcp", "127.0.0.1:0"], "one of"),
        (["--tcp", "127.0.0.1:0", "--ws", "127.0.0.1:0"], "one of"),
        (["--tcp", "nowhere"], "--tcp"),
        (["--ws", "127.0.0.1:99999"], "--ws"),
        (["--ctx-size", "x"], "--ctx-size"),
    ],
)
def test_wrong_options_are_usage_errors(argv: list[str], word: str) -> None:
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
def test_the_interpreter_has_nothing_to_look_through_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve_module, "serve_stdio", lambda *_: 0)
    n_before = gc.get_freeze_count()
    assert CliRunner().invoke(serve, ["--stdio"]).exit_code == 0
    assert gc.get_freeze_count() > n_before
