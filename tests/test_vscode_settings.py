"""The VS Code extension offers the server's settings: types, defaults, and whose they are."""

import json
import re
from typing import Any

import pytest

from speclsp import settings
from speclsp.errors import SettingsError
from speclsp.settings_resolution import canonical_name, convert
from tools import vscode_settings

PACKAGE: dict[str, Any] = json.loads(vscode_settings.PACKAGE.read_text(encoding="utf-8"))
PROPERTIES: dict[str, dict[str, Any]] = {
    name: row
    for group in PACKAGE["contributes"]["configuration"]
    for name, row in group["properties"].items()
}
SERVERS = {vscode_settings.shown(name): name for name in settings.SHOWN}


def test_the_extension_says_what_the_servers_table_says():
    """``make docs`` writes it anew."""
    assert vscode_settings.with_settings(PACKAGE) == PACKAGE


def test_the_server_knows_every_setting_that_is_not_the_extensions_own():
    own = set(vscode_settings.CLIENT_SETTINGS)
    assert set(PROPERTIES) - own == set(SERVERS)
    for shown, name in SERVERS.items():
        assert canonical_name(shown.removeprefix("speclsp.")) == name


def test_no_label_begins_with_a_letter_for_number():
    """VS Code makes the label "N Predict" of ``speclsp.nPredict``."""
    assert [shown for shown in SERVERS if re.match(r"speclsp\.n[A-Z]", shown)] == [
        "speclsp.nCpuMoe",
        "speclsp.nCpuFfn",
    ]  # llama.cpp's own words


@pytest.mark.parametrize("shown", sorted(SERVERS))
def test_the_server_takes_the_default_and_each_word_that_is_offered(shown):
    row, name = PROPERTIES[shown], SERVERS[shown]
    assert convert(name, row["default"]) == settings.default(name)
    for word in row.get("enum", ()):
        convert(name, word)
    assert row["markdownDescription"].endswith(".")


@pytest.mark.parametrize("shown", sorted(SERVERS))
def test_the_server_refuses_what_is_out_of_the_range_that_is_shown(shown):
    row, name = PROPERTIES[shown], SERVERS[shown]
    wrong = [row[end] + step for end, step in (("minimum", -1), ("maximum", 1)) if end in row]
    wrong += ["not one of these"] if "enum" in row else []
    for value in wrong:
        with pytest.raises(SettingsError):
            convert(name, value)


def test_files_and_executables_are_the_machines():
    restricted = PACKAGE["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    paths = {"speclsp.model", "speclsp.specDraftModel", "speclsp.server.path"}
    remote = {"speclsp.engineUrl", "speclsp.engineKeyFile", "speclsp.engineCaFile"}
    assert paths | remote <= set(restricted)
    assert "speclsp.maskSecrets" in restricted
    assert all(PROPERTIES[name]["scope"] == "machine" for name in restricted)


def test_the_page_begins_with_what_most_people_set_and_hides_the_rest():
    shown = [name for name, row in PROPERTIES.items() if "advanced" not in row.get("tags", ())]
    assert shown[:3] == ["speclsp.enabled", "speclsp.model", "speclsp.multiline"]
    assert len(shown) <= 25
    categories = PACKAGE["contributes"]["configuration"]
    assert [category["order"] for category in categories] == list(range(len(categories)))
    assert [PROPERTIES[name]["order"] for name in shown] == list(range(len(shown)))


def test_the_options_of_each_drafter_are_completed():
    by_drafter = PROPERTIES["speclsp.drafterOptions"]["properties"]
    assert {drafter: [*row["properties"]] for drafter, row in by_drafter.items()} == {
        drafter: [*options] for drafter, options in settings.DRAFTER_OPTIONS.items()
    }
    size = by_drafter["ngram-mod"]["properties"]["n_match"]
    assert (size["type"], size["default"]) == ("integer", 24)
    assert (size["minimum"], size["maximum"]) == (1, 1024)
