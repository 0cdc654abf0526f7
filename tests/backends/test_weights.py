"""What the loader keeps, and the memory that it leaves to a draft model."""

import shutil

import pytest

from speclsp.backends.llama.fit import estimate_shape
from speclsp.backends.llama.loading import load_target
from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.backends.weights import LlamaLoader, _draft_bytes
from speclsp.errors import ModelNotFoundError
from speclsp.settings import Settings


@pytest.mark.real
def test_the_vocabulary_is_loaded_once_for_a_file(model_folder, tmp_path):
    path = tmp_path / "model.gguf"
    shutil.copy(model_folder / "embedded-draft-q8_0.gguf", path)
    loader = LlamaLoader(lambda _level, _line: None)
    first = loader.tokenizer(Settings(model=str(path)))
    assert loader.tokenizer(Settings(model=str(path), ctx_size=99)) is first
    template = Settings(
        model=str(path), fim_template="<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}"
    )
    assert loader.tokenizer(template) is not first
    shutil.copy(model_folder / "embedded-target-f16.gguf", path)
    assert loader.tokenizer(Settings(model=str(path))) is not first
    path.unlink()
    with pytest.raises(ModelNotFoundError):
        loader.tokenizer(Settings(model=str(path)))


@pytest.mark.real
def test_the_memory_left_to_a_draft_model_follows_its_own_settings(model_folder, tmp_path):
    path = model_folder / "embedded-draft-q8_0.gguf"
    header = read_gguf_header(path)

    def left(**given):
        return _draft_bytes(path, Settings(ctx_size=2048, **given))

    shape = estimate_shape(header, Settings(ctx_size=2048))
    assert left() == shape.offloaded_bytes(shape.n_layers, 2048)
    n_kv = sum(shape.kv_bytes_per_position)
    assert left() - left(spec_draft_ctx_size=1024) == 1024 * n_kv
    assert left(spec_draft_type_k="q8_0", spec_draft_type_v="q8_0") < left() - 900 * n_kv
    assert left(spec_draft_ngl=0) == left(spec_draft_device="none") == 0
    assert left(spec_draft_type_v="q8_0", flash_attn="off") == 0  # it will not be loaded
    assert _draft_bytes(tmp_path / "none.gguf", Settings()) == 0


@pytest.mark.real
def test_memory_is_left_to_the_model_for_next_edits(model_folder, monkeypatch):
    path = model_folder / "embedded-draft-q8_0.gguf"
    reserved: list[int] = []

    def load(*args, n_bytes_reserved=0, **options):
        reserved.append(n_bytes_reserved)
        return load_target(*args, n_bytes_reserved=n_bytes_reserved, **options)

    monkeypatch.setattr("speclsp.backends.llama.loading.load_target", load)
    loader = LlamaLoader(lambda _level, _line: None)
    settings = Settings(ctx_size=256, edit_model=str(path), spec_draft_model=str(path))
    tokenizer = loader.tokenizer(settings)
    loader.weights(settings, tokenizer, lambda _: True, lambda _level, _line: None).close()
    shape = estimate_shape(read_gguf_header(path), settings)
    assert reserved[0] == 2 * shape.offloaded_bytes(shape.n_layers, 256)
