"""Which model a name means: a file, a preset, or a repository."""

import os
from typing import Any

import pytest
from click.testing import CliRunner

from speclsp.cli.options import SettingsCommand, given_options
from speclsp.errors import SettingsError
from speclsp.models.choice import choice_of, edit_choice_of, is_on_hub, without_names
from speclsp.settings import Settings


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("", False),
        ("embedded", False),
        ("auto", True),
        ("qwen2.5-coder-7b-q4_k_m", True),
        ("fim-qwen-7b-spec", True),
        ("ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF", True),
        ("owner/name:Q4_K_M", True),
        ("owner/name:file.gguf", True),
        ("models/a.gguf", False),
        ("./owner/name", False),
        ("/owner/name", False),
        ("~/name", False),
        ("C:\\models\\a.gguf", False),
    ],
)
def test_what_is_on_the_hub(name, is_there):
    assert is_on_hub(name) is is_there


@pytest.mark.parametrize("name", ["qwen2.5-coder-7b-q4km", "Auto", "nope"])
def test_a_word_that_is_neither_file_nor_preset_is_an_error(name):
    with pytest.raises(SettingsError, match="no preset") as error:
        choice_of(Settings(model=name))
    assert "speclsp models list" in error.value.remedy
    assert ("Did you mean" in error.value.remedy) is (name != "nope")


def test_a_draft_model_of_its_own_takes_the_place_of_the_presets():
    preset = choice_of(Settings(model="qwen2.5-coder-7b-q8_0-draft"))
    assert preset.draft is not None
    other = choice_of(Settings(model="qwen2.5-coder-7b-q8_0-draft", spec_draft_model="a/b:Q8_0"))
    assert (other.target, str(other.draft)) == (preset.target, "a/b:Q8_0")
    by_file = choice_of(Settings(model="qwen2.5-coder-7b-q8_0-draft", spec_draft_model="/d.gguf"))
    assert by_file.draft is None
    alone = choice_of(Settings(model="/t.gguf", spec_draft_model="qwen2.5-coder-0.5b-q8_0"))
    assert (alone.target, alone.name) == (None, "qwen2.5-coder-0.5b-q8_0")


def test_names_are_left_out_and_files_stay():
    named = Settings(model="owner/name", spec_draft_model="auto", offline=True)
    assert without_names(named) == Settings()
    files = Settings(model="/t.gguf", spec_draft_model="embedded")
    assert without_names(files) == files
    with_engine = Settings(model="owner/name", engine_url="http://127.0.0.1:8080")
    assert choice_of(with_engine) is None


def given(*argv: str) -> tuple[dict[str, Any], str]:
    """Return the settings that a command line gives, or the error."""
    found: dict[str, Any] = {}

    def take(**options: Any) -> None:
        found.update(given_options(options))

    outcome = CliRunner().invoke(SettingsCommand("serve", callback=take), argv)
    return found, outcome.output


def test_a_file_of_the_command_line_wins_over_a_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert given("-m", "owner/name")[0] == {"model": "owner/name"}
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "name").write_bytes(b"GGUF")
    assert given("-m", "owner/name")[0] == {"model": str(tmp_path / "owner" / "name")}
    assert given("-hf", "owner/name")[0] == {"model": "owner/name"}
    # The folder of a language server is the workspace's, which chooses no model.
    assert is_on_hub("owner/name")


@pytest.mark.parametrize(
    ("argv", "settings"),
    [
        (["-hf", "a/b:Q8_0"], {"model": "a/b:Q8_0"}),
        (["--hf-repo", "a/b", "-hff", "c.gguf"], {"model": "a/b:c.gguf"}),
        (["-m", "/t.gguf", "-hfd", "a/b"], {"model": "/t.gguf", "spec_draft_model": "a/b"}),
        (["--fim-qwen-7b-spec"], {"model": "fim-qwen-7b-spec"}),
    ],
)
def test_llama_cpps_options_name_models(argv, settings):
    assert given(*argv)[0] == settings


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-hf", "nonsense"], "OWNER/NAME"),
        (["-hff", "a.gguf"], "belongs to --hf-repo"),
        (["-hf", "a/b", "-hff", "c"], "ends in .gguf"),
        (["-hf", "a/b", "-m", "/t.gguf"], "name the same model"),
    ],
)
def test_wrong_names_of_models_say_what_to_do(argv, words):
    found, output = given(*argv)
    assert not found
    assert words in " ".join(output.replace("│", " ").split())


def test_the_token_of_the_command_line_is_the_hubs_of_the_process(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "")

    assert given("--hf-token", "hf_x")[0] == {}
    assert os.environ["HF_TOKEN"] == "hf_x"


def test_a_model_for_next_edits_is_named_as_the_target_is():
    assert edit_choice_of(Settings()) is None
    assert edit_choice_of(Settings(edit_model="/e.gguf")) is None
    preset = edit_choice_of(Settings(edit_model="zeta-2-q4_k_m", engine_url="http://desk:8080"))
    assert (preset.title, preset.draft) == ("zed-industries_zeta-2 Q4_K_M", None)
    with_draft = edit_choice_of(Settings(edit_model="qwen2.5-coder-7b-q8_0-draft"))
    assert with_draft.draft is None
    repository = edit_choice_of(Settings(edit_model="a/b:Q8_0"))
    assert str(repository.target) == "a/b:Q8_0"
    assert without_names(Settings(edit_model="a/b")) == Settings()
    with pytest.raises(SettingsError, match="no preset"):
        edit_choice_of(Settings(edit_model="zeta2"))
    with pytest.raises(SettingsError, match="cannot be auto"):
        edit_choice_of(Settings(edit_model="auto"))
