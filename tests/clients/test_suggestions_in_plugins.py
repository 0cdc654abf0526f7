"""Suggestions in real plugins, in real Neovims: each client and feature is a cell of the table."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from client_features import feature
from nvim_plugins import PLUGINS
from plugin_session import EDITORS, PluginSession
from real_neovim import SOURCE, START

SKIN = re.compile("[\U0001f3fb-\U0001f3ff]")
"""What the tests' terminal leaves out behind a Neovim that draws it with what it modifies."""
CLIENTS = [
    pytest.param((plugin, suite), id=f"{plugin.name} {suite}")
    for plugin in PLUGINS
    for suite in plugin.suites
]
pytestmark = pytest.mark.parametrize("session", CLIENTS, indirect=True)


@pytest.fixture(autouse=True)
def noted(
    session: PluginSession, request: pytest.FixtureRequest, record_property: Callable[..., None]
) -> Any:
    """Name the cell; no client may have shown an error in the end."""
    record_property("client", session.plugin.name)
    record_property("editor", EDITORS[session.suite])
    mark = request.node.get_closest_marker("feature")
    if mark.args[0] in {"word", "line", "dismissed"}:
        key = {"dismissed": "dismiss"}.get(mark.args[0], mark.args[0])
        if key not in session.plugin.keys:
            pytest.skip("the client has no key for it")
    yield
    if session.editor.is_running:
        assert session.editor.problems() == []


def text(session: PluginSession) -> str:
    return "\n".join(session.editor.lines) + "\n"


@feature("shown")
def test_shown(session):
    session.open("shown.py", SOURCE)
    suggestion = session.type(START)
    assert suggestion.startswith("ustomer(")
    first = suggestion.split("\n")[0]
    if session.plugin.namespaces:
        session.until(lambda: session.editor.shows(START + first))
    else:
        session.until(lambda: session.editor.shows("make_c" + first[:20]))


@feature("whole")
def test_whole(session):
    session.open("whole.py", SOURCE)
    suggestion = session.type(START)
    session.press("whole")
    session.until(lambda: text(session) == SOURCE + START + suggestion + "\n")


@feature("word")
def test_word(session):
    session.open("word.py", SOURCE)
    suggestion = session.type(START)
    session.press("word")
    word = session.until(lambda: session.editor.line.removeprefix(START))
    assert suggestion.startswith(word)
    assert len(word.split()) == 1
    assert text(session) == SOURCE + START + word + "\n"


@feature("line")
def test_line(session):
    session.open("line.py", SOURCE)
    suggestion = session.type(START)
    session.press("line")
    line = suggestion.split("\n")[0]
    session.until(lambda: START + line in session.editor.lines)
    assert text(session).rstrip("\n") == SOURCE + START + line


@feature("undone")
def test_undone(session):
    session.open("undone.py", SOURCE)
    suggestion = session.type(START)
    session.press("whole")
    session.until(lambda: text(session) == SOURCE + START + suggestion + "\n")
    session.editor.keys("<Esc>", "u")
    # A client may or may not begin a new step of undo with what it inserts.
    session.until(lambda: text(session) in {SOURCE, SOURCE + START + "\n"})
    session.editor.keys("<C-r>")
    session.until(lambda: text(session) == SOURCE + START + suggestion + "\n")


@feature("dismissed")
def test_dismissed(session):
    session.open("dismissed.py", SOURCE)
    session.type(START)
    session.press("dismiss")
    session.until(lambda: not session.suggestion)
    assert session.quiet()
    assert text(session) == SOURCE + START + "\n"


@feature("typed-through")
def test_typed_through(session):
    session.open("through.py", SOURCE)
    suggestion = session.type(START)
    for n_typed in range(1, 5):
        rest = session.go_on(suggestion[n_typed - 1])
        # By HTTP a plugin asks at each key, and has texts drawn by chance.
        assert session.plugin.is_http or rest == suggestion[n_typed:]
    session.press("whole")
    session.until(lambda: text(session) == SOURCE + START + suggestion[:4] + rest + "\n")


@feature("other-buffer")
def test_other_buffer(session):
    """The answer to the first buffer's request comes while the second one is shown."""
    session.open("second.py", "print(1)\n")
    session.open("first.py", SOURCE)
    session.editor.keys("o")
    session.editor.type(START)
    session.editor.nvim.command("buffer second.py")  # still in Insert mode
    end = time.monotonic() + 2
    while time.monotonic() < end:
        # The second buffer may have a suggestion of its own.
        assert not session.suggestion.startswith("ustomer")
        time.sleep(0.05)
    session.editor.keys("<Esc>")
    assert text(session) == "print(1)\n"
    session.editor.nvim.command("buffer first.py")
    session.editor.keys("A")
    suggestion = session.ask()
    session.press("whole")
    session.until(lambda: text(session) == SOURCE + START + suggestion + "\n")


def word_before(session: PluginSession, name: str, word: str) -> None:
    source = SOURCE.replace("name_", word)
    session.open(f"{name}.py", source)
    start = f'CUSTOMER_8 = make_customer("{word}8", ci'
    suggestion = session.type(start)
    assert suggestion.startswith("ty=")
    if session.plugin.namespaces:
        first = suggestion.split("\n")[0]
        shown = SKIN.sub("", start + first)
        session.until(lambda: shown in SKIN.sub("", session.editor.screen))
    session.press("whole")
    session.until(lambda: text(session) == source + start + suggestion + "\n")


@feature("accents")
def test_accents(session):
    word_before(session, "accents", "éàü_")


@feature("emoji")
def test_emoji(session):
    word_before(session, "emoji", "👋🏽😀_")


@feature("cjk")
def test_cjk(session):
    word_before(session, "cjk", "世界こんにちは_")


@feature("crlf")
def test_crlf(session):
    source = SOURCE.replace("\n", "\r\n").encode()
    path = session.open("crlf.py", source)
    suggestion = session.type(START)
    assert "\r" not in suggestion
    assert not session.editor.shows("^M")
    session.press("whole")
    session.until(lambda: text(session) == SOURCE + START + suggestion + "\n")
    session.editor.keys("<Esc>", ":", "w", "<CR>")
    wanted = source + (START + suggestion + "\n").replace("\n", "\r\n").encode()
    session.until(lambda: path.read_bytes() == wanted)


TABBED = "".join(
    f"def open_{name}():\n\tif is_{name}:\n\t\tprint('open {name}')\n\t\treturn '{name}'\n\n"
    for name in ("door", "gate", "shop", "window")
)


@feature("tabs")
def test_tabs(session):
    session.open("tabs.py", TABBED)
    session.editor.nvim.command("setlocal noexpandtab tabstop=4")
    suggestion = session.type("def open_box():\n\tif is_box:\n\t\tpr")
    session.press("whole")
    added = "def open_box():\n\tif is_box:\n\t\tpr" + suggestion
    session.until(lambda: text(session) == TABBED + added + "\n")
    assert "    " not in suggestion


@feature("empty")
def test_empty(session):
    session.open("empty.py", "")
    session.editor.keys("i")
    session.editor.type("import ")
    time.sleep(1.0)
    session.editor.type("o")
    time.sleep(1.0)
    assert text(session) == "import o\n"
    assert session.editor.problems() == []


@feature("large")
def test_large(session):
    large = SOURCE * (2_000_000 // len(SOURCE))
    session.open("large.py", large)
    session.editor.nvim.command(f"{len(large.splitlines()) // 16 * 8}")
    suggestion = session.type(START)
    session.press("whole")
    session.until(lambda: START + suggestion.split("\n")[0] in session.editor.lines)
    assert len("\n".join(session.editor.lines)) == len(large + START + suggestion)
    session.editor.nvim.command("bwipeout!")


@feature("no-newline")
def test_no_newline(session):
    path = session.open("bare.py", SOURCE + START)
    session.editor.nvim.command("setlocal nofixendofline")
    session.editor.keys("A")
    suggestion = session.go_on("u")
    session.press("whole")
    session.until(lambda: text(session) == SOURCE + START + "u" + suggestion + "\n")
    session.editor.keys("<Esc>", ":", "w", "<CR>")
    session.until(lambda: path.read_text() == SOURCE + START + "u" + suggestion)


@feature("closed")
def test_closed(session):
    """Its server ends, or serves others."""
    session.open("closed.py", SOURCE)
    session.editor.keys("o")
    session.editor.type(START)
    session.until_ended()
