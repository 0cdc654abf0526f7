"""Bad model files: what is said of them."""

import os
from pathlib import Path

import pytest

from speclsp.backends.llama.loading import load_target
from speclsp.backends.llama.model_file import check_model_file, load_error
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.errors import ModelError, ModelLoadError, ModelNotFoundError
from speclsp.settings import Settings

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"


@pytest.mark.parametrize(
    ("content", "message", "remedy"),
    [
        (b"", "is empty", "Download a GGUF"),
        (LFS_POINTER, "Git LFS pointer", "git lfs pull"),
        (b"PK\x03\x04 a zip", "is not a GGUF file", "convert"),
        (b"lmgg\x01\0\0\0", "is not a GGUF file", "GGUF"),
        (b"{}", "is not a GGUF file", "convert"),
    ],
)
def test_files_that_are_no_model(tmp_path, content, message, remedy):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError) as caught:
        check_model_file(path)
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert str(path) in caught.value.message


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(ModelNotFoundError, match="no model file at") as caught:
        check_model_file(tmp_path / "missing.gguf")
    # What is missing may be the draft model, for which empty means none.
    assert "models are called `embedded`; where `spec_draft_model` is empty" in caught.value.remedy
    with pytest.raises(ModelLoadError, match="is a folder"):
        check_model_file(tmp_path)


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelLoadError, match="is a pipe or device"):
        check_model_file(tmp_path / "pipe.gguf")


@pytest.mark.parametrize("n_bytes", [4, 20, 100, 5_000, 100_000, 200_000, 2_000_000])
def test_a_truncated_model_is_damaged_or_incomplete(model_folder, tmp_path, n_bytes):
    path = tmp_path / "truncated.gguf"
    path.write_bytes((model_folder / "embedded-target-f16.gguf").read_bytes()[:n_bytes])
    for load in (
        lambda: load_vocabulary(path),
        lambda: load_target(
            path, Settings(), progress=lambda share: True, log=lambda level, line: None
        ),
    ):
        with pytest.raises(ModelError) as caught:
            load()
        assert "damaged or incomplete" in caught.value.message
        assert caught.value.remedy == "Download it again."


@pytest.mark.parametrize(
    ("reasons", "message"),
    [
        ([], "it gives no reason"),
        (
            ["llama_model_load: error loading model: unknown model architecture: 'x'"],
            "does not know the model",
        ),
        (
            ["error loading model: device Vulkan0 does not support split buffers"],
            "cannot spread m.gguf by rows",
        ),
        (["f: something else", "g: failed to load model"], "something else"),
        (
            [
                "gguf_init_from_reader: tensor 'x' has offset 16, expected 64",
                "gguf_init_from_reader: failed to read tensor data",
                "llama_model_load: error loading model: failed to load model from m.gguf",
            ],
            "m.gguf is damaged or incomplete: tensor 'x' has offset 16, expected 64",
        ),
    ],
)
def test_llama_cpp_s_reason_is_told(reasons, message):
    error = load_error(Path("m.gguf"), reasons)
    assert message in error.message
    assert error.remedy
