"""Which draft models fit a target model."""

from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pytest

from speclsp.backends.llama.vocabulary import load_vocabulary, vocabulary_difference
from speclsp.drafting.drafter import EMPTY_TOKENS, TokenArray
from speclsp.vocabulary_protocol import FimTokenIds

TEXTS = tuple(f"t{token}" for token in range(300))


@dataclass(frozen=True)
class FakeVocabulary:
    texts: tuple[str, ...] = TEXTS
    type_name: str = "BPE"
    adds_bos: bool = False
    adds_eos: bool = False
    bos_token: int | None = 1
    eos_token: int | None = 2
    fim: FimTokenIds = field(default_factory=FimTokenIds)
    end_tokens: frozenset[int] = frozenset()
    metadata: MappingProxyType[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def n_tokens(self) -> int:
        return len(self.texts)

    @property
    def fingerprint(self) -> str:
        return str(hash((self.texts, self.type_name)))

    @property
    def bos(self) -> int | None:
        return self.bos_token if self.adds_bos else None

    def text(self, token: int) -> str:
        return self.texts[token]

    def tokenize(self, text: str) -> TokenArray:
        return EMPTY_TOKENS

    def special(self, text: str) -> int | None:
        return None

    def piece(self, token: int) -> bytes:
        return self.texts[token].encode()


def changed(token: int, text: str = "other") -> tuple[str, ...]:
    return (*TEXTS[:token], text, *TEXTS[token + 1 :])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"texts": TEXTS[:200]},
        {"texts": (*TEXTS, *(f"pad{n}" for n in range(128)))},
        {"texts": changed(0)},
        {"texts": changed(4)},
        {"bos_token": 7},  # neither adds it
        {"eos_token": None},
    ],
)
def test_vocabularies_that_fit(changes):
    target = FakeVocabulary()
    assert vocabulary_difference(target, replace(target, **changes)) == ""


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"type_name": "SPM"}, "the target's tokenizer is BPE, the draft's SPM"),
        ({"adds_bos": True}, "the target adds no BOS, the draft adds BOS 1"),
        ({"adds_eos": True, "texts": TEXTS[:299]}, "the target adds no EOS, the draft adds EOS 2"),
        ({"texts": TEXTS[:171]}, "the target has 300 tokens, the draft 171, more than 128 apart"),
        ({"texts": changed(5)}, "token 5 is 't5' in the target and 'other' in the draft"),
        ({"texts": changed(299)}, "token 299 is 't299' in the target and 'other' in the draft"),
    ],
)
def test_the_first_difference_is_named(changes, difference):
    target = FakeVocabulary()
    assert vocabulary_difference(target, replace(target, **changes)) == difference


def test_the_id_of_a_bos_that_both_add_counts():
    target = FakeVocabulary(adds_bos=True)
    difference = vocabulary_difference(target, replace(target, bos_token=9))
    assert difference == "the target adds BOS 1, the draft adds BOS 9"


def test_real_vocabularies(vocabulary, model_folder, gguf_maker):
    draft = load_vocabulary(model_folder / "embedded-draft-q8_0.gguf")
    assert vocabulary_difference(vocabulary, draft) == ""
    other = load_vocabulary(
        gguf_maker.bpe_vocabulary("o.gguf", ["a", "b", "ab"], eos_token_id=1, add_bos_token=False)
    )
    assert "4096 tokens, the draft 3" in vocabulary_difference(vocabulary, other)
