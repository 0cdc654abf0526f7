"""Vocabularies: tokens, text and special tokens."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.backends.llama import vocabulary as vocabulary_module
from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.errors import ModelLoadError, ModelNotFoundError

ANY_TEXT = st.text(st.characters(codec=None), max_size=200) | st.text(
    st.sampled_from("\0\r\n\t \ud800\udfff\ufeffa<|fim_prefix|>é漢🙂\u200d\u0301▁Ġ"), max_size=80
)


def text_of(vocabulary: LlamaVocabulary, tokens: Any) -> bytes:
    return b"".join(vocabulary.piece(token) for token in tokens.tolist())


@given(text=ANY_TEXT)
@settings(max_examples=300, deadline=None)
def test_the_pieces_of_any_text_are_the_text(vocabulary, text):
    tokens = vocabulary.tokenize(text)
    assert text_of(vocabulary, tokens) == text.encode("utf-8", "replace")


def test_facts_of_the_embedded_vocabulary(vocabulary):
    assert vocabulary.n_tokens == 4096
    assert vocabulary.type_name == "BPE"
    assert vocabulary.bos is None
    names = {
        "prefix": "<|fim_prefix|>",
        "suffix": "<|fim_suffix|>",
        "middle": "<|fim_middle|>",
        "pad": "<|fim_pad|>",
        "repo": "<|repo_name|>",
        "separator": "<|file_sep|>",
    }
    for field, name in names.items():
        token = getattr(vocabulary.fim, field)
        assert token is not None
        assert vocabulary.special(name) == token
        assert vocabulary.piece(token) == b""
    assert vocabulary.special("def") is None
    assert vocabulary.special("<|endoftext|>") in vocabulary.end_tokens
    assert vocabulary.metadata["general.architecture"] == "qwen2"


def test_names_of_special_tokens_in_text_stay_text(vocabulary):
    tokens = vocabulary.tokenize("<|fim_prefix|><|endoftext|>")
    assert vocabulary.special("<|fim_prefix|>") not in tokens
    assert text_of(vocabulary, tokens) == b"<|fim_prefix|><|endoftext|>"


def test_empty_text_has_no_tokens(vocabulary):
    assert vocabulary.tokenize("").tolist() == []


@pytest.mark.parametrize("token", [-1, 4096, 10**9])
def test_a_token_that_does_not_exist_is_an_index_error(vocabulary, token):
    with pytest.raises(IndexError):
        vocabulary.piece(token)


def test_the_fingerprint_is_the_vocabulary_s_and_not_the_file_s(
    vocabulary, model_folder, gguf_maker
):
    draft = load_vocabulary(model_folder / "embedded-draft-q8_0.gguf")
    assert draft.fingerprint == vocabulary.fingerprint
    prints = {
        load_vocabulary(gguf_maker.bpe_vocabulary(name, tokens, types, **ends)).fingerprint
        for name, tokens, types, ends in (
            ("1.gguf", ["a", "b", "ab", "c"], None, {"eos_token_id": 3}),
            ("2.gguf", ["a", "b", "ab", "d"], None, {"eos_token_id": 3}),
            ("3.gguf", ["a", "b", "ab", "c"], [1, 1, 1, 4], {"eos_token_id": 3}),
            ("4.gguf", ["a", "ba", "b", "c"], None, {"eos_token_id": 3}),
        )
    }
    assert len(prints) == 4


def test_sentencepiece_text_gets_no_space_before_it(gguf_maker):
    # CodeLlama's tokens, which old GGUFs do not name in their metadata.
    path = gguf_maker.spm_vocabulary(
        "spm.gguf", ["▁", "a", "b", "▁a", "▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"]
    )
    vocabulary = load_vocabulary(path)
    for text in ("a", " a", "a b", "\na", "é", "  ", "\n", "▁"):
        tokens = vocabulary.tokenize(text)
        assert text_of(vocabulary, tokens).decode() == text.replace("▁", " ")
    assert vocabulary.bos == 1
    assert vocabulary.fim.prefix == vocabulary.special("▁<PRE>")
    assert vocabulary.fim.suffix == vocabulary.special("▁<SUF>")
    assert vocabulary.fim.middle == vocabulary.special("▁<MID>")
    assert vocabulary.fim.repo is None


@pytest.mark.parametrize(
    ("prefix", "suffix", "middle"),
    [
        ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder2
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek-Coder
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # CodeGemma
    ],
)
def test_fim_tokens_are_found_by_their_text(gguf_maker, prefix, suffix, middle):
    tokens = ["a", "b", "ab", prefix, suffix, middle, "<|endoftext|>"]
    path = gguf_maker.bpe_vocabulary("f.gguf", tokens, [1, 1, 1, 3, 3, 3, 3], eos_token_id=6)
    vocabulary = load_vocabulary(path)
    # DeepSeek writes its hole between prefix and suffix, so that token is the suffix's.
    assert (vocabulary.fim.prefix, vocabulary.fim.suffix, vocabulary.fim.middle) == (3, 4, 5)
    assert 6 in vocabulary.end_tokens


def test_bos_only_where_the_model_adds_one(gguf_maker):
    tokens = ["a", "b", "ab", "<s>", "</s>"]
    types = [1, 1, 1, 3, 3]
    with_bos = load_vocabulary(
        gguf_maker.bpe_vocabulary(
            "w.gguf", tokens, types, bos_token_id=3, eos_token_id=4, add_bos_token=True
        )
    )
    without = load_vocabulary(
        gguf_maker.bpe_vocabulary(
            "o.gguf", tokens, types, bos_token_id=3, eos_token_id=4, add_bos_token=False
        )
    )
    assert (with_bos.bos, with_bos.bos_token, with_bos.eos_token) == (3, 3, 4)
    assert (without.bos, without.bos_token) == (None, 3)


def test_a_vocabulary_without_byte_tokens_is_refused(gguf_maker):
    path = gguf_maker.spm_vocabulary("spm.gguf", ["▁", "a"], with_bytes=False)
    with pytest.raises(ModelLoadError, match="byte 0x00"):
        load_vocabulary(path)


def test_the_native_vocabulary_is_freed_with_the_last_reference(model_folder, monkeypatch):
    freed: list[int] = []
    free = vocabulary_module.llama.llama_model_free

    def noted(model):
        freed.append(model)
        free(model)

    monkeypatch.setattr(vocabulary_module.llama, "llama_model_free", noted)
    vocabulary = load_vocabulary(model_folder / "embedded-target-f16.gguf")
    also = vocabulary
    del vocabulary
    assert also.tokenize("def f(x):\n").size
    assert freed == []
    del also
    assert len(freed) == 1


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelNotFoundError, match="There is no model file"):
        load_vocabulary(tmp_path / "none.gguf")
