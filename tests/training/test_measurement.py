"""Figures of a real model, and the card that they go into."""

import hashlib
from pathlib import Path

import pytest
from source_files import source_file

from speclsp import embedded
from training import measurement
from training.card import Data, data_of, edit_model_card, model_card, model_file
from training.corpus import build_corpus, listed, manifest_of, write_list, write_manifest
from training.folder import file_hash
from training.measurement import WAYS, EditFigures, MeasuredModel, measured_once
from training.presets import Shape

TEXT = "".join(
    f"def area_{n}(width, height):\n    return width * height * {n % 7}\n\n\n" for n in range(60)
)
HELD_OUT = [source_file(f"{package}/core.py", TEXT) for package in ("click", "rich")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def figures(kept):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement, "_N_TOLD", 600)
        yield measured_once(embedded.embedded_target(), HELD_OUT, kept, n_probes=2, n_threads=1)


@pytest.mark.real
def test_figures_of_the_embedded_target(figures):
    assert [(found.layout, found.cursor) for found in figures.answers] == list(WAYS)
    assert len(figures.shown) == 2
    for bits in (figures.bits_before, figures.bits_since):
        assert 0 < bits["640"] < 1  # text that repeats itself is easy to tell


@pytest.mark.real
def test_figures_are_taken_once(figures, kept, monkeypatch):
    monkeypatch.setattr(measurement, "measure", None)
    again = measured_once(embedded.embedded_target(), [], kept, n_probes=2, n_threads=1)
    assert again == figures


@pytest.mark.real
def test_another_gguf_of_the_same_name_is_measured(figures, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "measure", lambda *_, **__: figures)
    other = tmp_path / embedded.embedded_target().name
    other.write_bytes(b"GGUF of the pair before")
    measured_once(other, [], kept, n_probes=2, n_threads=1)
    assert len(list(kept.glob("figures-*.json"))) == 2


RUN = (
    Shape(n_vocab=4096, n_layers=5, width=192, n_heads=3, n_kv_heads=1, n_ffn=512),
    {"tokens": 5e6, "steps": 100, "context": 2.5, "middle": 2.4},
)


def made_data(folder: Path) -> Data:
    """Write the manifest and the list of a small corpus into a folder, and read them."""
    corpus = build_corpus(
        [source_file("own/a.py", "x = compute()\n" * 9), *HELD_OUT],
        n_package_chars=10**6,
        larger={},
    )
    write_manifest(manifest_of(corpus), folder / "corpus.json")
    write_list(listed(corpus.files), folder / "files.jsonl.xz")
    return data_of(folder / "corpus.json", folder / "files.jsonl.xz")


def test_the_card_of_next_edits_has_their_figures_and_sources(tmp_path):
    file = tmp_path / "edit.gguf"
    file.write_bytes(b"weights")
    figures = EditFigures(kind="name", n_edits=8, exact=0.5, touched=1.0, n_quiet=4, quiet=0.75)
    card = edit_model_card(
        model_file(file, "edits"), RUN, 5e8, made_data(tmp_path), 241, "5bed", [figures]
    )
    assert "| name | 8 | 50% | 100% | 4 | 75% |" in card
    assert "after 500.0 M tokens, and saw 5.0 M tokens" in card
    assert "241 files of the packages' releases before" in card
    assert "SHA-256 is 5bed." in card
    assert file_hash(tmp_path / "files.jsonl.xz") in card


@pytest.mark.real
def test_the_card_prints_them_side_by_side(figures, tmp_path):
    data = made_data(tmp_path)
    (tmp_path / "target.gguf").write_bytes(b"weights")
    card = model_card(
        [model_file(tmp_path / "target.gguf", "the target model")],
        {"target": RUN},
        data,
        [("target", figures), ("before", figures)],
        "12 % of characters saved.",
    )
    assert "| | target | before |" in card
    assert f"{figures.bits_before['640']:.3f} | {figures.bits_before['640']:.3f} |" in card
    assert "2.76 M" in card
    assert "12 % of characters saved." in card
    assert f"| 7 | {hashlib.sha256(b'weights').hexdigest()} |" in card
    assert file_hash(tmp_path / "files.jsonl.xz") in card
    assert "named by: its package's metadata 1." in card
    assert "click" in card


@pytest.mark.real
def test_bits_are_those_of_the_probabilities():
    model = MeasuredModel(embedded.embedded_target(), 1)
    try:
        head = model.head("project", "a.py")
        tokens = model.vocabulary.tokenize("import os\nimport sys\n").tolist()
        by_token = [model.bits([*head, *tokens[:i]], [tokens[i]]) for i in range(len(tokens))]
        assert model.bits(head, tokens) == pytest.approx(sum(by_token), rel=0.01)
    finally:
        model.close()
