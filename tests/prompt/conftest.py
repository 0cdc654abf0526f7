"""Vocabulary-only GGUFs of the families, small enough to be written by each test run."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import pytest

from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


@dataclass(frozen=True)
class TinyModel:
    """What of a model's GGUF matters to prompts."""

    kind: str
    """``bpe`` or ``spm``."""
    pre: str = "default"
    control: Sequence[str] = ()
    user_defined: Sequence[str] = ()
    normal: Sequence[str] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    """Metadata key below ``tokenizer.ggml.`` → token text."""
    bos: str = ""
    eos: str = ""
    add_space_prefix: bool | None = None
    name: str = "tiny"


def byte_characters() -> list[str]:
    """The characters by which byte-level BPE spells the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        spelled.setdefault(byte, chr(256 + sum(b not in printable for b in range(byte))))
    return [spelled[byte] for byte in range(256)]


BPE_WORDS = ("de", "def", "Ġf", "ret", "ĠĠ", "ĠĠĠ", "ĊĊ")
BPE_MERGES = ("d e", "de f", "Ġ f", "r e", "re t", "Ġ Ġ", "ĠĠ Ġ", "Ċ Ċ")
SPM_WORDS = ("▁", "▁def", "def", "▁f", "f", "ret", "▁ret", "▁▁", "▁▁▁▁", "(", ")", ":", "x", "1")


def write_model(path: Path, model: TinyModel) -> None:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(model.name)
    if model.kind == "bpe":
        texts = [*byte_characters(), *BPE_WORDS, "re"]
        types = [NORMAL] * len(texts)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(model.pre)
        writer.add_token_merges(list(BPE_MERGES))
    else:
        texts = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *SPM_WORDS]
        types = [UNKNOWN, *[BYTE] * 256, *[NORMAL] * len(SPM_WORDS)]
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
    for kind, names in (
        (CONTROL, model.control),
        (USER_DEFINED, model.user_defined),
        (NORMAL, model.normal),
    ):
        texts.extend(names)
        types.extend([kind] * len(names))
    writer.add_token_list(texts)
    writer.add_token_types(types)
    if model.kind == "spm":
        writer.add_token_scores([-float(i) for i in range(len(texts))])
        if model.add_space_prefix is not None:
            writer.add_add_space_prefix(model.add_space_prefix)
    for key, text in model.ids.items():
        writer.add_uint32(f"tokenizer.ggml.{key}", texts.index(text))
    if model.bos:
        writer.add_bos_token_id(texts.index(model.bos))
    if model.eos:
        writer.add_eos_token_id(texts.index(model.eos))
    writer.add_add_bos_token(bool(model.bos))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


MODELS = {
    name: TinyModel(**model)
    for name, model in tomllib.loads(
        (Path(__file__).parent / "models.toml").read_text(encoding="utf-8")
    ).items()
}

Load = Callable[[str], LlamaVocabulary]


@pytest.fixture(scope="session")
def load_model(tmp_path_factory):
    """Load one of the tiny models by name."""
    folder = tmp_path_factory.mktemp("vocabularies")
    loaded: dict[str, LlamaVocabulary] = {}

    def load(name):
        if name not in loaded:
            path = folder / f"{name}.gguf"
            write_model(path, MODELS[name])
            loaded[name] = load_vocabulary(path)
        return loaded[name]

    return load


@pytest.fixture(scope="session")
def spell():
    """A prompt's tokens as text, special tokens as ⟦name⟧ so that plain text cannot look so."""

    def spelled(vocabulary, prompt):
        parts: list[bytes] = []
        for token in prompt.tokens:
            text = vocabulary.text(token)
            is_special = _is_special(text)
            parts.append(f"⟦{text}⟧".encode() if is_special else vocabulary.piece(token))
        return b"".join(parts).decode()

    return spelled


def _is_special(text: str) -> bool:
    is_byte = text.startswith("<0x")
    return len(text) > 2 and text.lstrip("▁")[:1] in ("<", "[") and text[-1] in ">]" and not is_byte
