from __future__ import annotations

import gc
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from speclsp.cli import serve as serve_module
from speclsp.cli.serve import serve
from speclsp.cli.window_completer import make_completer
from speclsp.completer.local import LocalCompleter
from speclsp.engine_process.client import SharedCompleter
from speclsp.lsp import sockets
from speclsp.settings import Settings


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--stdio", "--tcp", "127.0.0.1:0"], "one of"),
        (["--ws", "127.0.0.1:0"], "--ws"),
        (["--tcp", "nowhere"], "--tcp"),
        (["--tcp", "127.0.0.1:99999"], "--tcp"),
        (["--ctx-size", "x"], "--ctx-size"),
        (["--no-token"], "--tcp"),
        (["--stdio", "--token-file", "t"], "--tcp"),
        (["--tcp", "0", "--no-token", "--token-file", "t"], "one of"),
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


@pytest.mark.usefixtures("interpreter")
def test_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"

    def served(*argv: str) -> tuple[str | None, str]:
        """Return the token that is asked of clients, and what the command wrote."""
        tokens: list[str | None] = []

        def serve_tcp(*_: Any, token: str | None, on_listening: Any) -> int:
            tokens.append(token)
            on_listening("127.0.0.1", 2087)
            return 0

        monkeypatch.setattr(sockets, "serve_tcp", serve_tcp)
        outcome = CliRunner().invoke(serve, ["--tcp", "2087", *argv])
        assert outcome.exit_code == 0
        return tokens[0], outcome.output

    token, written = served()
    assert token is not None
    assert len(token) > 40
    assert written == f"speclsp listens on 127.0.0.1:2087\ntoken: {token}\n"
    assert served()[0] != token
    assert served("--no-token") == (None, "speclsp listens on 127.0.0.1:2087\n")
    token, written = served("--token-file", str(file))
    assert file.read_text() == f"{token}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "token" not in written
    assert served("--token-file", str(file))[0] == token
    link = tmp_path / "link"
    link.symlink_to(file)
    outcome = CliRunner().invoke(serve, ["--tcp", "2087", "--token-file", str(link)])
    assert "symbolic link" in str(outcome.exception)


@pytest.mark.usefixtures("interpreter")
def test_without_a_safe_folder_for_a_shared_engine_the_window_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(engine="shared", persist=False)
    assert isinstance(make_completer(settings), SharedCompleter)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    completer = make_completer(settings)
    assert isinstance(completer, LocalCompleter)
    completer.close()
    assert "too long" in caplog.text
    assert "loads the models itself" in caplog.text
