"""The configurations in docs/editors.md can be pasted: they parse, and name what there is."""

import json
import re
import tomllib
from pathlib import Path

from client_features import HERE, table, table_in_page

from speclsp.settings_resolution import canonical_name

PAGE = (Path(__file__).parents[1] / "docs" / "editors.md").read_text(encoding="utf-8")
COMMAND = ["speclsp", "serve", "--stdio"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_helix():
    (block,) = blocks("toml")
    configuration = tomllib.loads(block)
    server = configuration["language-server"]["speclsp"]
    assert [server["command"], *server["args"]] == COMMAND
    assert all(canonical_name(name) == name for name in server["config"]["speclsp"])
    assert "speclsp" in configuration["language"][0]["language-servers"]


def test_kate():
    (block,) = blocks("json")
    server = json.loads(block)["servers"]["python"]
    assert server["command"] == COMMAND
    assert all(canonical_name(name) == name for name in server["settings"]["speclsp"])


def test_emacs():
    eglot, lsp_mode = blocks("elisp")
    for block in (eglot, lsp_mode):
        code = re.sub(r'"[^"]*"|;.*', "", block)
        assert code.count("(") == code.count(")")
        assert '"speclsp" "serve" "--stdio"' in block
    names = re.findall(r"\(:(\w+) 64\)", eglot) + re.findall(r'"speclsp\.(\w+)"', lsp_mode)
    assert names == ["n_predict", "n_predict"]
    assert all(canonical_name(name) == name for name in names)


def test_the_table_of_clients_is_that_of_the_last_run():
    """``make clients WRITE=1`` writes both."""
    assert table_in_page() == table(HERE / "results")
