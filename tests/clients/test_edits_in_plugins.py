"""Next edits in the plugins that ask for them by Copilot's method: cells of the table."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from client_features import feature
from nvim_plugins import EDITING, Plugin
from plugin_session import EDITORS, PluginSession, accept_edit, rename
from rewriting_model import CART, rewriting

from tests.support.recording_server import RecordingServer, recording_server

CODE = """def total(prices, rate):
    result = 0
    for price in prices:
        result += price
    return result
"""


@pytest.fixture
def code(request: pytest.FixtureRequest) -> str:
    """Return code whose lines are a test's own: what was declined in one file stays away."""
    name = request.node.originalname.removeprefix("test_")
    return CODE.replace("price in", f"{name} in")


pytestmark = pytest.mark.parametrize(
    "plugin",
    [pytest.param(plugin, id=plugin.name) for plugin in EDITING],
    scope="module",
)


@pytest.fixture(scope="module")
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", "") as server:
        server.answer = rewriting(lambda region: re.sub(r"\bprices\b", "amounts", region))
        yield server


@pytest.fixture(scope="module")
def session(
    plugin: Plugin, model: RecordingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PluginSession]:
    remote = ("--engine-url", model.address, "--engine-kind", "openai", "--idle-work", "never")
    session = PluginSession(
        plugin,
        "forky",
        tmp_path_factory.mktemp("session"),
        *remote,
        replaced=("edit_model = 'embedded'", ""),
    )
    yield session
    session.close()


@pytest.fixture(autouse=True)
def noted(
    request: pytest.FixtureRequest, plugin: Plugin, record_property: Callable[..., None]
) -> Any:
    record_property("client", plugin.name)
    record_property("editor", EDITORS["forky"])
    yield
    if "session" in request.fixturenames:
        session = request.getfixturevalue("session")
        if session.editor.is_running:
            assert session.editor.problems() == []


def renamed(code: str) -> str:
    return code.replace("(prices", "(amounts", 1)


def wanted(code: str) -> str:
    return re.sub(r"\bprices\b", "amounts", code)


def text(session: PluginSession) -> str:
    return "\n".join(session.editor.lines) + "\n"


@feature("shown")
def test_shown(session, code):
    session.open("shown.py", code)
    rename(session)
    session.until(lambda: re.search(r"in .*amounts", session.editor.screen))


@feature("whole")
def test_whole(session, code):
    session.open("whole.py", code)
    rename(session)
    accept_edit(session)
    assert text(session) == wanted(code)


@feature("undone")
def test_undone(session, code):
    """What was undone does not come again."""
    session.open("undone.py", code)
    rename(session)
    accept_edit(session)
    session.editor.keys("u")
    session.until(lambda: text(session) == renamed(code))
    assert session.quiet(2.0)
    session.editor.keys("<C-r>")
    session.until(lambda: text(session) == wanted(code))


@feature("dismissed")
def test_dismissed(session, code):
    session.open("dismissed.py", code)
    rename(session)
    session.editor.keys("<Esc>")
    session.until(lambda: not session.suggestion)
    assert session.quiet()
    assert text(session) == renamed(code)


@feature("other-buffer")
def test_other_buffer(session, code):
    session.open("second.py", "print(1)\n")
    session.open("first.py", code)
    session.editor.keys("1", "G", "0", "f", "p", "c", "w")
    session.editor.type("amounts")
    session.editor.keys("<Esc>")
    session.editor.nvim.command("buffer second.py")
    assert session.quiet()
    assert "amounts" not in session.editor.screen
    assert text(session) == "print(1)\n"


def word_before(session: PluginSession, name: str, word: str) -> None:
    code = CODE.replace("for price in prices:", f"for price in wait('{word}', prices, '{word}'):")
    session.open(f"{name}.py", code)
    rename(session)
    shown = f"for price in wait('{word}',"
    session.until(lambda: session.editor.shows(shown))
    accept_edit(session)
    assert text(session) == code.replace("prices", "amounts")


@feature("accents")
def test_accents(session, code):
    word_before(session, "accents", "éàü")


@feature("emoji")
def test_emoji(session, code):
    word_before(session, "emoji", "😀🚀")


@feature("cjk")
def test_cjk(session, code):
    word_before(session, "cjk", "世界こんにちは")


@feature("crlf")
def test_crlf(session, code):
    path = session.open("crlf.py", code.replace("\n", "\r\n"))
    rename(session)
    assert not session.editor.shows("^M")
    accept_edit(session)
    assert text(session) == wanted(code)
    session.editor.keys(":", "w", "<CR>")
    session.until(lambda: path.read_bytes() == wanted(code).replace("\n", "\r\n").encode())


@feature("tabs")
def test_tabs(session, code):
    session.open("tabs.py", code.replace("    ", "\t"))
    rename(session)
    accept_edit(session)
    assert text(session) == wanted(code).replace("    ", "\t")


@feature("empty")
def test_empty(session):
    session.open("empty.py", "")
    session.editor.keys("i")
    session.editor.type("x")
    session.editor.keys("<Esc>")
    time.sleep(1.0)
    assert text(session) == "x\n"


@feature("large")
def test_large(session, code):
    rest = "# nothing to see here, only some more lines of a large file\n" * 33_000
    session.open("large.py", code + rest)
    rename(session)
    accept_edit(session)
    assert text(session) == wanted(code) + rest
    session.editor.nvim.command("bwipeout!")


@feature("no-newline")
def test_no_newline(session):
    code = "def total(prices, rate):\n    return sum(prices)"
    path = session.open("bare.py", code)
    session.editor.nvim.command("setlocal nofixendofline")
    rename(session)
    accept_edit(session)
    assert text(session) == code.replace("prices", "amounts") + "\n"
    session.editor.keys(":", "w", "<CR>")
    session.until(lambda: path.read_text() == code.replace("prices", "amounts"))


@feature("closed")
def test_closed(session, code):
    session.open("closed.py", code)
    session.editor.keys("1", "G", "0", "f", "p", "c", "w")
    session.editor.type("amounts")
    session.editor.keys("<Esc>")
    session.until_ended()


@pytest.mark.parametrize(
    "_row", [pytest.param(name, marks=feature(name)) for name in ("word", "line", "typed-through")]
)
def test_what_edits_have_not(plugin, _row):
    pytest.skip("the clients take an edit whole, and drop it at a key")


def test_the_block_of_the_documents(plugin, tmp_path_factory):
    """As it stands: the model that comes along repeats a new name."""
    session = PluginSession(plugin, "forky", tmp_path_factory.mktemp("session"))
    try:
        session.open("cart.py", CART)
        session.editor.keys("3", "G", "0", "f", "i", "c", "w")
        session.editor.type("entries")
        session.editor.keys("<Esc>")
        session.settled()
        session.until(lambda: re.search(r"self\.(items)?entries\.append", session.editor.screen))
        accept_edit(session)
        assert text(session) == CART.replace("items", "entries")
        assert session.editor.problems() == []
    finally:
        session.close()
