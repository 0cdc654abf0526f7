"""Each client once with a real model and the default settings."""

import os
from pathlib import Path

import pytest
from client_features import feature
from nvim_plugins import PLUGINS
from plugin_session import EDITORS, PluginSession

FOLDER = os.environ.get("SPECLSP_REAL_MODELS", "")
MODEL = Path(FOLDER) / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
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
    [
        pytest.param(plugin, id=plugin.name, marks=pytest.mark.xdist_group(plugin.name))
        for plugin in PLUGINS
    ],
)
def test_a_real_model(plugin, tmp_path, record_property):
    if not FOLDER or not MODEL.is_file():
        pytest.skip(f"SPECLSP_REAL_MODELS names no folder with {MODEL.name}")
    session = PluginSession(plugin, "forky", tmp_path, "--model", str(MODEL), "--threads", "1")
    try:
        record_property("client", plugin.name)
        record_property("editor", EDITORS["forky"])
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
