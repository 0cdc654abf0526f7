"""What each client sends in a short session is written down; ``make test`` replays it.

Something is typed, the suggestion or the edit is accepted, and undone.
"""

import re
from pathlib import Path

import pytest
from client_features import IS_WRITTEN
from client_recordings import RECORDINGS, of_http, of_lsp, write_recording
from nvim_plugins import EDITING, PLUGINS
from plugin_session import EDITORS, TRIAL, PluginSession, accept_edit, rename
from real_neovim import SOURCE, START
from rewriting_model import CODE, rewriting

from tests.support.recording_server import recording_server

EDITED = CODE.replace("print(prices)", "print('😀 é', prices)")


@pytest.mark.parametrize(
    "plugin",
    [pytest.param(plugin, id=plugin.name) for plugin in (*PLUGINS, *EDITING)],
)
def test_a_short_session(plugin, tmp_path):
    if plugin.is_for_edits:
        with recording_server("zeta-2", "") as model:
            model.answer = rewriting(lambda region: re.sub(r"\bprices\b", "amounts", region))
            remote = ("--engine-url", model.address, "--engine-kind", "openai")
            session = PluginSession(
                plugin,
                "forky",
                tmp_path / "session",
                *remote,
                replaced=("edit_model = 'embedded'", ""),
            )
            record(session, tmp_path, EDITED)
    else:
        record(PluginSession(plugin, "forky", tmp_path / "session", *TRIAL), tmp_path, SOURCE)


def record(session: PluginSession, folder: Path, text: str) -> None:
    editor, plugin = session.editor, session.plugin
    try:
        session.open("shop.py", text)
        if plugin.is_for_edits:
            rename(session)
            accept_edit(session)
        else:
            suggestion = session.type(START)
            session.press("whole")
            session.until(lambda: (START + suggestion).split("\n")[0] in editor.lines)
            editor.keys("<Esc>")
        n_sent = len(session.sent())
        before = editor.lines
        editor.keys("u")
        session.until(lambda: editor.lines != before)
        if not plugin.is_http:
            session.until(lambda: len(session.sent()) > n_sent)
            session.until_ended()
        entries = of_http(session.sent()) if plugin.is_http else of_lsp(session.messages())
    finally:
        session.close()
    assert entries
    write_recording(
        RECORDINGS if IS_WRITTEN else folder,
        plugin.name,
        EDITORS[session.suite],
        "http" if plugin.is_http else "lsp",
        entries,
        project=session.project,
        home=session.folder / "home",
    )
