"""It computes what llama.cpp computes, and a step of either preset can be made."""

import itertools
import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
from gguf import GGUFReader
from source_files import source_file

from speclsp import embedded

torch = pytest.importorskip("torch", reason="the extra `training` is not installed")
pytest.importorskip("tokenizers", reason="the extra `training` is not installed")

from training.corpus import (  # noqa: E402
    Corpus,
    listed,
    manifest_of,
    read_list,
    write_files,
    write_list,
    write_manifest,
)
from training.export import About, read_gguf, write_gguf  # noqa: E402
from training.folder import ROLES, VERSION, Checkpoint, WorkFolder, file_hash  # noqa: E402
from training.growth import grown, pruned  # noqa: E402
from training.measurement import MeasuredModel  # noqa: E402
from training.model import Model, attention  # noqa: E402
from training.presets import CPU, GPU, PRESETS, Budget, Shape  # noqa: E402
from training.producers import Row  # noqa: E402
from training.steps import (  # noqa: E402
    export,
    go_on_from,
    keep_checkpoint,
    make_stream,
    make_tokenizer,
    train_worker,
)
from training.tokens import encoder, read_tokenizer, special_tokens, vocabulary_of  # noqa: E402
from training.trainer import (  # noqa: E402  # noqa: E402
    Run,
    Workers,
    batches,
    make_optimisers,
    model_of_state,
    read_state,
    train,
    write_weights,
)

ABOUT = About("speclsp embedded target", "2026.11", "Trained on 3 source files.")
TEXT = "def area(width, height):\n    return width * height\n\n\n"
TINY = Shape(n_vocab=320, n_layers=2, width=64, n_heads=2, n_kv_heads=1, n_ffn=96)
TINY_PRESET = replace(
    CPU,
    n_vocab=320,
    target=replace(CPU.target, shape=TINY, n_tokens=4096),
    draft=replace(CPU.draft, shape=replace(TINY, n_ffn=64), target_layers=(0, 1), n_tokens=1024),
    n_workers=1,
    n_batch_tokens=512,
    lengths=((256, 1.0),),
)


@pytest.fixture
def folder(tmp_path):
    work = WorkFolder(tmp_path)
    rng = random.Random(0)
    files = [
        source_file(f"p/{i}.py", TEXT.replace("area", f"area_{i}") * 20)
        for i in range(rng.randint(5, 8))
    ]
    corpus = Corpus(files, [], [])
    write_files(files, work.corpus)
    write_manifest(manifest_of(corpus), work.manifest)
    write_list(listed(files), work.file_list)
    make_tokenizer(work, TINY_PRESET)
    return work


def test_a_gguf_read_back_is_the_same_model(tmp_path):
    model, tokenizer = read_gguf(embedded.embedded_target())
    write_gguf(model, tokenizer, tmp_path / "again.gguf", "f16", about=ABOUT, n_ctx=2048)
    again, same_tokenizer = read_gguf(tmp_path / "again.gguf")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    assert vocabulary_of(tokenizer) == vocabulary_of(same_tokenizer)
    assert special_tokens(tokenizer) == special_tokens(same_tokenizer)


def test_a_ggufs_metadata_name_licence_version_and_sources(folder):
    folder.run("target").mkdir()
    train_worker(folder, TINY_PRESET, "target", 5, 0)
    export(folder)
    fields = GGUFReader(folder.gguf("target", "q8_0")).fields
    found = {name: fields[f"general.{name}"].contents() for name in ("license", "name", "version")}
    assert found == {"license": "MIT", "name": "speclsp embedded target", "version": VERSION}
    assert file_hash(folder.file_list) in fields["general.description"].contents()
    assert not folder.gguf("draft", "q8_0").is_file()


@pytest.mark.real
@pytest.mark.parametrize(("precision", "most", "mean"), [("f16", 0.02, 0.005), ("q8_0", 1.0, 0.1)])
def test_llama_cpp_computes_the_same_logits(tmp_path, precision, most, mean):
    model, tokenizer = read_gguf(embedded.embedded_target())
    path = tmp_path / "model.gguf"
    write_gguf(model, tokenizer, path, precision, about=ABOUT, n_ctx=2048)
    measured = MeasuredModel(path, 1)
    tokens = measured.vocabulary.tokenize(TEXT * 3).tolist()
    assert tokens == encoder(tokenizer)(TEXT * 3)
    with torch.no_grad():
        expected = model(torch.tensor([tokens]))[0].numpy()
    differences = np.abs(measured.logits(tokens) - expected)
    assert differences.max() < most
    assert differences.mean() < mean
    measured.close()


def test_a_new_vocabulary_has_its_special_tokens_last(folder):
    tokenizer = read_tokenizer(folder.tokenizer)
    tokens, _ = vocabulary_of(tokenizer)
    assert tokens[-7] == "<|endoftext|>"
    assert special_tokens(tokenizer).separator == len(tokens) - 1
    assert all(token < len(tokens) - 7 for token in encoder(tokenizer)("<|endoftext|>"))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_step_of_a_preset_on_a_cpu(preset, role, tmp_path):
    plan = preset.target if role == "target" else preset.draft
    model = Model(plan.shape)
    assert sum(weight.numel() for weight in model.parameters()) == plan.shape.n_parameters()
    optimisers = make_optimisers(
        model, learning_rate=1e-3, weight_decay=0.1, with_muon=plan.with_muon
    )
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    run = Run(
        folder=tmp_path,
        learning_rate=1e-3,
        n_warmup_steps=0,
        middle_weight=4.0,
        teacher=Model(preset.target.shape) if role == "draft" else None,
        save_every_s=1e9,
        keep_every_s=1e9,
    )
    rows = make_rows(plan.shape.n_vocab)
    totals = {"steps": 0.0, "tokens": 0.0, "seconds": 0.0}
    data = batches(lambda _n: itertools.cycle(rows), itertools.repeat((1, 64)))
    train(model, optimisers, data, Budget(None, 64, 0.5), run, totals, Workers())
    assert totals["steps"] == 1
    moved = [name for name, weight in model.state_dict().items() if not weight.equal(before[name])]
    assert len(moved) == len(before)


def make_rows(n_vocab: int) -> list[object]:
    from training.layouts import Sample

    rng = random.Random(0)
    tokens = [rng.randrange(n_vocab) for _ in range(65)]
    return [Sample(tokens[:-1], tokens[1:], [1.0] * 64)]


def test_training_learns_and_goes_on(folder, monkeypatch):
    folder.run("target").mkdir()
    preset = replace(TINY_PRESET, n_warmup_steps=0)
    monkeypatch.setattr("training.trainer._N_LOGGED", 1)
    train_worker(folder, preset, "target", 10, 0)
    first = read_state(folder.state("target"))
    longer = replace(preset, target=replace(preset.target, n_tokens=8192))
    train_worker(folder, longer, "target", 10, 0)
    second = read_state(folder.state("target"))
    assert first["totals"]["tokens"] == 4096
    assert second["totals"]["tokens"] == 8192
    lines = (folder.run("target") / "log-0.jsonl").read_text().splitlines()
    losses = [json.loads(line)["context"] for line in lines]
    assert losses[-1] < losses[0] - 0.3
    folder.run("draft").mkdir()
    train_worker(folder, preset, "draft", 10, 0)
    assert read_state(folder.state("draft"))["totals"]["tokens"] == 1024


def test_training_goes_on_from_a_checkpoint_with_a_new_optimiser(folder, tmp_path):
    folder.run("target").mkdir()
    train_worker(folder, TINY_PRESET, "target", 5, 0)
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    keep_checkpoint(folder, checkpoint)
    again = WorkFolder(tmp_path / "again")
    again.root.mkdir()
    for name in ("corpus", "manifest", "file_list"):
        shutil.copyfile(getattr(folder, name), getattr(again, name))
    go_on_from(again, checkpoint)
    begun, kept = read_state(again.state("target")), read_state(folder.state("target"))
    assert begun["totals"] == kept["totals"]
    assert "optimisers" not in begun
    weights = model_of_state(kept).state_dict()
    for name, weight in model_of_state(begun).state_dict().items():
        assert torch.equal(weights[name].half().float(), weight)
    train_worker(again, TINY_PRESET, "target", 5, 0)
    assert read_state(again.state("target"))["totals"] == kept["totals"], "its tokens are used up"
    longer = replace(TINY_PRESET, target=replace(TINY_PRESET.target, n_tokens=8192))
    train_worker(again, longer, "target", None, 0)
    assert read_state(again.state("target"))["totals"]["tokens"] == 2 * kept["totals"]["tokens"]
    with pytest.raises(FileExistsError, match="goes on from it"):
        go_on_from(again, checkpoint)


def test_a_checkpoint_says_what_it_was_trained_on(folder, tmp_path):
    folder.run("target").mkdir()
    train_worker(folder, TINY_PRESET, "target", 5, 0)
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    keep_checkpoint(folder, checkpoint)
    assert not checkpoint.draft.exists()
    folder.gguf("draft", "q8_0").write_bytes(b"GGUF")
    keep_checkpoint(folder, checkpoint)
    assert checkpoint.draft.read_bytes() == b"GGUF"
    page = checkpoint.readme.read_text(encoding="utf-8")
    assert file_hash(folder.file_list) in page
    assert f"{len(read_list(checkpoint.file_list))} files" in page
    other = WorkFolder(tmp_path / "other")
    other.root.mkdir()
    write_list([], other.file_list)
    with pytest.raises(RuntimeError, match="lists other files"):
        go_on_from(other, checkpoint)


def test_half_precision_weights_are_small_and_the_same(tmp_path):
    model = Model(TINY)
    write_weights(tmp_path / "weights.pt", model, {"steps": 3})
    again = model_of_state(read_state(tmp_path / "weights.pt"))
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.half().float(), again.state_dict()[name])
    assert (tmp_path / "weights.pt").stat().st_size < 2.5 * TINY.n_parameters() + 20_000


def test_a_batch_of_arrays_is_the_batch_of_the_samples(folder):
    rows = list(itertools.islice(make_stream(folder, TINY_PRESET, "target", 0).rows(256), 2))
    arrays = [
        Row(
            np.array(row.tokens, np.uint16),
            np.array(row.targets, np.uint16),
            np.array(row.weights, np.float32),
        )
        for row in rows
    ]
    of_samples = next(batches(lambda _: iter(rows), iter([(2, 256)])))
    of_arrays = next(batches(lambda _: iter(arrays), iter([(2, 256)])))
    for name in ("tokens", "targets", "weights"):
        assert torch.equal(getattr(of_samples, name), getattr(of_arrays, name))


def test_the_gpus_settings_are_for_a_gpu():
    assert GPU.device == "cuda"
    assert GPU.n_workers == 1


@pytest.mark.parametrize(("n_kv_heads", "n_positions"), [(1, 1), (1, 300), (3, 128)])
def test_attention_by_blocks_is_pytorchs(n_kv_heads, n_positions):
    torch.manual_seed(0)
    q = torch.randn(2, 3, n_positions, 16, requires_grad=True)
    k = torch.randn(2, n_kv_heads, n_positions, 16, requires_grad=True)
    v = torch.randn(2, n_kv_heads, n_positions, 16, requires_grad=True)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    found = attention(q, k, v)
    assert torch.allclose(found, wanted, atol=1e-5)
    gradients = torch.autograd.grad(found.square().sum(), (q, k, v))
    expected = torch.autograd.grad(wanted.square().sum(), (q, k, v))
    for gradient, other in zip(gradients, expected, strict=True):
        assert torch.allclose(gradient, other, atol=1e-4)


def test_a_model_pruned_of_nothing_is_the_same():
    model = Model(TINY)
    again = pruned(model, range(TINY.n_layers), TINY.n_ffn)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])


def test_a_pruned_model_keeps_the_chosen_layers_and_the_heaviest_units():
    model = Model(TINY)
    with torch.no_grad():
        model.b[1].d.weight[:, :32] *= 100
    smaller = pruned(model, (1,), 32)
    assert smaller.shape == replace(TINY, n_layers=1, n_ffn=32)
    assert torch.equal(smaller.b[0].q.weight, model.b[1].q.weight)
    assert torch.equal(smaller.b[0].d.weight, model.b[1].d.weight[:, :32])
    assert torch.equal(smaller.b[0].g.weight, model.b[1].g.weight[:32])


LARGER = replace(TINY, n_layers=4, width=96, n_heads=3, n_ffn=128)


def test_a_grown_model_computes_the_same():
    model, _ = read_gguf(embedded.embedded_target())
    larger = grown(model, replace(model.shape, n_layers=8, width=256, n_heads=4, n_ffn=704))
    assert 6e6 <= larger.shape.n_parameters() <= 9e6
    torch.manual_seed(0)
    tokens = torch.randint(model.shape.n_vocab, (1, 60))
    with torch.no_grad():
        assert torch.allclose(larger(tokens), model(tokens), atol=1e-4)
    with pytest.raises(ValueError, match="cannot grow"):
        grown(model, replace(model.shape, n_ffn=64))


def test_all_new_weights_of_a_grown_model_train():
    torch.manual_seed(0)
    tokens = torch.randint(TINY.n_vocab, (2, 40))
    larger = trained_a_little(grown(Model(TINY), LARGER), tokens, 2)
    loss_of(larger, tokens).backward()
    for name, weight in larger.named_parameters():
        zero_rows = (weight.grad.flatten(1) if weight.dim() > 1 else weight.grad[:, None]) == 0
        if name == "e.weight":
            zero_rows = zero_rows[tokens.unique()]
        assert not zero_rows.any(), name


def trained_a_little(model: Model, tokens: object, n_steps: int) -> Model:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        loss_of(model, tokens).backward()
        optimiser.step()
        optimiser.zero_grad()
    return model


def loss_of(model: Model, tokens: object) -> object:
    logits = model(tokens)[:, :-1].flatten(0, 1)
    return torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
