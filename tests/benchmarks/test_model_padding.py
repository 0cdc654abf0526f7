"""Made models: they say what the small one says, in every shape and quantisation."""

import builtins
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quiet_loading import quiet_target

from benchmarks.make_model import SmallModel, make_model
from benchmarks.model_comparison import compare_models, real_prompts
from benchmarks.model_padding import SHUT_OUT, ModelPadding
from benchmarks.model_shapes import QWEN2_5_CODER, ModelShape, Quantisation, ShapeError
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.backends.weights import cost_true_remark
from speclsp.embedded import embedded_draft, embedded_target
from speclsp.errors import ModelLoadError, SpecLspError
from speclsp.settings import Settings

ONE_THREAD = Settings(threads=1)


@pytest.fixture(scope="module")
def small():
    return SmallModel(embedded_target())


def room_for(small: ModelShape, **changes: Any) -> ModelShape:
    """A shape that is a little larger everywhere, with heads of the same size."""
    heads = small.heads_per_kv_head + 1
    n_kv_heads = small.n_kv_heads + 1
    wider = replace(
        small,
        n_layers=small.n_layers + 1,
        n_heads=n_kv_heads * heads,
        n_kv_heads=n_kv_heads,
        width=n_kv_heads * heads * small.head_size,
        n_feed_forward=small.n_feed_forward + 256,
        n_vocab=small.n_vocab + 104,
    )
    return replace(wider, **changes)


def make(
    small: SmallModel, path: Path, shape: ModelShape, quantisation: Quantisation = "f16"
) -> Path:
    make_model(
        small,
        path,
        shape,
        cost_of="a test",
        quantisation=quantisation,
        progress=lambda _share: None,
    )
    return path


def load(path: Path) -> LlamaTarget:
    return quiet_target(path, ctx_size=512, fit=False)


@pytest.mark.real
@pytest.mark.parametrize(
    ("quantisation", "kind"),
    [
        ("f16", "same heads, tied"),
        ("q8_0", "twice the heads, untied"),
        ("q4_0", "same heads, tied"),
    ],
)
def test_a_made_model_says_the_same(tmp_path, small, quantisation, kind):
    shape = room_for(small.shape)
    if kind == "twice the heads, untied":
        head_size = 2 * small.shape.head_size
        shape = replace(shape, head_size=head_size, width=shape.n_heads * head_size, tied=False)
    large = make(small, tmp_path / "large.gguf", shape, quantisation)
    plain = make(small, tmp_path / "plain.gguf", small.shape, quantisation)
    settings = replace(ONE_THREAD, model=str(plain))
    found = compare_models(plain, large, settings, real_prompts(settings, 2), lambda _share: None)
    assert found.n_prompts == 2
    assert found.n_tokens == 64
    # Where they part at all, two tokens were nearly even.
    assert all(margin < 0.2 for margin in found.margins)
    assert found.n_tokens_alike > 32


@pytest.mark.real
def test_logits_are_the_same_and_new_tokens_are_shut_out(tmp_path, small):
    head_size = 2 * small.shape.head_size
    shape = room_for(small.shape, head_size=head_size)
    shape = replace(shape, width=shape.n_heads * head_size)
    tokens = [idx % 2000 for idx in range(300, 340)]
    target = load(make(small, tmp_path / "large.gguf", shape))
    found = target.decode(tokens, 40).copy()
    layers = sum(target.model.layers.values())
    target.close()
    target = load(embedded_target())
    expected = target.decode(tokens, 40).copy()
    assert layers == sum(target.model.layers.values()) + 1
    target.close()
    n_vocab = small.shape.n_vocab
    assert found.shape[1] == n_vocab + 104
    assert (found[:, n_vocab:] == SHUT_OUT).all()
    # √2 is no F16, so queries are off by a few thousandths.
    np.testing.assert_allclose(found[:, :n_vocab], expected, atol=0.15)


@pytest.mark.real
def test_a_deeper_model_has_the_same_logits_to_the_last_bit(tmp_path, small):
    shape = replace(small.shape, n_layers=small.shape.n_layers + 4)
    target = load(make(small, tmp_path / "deep.gguf", shape))
    tokens = list(range(300, 340))
    found = target.decode(tokens, 1).copy()
    target.close()
    target = load(embedded_target())
    assert (target.decode(tokens, 1) == found).all()
    target.close()


def test_the_model_says_what_it_is(tmp_path, small):
    first = make(small, tmp_path / "first.gguf", small.shape, "q8_0")
    second = make(SmallModel(first), tmp_path / "second.gguf", small.shape, "q4_0")
    name = embedded_target().name

    def remark(path):
        return cost_true_remark(read_gguf_header(path).metadata)

    assert remark(first) == f"cost-true: the times of a test in Q8_0, the text of {name}"
    assert remark(second) == f"cost-true: the times of a test in Q4_0, the text of {name}"
    assert remark(embedded_target()) == ""
    made = SmallModel(second)
    assert made.shape == small.shape
    assert "zero-padding" in made.value("general.description")


def test_requantising_changes_nothing(tmp_path, small):
    first = make(small, tmp_path / "first.gguf", small.shape, "q8_0")
    again = make(SmallModel(first), tmp_path / "again.gguf", small.shape, "q8_0")
    one, two = SmallModel(first), SmallModel(again)
    assert all((one.read(name) == two.read(name)).all() for name in one.names)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QWEN2_5_CODER))
@pytest.mark.parametrize("model", [embedded_target, embedded_draft])
def test_both_embedded_models_fit_the_real_shapes(name, model):
    small, shape = SmallModel(model()), QWEN2_5_CODER[name]
    if 2 * small.shape.head_size < shape.head_size:
        with pytest.raises(ShapeError, match="only the same size or twice as much"):
            shape.check_room_for(small.shape)
        return
    padding = ModelPadding(small.shape, shape, small.names, small.read)
    tensors = {tensor.name: tensor for tensor in padding.tensors()}
    assert small.names < tensors.keys()
    n_parameters = sum(int(np.prod(tensor.shape)) for tensor in tensors.values())
    billions = {"0.5b": 0.494, "1.5b": 1.544, "7b": 7.616, "14b": 14.770}[name.rpartition("-")[2]]
    assert round(n_parameters / 1e9, 3) == billions


def test_quantised_blocks_stay_as_they_are(small):
    """Blocks of 32 columns hold the small model's numbers or zeros, never a mixture."""
    padding = ModelPadding(small.shape, QWEN2_5_CODER["qwen2.5-coder-7b"], small.names, small.read)
    for tensor in padding.tensors():
        if tensor.is_matrix and tensor.name in small.names and "attn_q" not in tensor.name:
            _rows, values = tensor.rows()
            blocks = {block.tobytes() for block in values.reshape(-1, 32)}
            own = {block.tobytes() for block in small.read(tensor.name).reshape(-1, 32)}
            assert blocks - {bytes(128)} == own - {bytes(128)}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"n_layers": 1}, "layers, and the shape has room for 1"),
        ({"width": 64}, "hidden values, and the shape has room for 64"),
        ({"n_vocab": 100}, "tokens, and the shape has room for 100"),
        ({"head_size": 48}, "only the same size or twice as much is exact"),
    ],
)
def test_a_shape_that_is_too_small(tmp_path, small, changes, problem):
    with pytest.raises(ShapeError, match=problem):
        make(small, tmp_path / "none.gguf", replace(small.shape, **changes))
    assert list(tmp_path.iterdir()) == []


def test_a_tied_shape_has_no_room_for_an_output_matrix(tmp_path, small):
    untied = make(small, tmp_path / "untied.gguf", replace(small.shape, tied=False))
    with pytest.raises(ShapeError, match="output matrix of its own"):
        make(SmallModel(untied), tmp_path / "tied.gguf", small.shape)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "none.gguf"
    path.write_bytes(b"GGUF is not all it takes")
    with pytest.raises(ModelLoadError, match="cannot be read"):
        SmallModel(path)


def test_a_folder_that_cannot_be_written(tmp_path, small):
    with pytest.raises(SpecLspError, match="cannot be written"):
        make(small, tmp_path / "none" / "model.gguf", small.shape)


def test_without_the_package_the_remedy_is_named(monkeypatch):
    real = builtins.__import__

    def fail(name, *arguments, **named):
        if name == "gguf":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(SpecLspError, match=r"pip install -e '\.\[benchmarks\]'"):
        SmallModel(embedded_target())
