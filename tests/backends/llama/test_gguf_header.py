"""A GGUF header is read, damaged and cut."""

import struct
from pathlib import Path

import pytest

from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.errors import ModelLoadError


@pytest.fixture
def path(model_folder):
    return model_folder / "embedded-target-f16.gguf"


def n_header_bytes(path: Path) -> int:
    return path.stat().st_size - sum(read_gguf_header(path).tensor_bytes.values())


def test_what_it_says(path):
    header = read_gguf_header(path)
    assert header.metadata["general.architecture"] == "qwen2"
    assert header.number("block_count", 0) == 6
    assert header.metadata["tokenizer.ggml.tokens"] is None
    assert 0 < n_header_bytes(path) < path.stat().st_size


def test_a_file_that_is_cut_anywhere_in_its_header(path, tmp_path):
    whole, cut = path.read_bytes(), tmp_path / "cut.gguf"
    n_bytes = n_header_bytes(path) - 64
    for n_kept in (0, 3, 4, 8, 23, 24, *range(25, n_bytes, n_bytes // 50)):
        cut.write_bytes(whole[:n_kept])
        with pytest.raises(ModelLoadError, match="its header cannot be read") as caught:
            read_gguf_header(cut)
        assert caught.value.remedy == "Download it again."


@pytest.mark.parametrize("n_items", [2**31, 2**62])
def test_a_vocabulary_of_more_texts_than_there_are_bytes(tmp_path, n_items):
    key = b"tokenizer.ggml.tokens"
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(header + struct.pack("<IIQ", 9, 8, n_items) + bytes(100))
    with pytest.raises(ModelLoadError, match="its header cannot be read"):
        read_gguf_header(damaged)
