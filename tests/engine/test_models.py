"""What the loader keeps, and the memory that it leaves to a draft model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from speclsp.engine.models import _DRAFT_CONTEXT_BYTES, LlamaLoader, _draft_bytes
from speclsp.errors import ModelNotFoundError
from speclsp.settings import Settings


@pytest.mark.real
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


def test_all_parts_of_a_split_draft_model_count(tmp_path: Path) -> None:
    parts = [tmp_path / f"draft-0000{number}-of-00002.gguf" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        part.write_bytes(bytes(1000 * number))
    assert _draft_bytes(parts[0], Settings()) == 3000 + _DRAFT_CONTEXT_BYTES
    assert _draft_bytes(parts[0], Settings(spec_draft_ngl=0)) == 0
    assert _draft_bytes(tmp_path / "none.gguf", Settings()) == 0
