"""Each client once with a real model and the default settings."""

import pytest
from client_features import feature, real_model
from nvim_plugins import EDITING, PLUGINS
from plugin_session import EDITORS, PluginSession, accept_edit
from rewriting_model import CART as EDITED

CART = """class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def remove(self, item):
        self.items.remove(item)
"""


@feature("real")
@pytest.mark.parametrize(
    "plugin",
    [pytest.param(plugin, id=plugin.name) for plugin in PLUGINS],
)
def test_a_real_model(plugin, tmp_path, record_property):
    model = real_model()
    record_property("client", plugin.name)
    record_property("editor", EDITORS["forky"])
    session = PluginSession(plugin, "forky", tmp_path, "--model", model, "--threads", "1")
    try:
        session.open("cart.py", CART)
        start = "\n    def clear(self):\n        self.items."
        suggestion = session.type(start)
        assert suggestion.startswith("clear()")
        session.press("whole")
        wanted = CART + start + suggestion
        session.until(lambda: "\n".join(session.editor.lines) == wanted)
        assert session.editor.problems() == []
    finally:
        session.close()


@feature("real")
@pytest.mark.parametrize(
    "plugin",
    [pytest.param(plugin, id=plugin.name) for plugin in EDITING],
)
def test_a_real_model_by_analogy(plugin, tmp_path, record_property):
    model = real_model()
    record_property("client", plugin.name)
    record_property("editor", EDITORS["forky"])
    options = ("--model", model, "--threads", "1")
    block = ("edit_model = 'embedded'", "edit_format = 'analogy'")
    session = PluginSession(plugin, "forky", tmp_path, *options, replaced=block)
    try:
        session.open("cart.py", EDITED)
        session.editor.keys("3", "G", "0", "f", "i", "c", "w")
        session.editor.type("entries")
        session.editor.keys("<Esc>")
        session.settled()
        accept_edit(session)
        assert session.editor.lines == EDITED.replace("items", "entries").splitlines()
        assert session.editor.problems() == []
    finally:
        session.close()
