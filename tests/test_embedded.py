from pathlib import Path

import pytest

from speclsp import embedded
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.errors import ModelNotFoundError, SpecLspError
from speclsp.settings import Settings


def test_the_models_are_there():
    for path in (
        embedded.embedded_target(),
        embedded.embedded_draft(),
        embedded.embedded_edit_model(),
    ):
        assert path.read_bytes()[:4] == b"GGUF"


def test_the_sample_project_is_there():
    assert (embedded.sample_project() / "shop" / "repositories.py").is_file()


def test_what_is_missing_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(embedded, "_ROOTS", (tmp_path,))
    with pytest.raises(ModelNotFoundError, match=r"embedded-target.*--model"):
        embedded.embedded_target()
    with pytest.raises(SpecLspError, match="sample project"):
        embedded.sample_project()


def test_embedded_names_the_models():
    settings = Settings(model="embedded", spec_draft_model="embedded", edit_model="embedded")
    files = embedded.model_files(settings)
    assert files.target == embedded.embedded_target()
    assert files.draft == embedded.embedded_draft()
    assert files.edit == embedded.embedded_edit_model()
    assert embedded.model_files(embedded.edit_model_settings(settings)).target == files.edit
    assert not embedded.is_trial(embedded.edit_model_settings(settings))
    assert embedded.is_trial(settings)
    assert embedded.is_trial(Settings())
    assert not embedded.is_trial(Settings(model="coder.gguf"))


@pytest.mark.parametrize("setting", ["model", "spec_draft_model"])
def test_the_home_of_an_unknown_user_is_a_missing_file(setting):
    files = embedded.model_files(Settings(**{setting: "~no-such-user/x.gguf"}))
    named = files.target if setting == "model" else files.draft
    assert named == Path("~no-such-user/x.gguf")
    with pytest.raises(ModelNotFoundError, match="~no-such-user"):
        load_vocabulary(named)
