"""Vocabulary-only GGUFs of the families, small enough to be written by each test run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import pytest

from speclsp.engine.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.prompt.prompt import FimPrompt

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


QWEN_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
STARCODER_FIM = ("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>")
DEEPSEEK_FIM = ("<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>")
CODELLAMA_FIM = ("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>")

MODELS = {
    "qwen": TinyModel(
        "bpe",
        "qwen2",
        control=("<|endoftext|>", *QWEN_FIM, "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
        ids={"fim_pre_token_id": "<|fim_prefix|>", "fim_suf_token_id": "<|fim_suffix|>"},
        eos="<|endoftext|>",
    ),
    "starcoder2": TinyModel(
        "bpe",
        "starcoder",
        control=("<|endoftext|>", *STARCODER_FIM, "<repo_name>", "<file_sep>"),
        eos="<|endoftext|>",
    ),
    "granite-code": TinyModel(
        "bpe",
        "refact",
        control=("<|endoftext|>", *STARCODER_FIM, "<filename>", "<gh_stars>", "<reponame>"),
        eos="<|endoftext|>",
    ),
    "mellum": TinyModel(
        "bpe",
        "refact",
        control=("<|endoftext|>", *STARCODER_FIM, "<filename>", "<gh_stars>", "<reponame>"),
        eos="<|endoftext|>",
        name="Mellum 4b Base",
    ),
    "mellum2": TinyModel(
        "bpe",
        "refact",
        control=("<|endoftext|>", *STARCODER_FIM, "<filename>", "<gh_stars>", "<reponame>"),
        eos="<|endoftext|>",
        name="Mellum2 12B A2.5B Base",
    ),
    "granite-4": TinyModel(
        "bpe",
        "dbrx",
        control=("<|end_of_text|>", *QWEN_FIM, "<|fim_pad|>", "<|start_of_role|>"),
        eos="<|end_of_text|>",
        name="Granite 4.0 1b Base",
    ),
    "glm": TinyModel(
        "bpe",
        "glm4",
        control=("<|endoftext|>", "<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>"),
        eos="<|endoftext|>",
    ),
    "qwen3.5": TinyModel(
        "bpe",
        "qwen35",
        control=(
            "<|endoftext|>",
            "<|im_start|>",
            "<|im_end|>",
            *QWEN_FIM,
            "<|fim_pad|>",
            "<|repo_name|>",
            "<|file_sep|>",
            "<think>",
        ),
        eos="<|endoftext|>",
        name="Qwen3.5 9B",
    ),
    "deepseek-coder": TinyModel(
        "bpe",
        "deepseek-coder",
        control=("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
        user_defined=(*DEEPSEEK_FIM, "<|EOT|>"),
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
    ),
    "deepseek-coder-v2": TinyModel(
        "bpe",
        "deepseek-llm",
        control=("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", *DEEPSEEK_FIM),
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
    ),
    "codegemma": TinyModel(
        "spm",
        control=("<pad>", "<eos>", "<bos>", *QWEN_FIM, "<|file_separator|>"),
        bos="<bos>",
        eos="<eos>",
        add_space_prefix=False,
    ),
    "codellama": TinyModel(
        "spm",
        control=("<s>", "</s>"),
        normal=CODELLAMA_FIM,
        ids={"eot_token_id": "▁<EOT>"},
        bos="<s>",
        eos="</s>",
    ),
    "codellama-by-ids": TinyModel(
        "spm",
        control=("<s>", "</s>"),
        normal=CODELLAMA_FIM,
        ids={
            "prefix_token_id": "▁<PRE>",
            "suffix_token_id": "▁<SUF>",
            "middle_token_id": "▁<MID>",
            "eot_token_id": "▁<EOT>",
        },
        bos="<s>",
        eos="</s>",
    ),
    "codestral": TinyModel(
        "spm",
        control=("<s>", "</s>", "[INST]", "[/INST]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"),
        bos="<s>",
        eos="</s>",
    ),
    "seed-coder": TinyModel(
        "bpe",
        "seed-coder",
        control=("<[begin▁of▁sentence]>", "<[end▁of▁sentence]>"),
        user_defined=("<[fim-prefix]>", "<[fim-middle]>", "<[fim-suffix]>"),
        bos="<[begin▁of▁sentence]>",
        eos="<[end▁of▁sentence]>",
    ),
    "generic": TinyModel(
        "bpe",
        control=("<end>", "<before>", "<after>", "<gap>"),
        ids={
            "fim_pre_token_id": "<before>",
            "fim_suf_token_id": "<after>",
            "fim_mid_token_id": "<gap>",
        },
        eos="<end>",
    ),
    "generic-repository": TinyModel(
        "bpe",
        control=("<end>", "<before>", "<after>", "<gap>", "<where>", "<next>"),
        ids={
            "fim_pre_token_id": "<before>",
            "fim_suf_token_id": "<after>",
            "fim_mid_token_id": "<gap>",
            "fim_rep_token_id": "<where>",
            "fim_sep_token_id": "<next>",
        },
        eos="<end>",
    ),
    "chat": TinyModel("bpe", control=("<end>",), eos="<end>", name="Chatty 7B"),
    "half": TinyModel(
        "bpe",
        control=("<end>", "<before>"),
        ids={"fim_pre_token_id": "<before>"},
        eos="<end>",
        name="",
    ),
}

Load = Callable[[str], LlamaVocabulary]


@pytest.fixture(scope="session")
def load_model(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Load one of the tiny models by name."""
    folder = tmp_path_factory.mktemp("vocabularies")
    loaded: dict[str, LlamaVocabulary] = {}

    def load(name: str) -> LlamaVocabulary:
        if name not in loaded:
            path = folder / f"{name}.gguf"
            write_model(path, MODELS[name])
            loaded[name] = load_vocabulary(path)
        return loaded[name]

    return load


@pytest.fixture(scope="session")
def embedded() -> LlamaVocabulary:
    """The vocabulary of the embedded model."""
    root = Path(__file__).parents[2]
    return load_vocabulary(root / "fixtures" / "models" / "embedded-target-f16.gguf")


@pytest.fixture(scope="session")
def spell() -> Callable[[LlamaVocabulary, FimPrompt], str]:
    """A prompt's tokens as text, special tokens as ⟦name⟧ so that plain text cannot look so."""

    def spelled(vocabulary: LlamaVocabulary, prompt: FimPrompt) -> str:
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
