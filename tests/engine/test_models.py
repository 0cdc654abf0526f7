"""What the loader keeps: a vocabulary serves until its file or its template changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from speclsp.engine.models import LlamaLoader
from speclsp.errors import ModelNotFoundError
from speclsp.settings import Settings

pytestmark = pytest.mark.real


def test_the_vocabulary_is_loaded_once_for_a_file(model_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copy(model_folder / "embedded-draft-q8_0.gguf", path)
    loader = LlamaLoader(lambda _level, _line: None)
    first = loader.tokenizer(Settings(model=str(path)))
    assert loader.tokenizer(Settings(model=str(path), ctx_size=99)) is first
    template = Settings(
        model=str(path), fim_template="<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}"
    )
    assert loader.tokenizer(template) is not first
    shutil.copy(model_folder / "embedded-target-q8_0.gguf", path)
    assert loader.tokenizer(Settings(model=str(path))) is not first
    path.unlink()
    with pytest.raises(ModelNotFoundError):
        loader.tokenizer(Settings(model=str(path)))
