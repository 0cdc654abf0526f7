"""Training samples look as the product's prompts do."""

from dataclasses import replace

import pytest

from speclsp.backends.llama.vocabulary import LlamaVocabulary
from speclsp.prompt.families import FimFamily, family_for
from speclsp.prompt.prompt import PromptBudget
from tests.support.prompts import build_prompt
from training.layouts import FimText, Sample, SpecialTokens, Weights, document_sample, fim_sample

TEXT = FimText(
    repo="project",
    path="project/area.py",
    chunks=(),
    prefix="import os\n\n\n",
    typed="def area(wid",
    middle="th, height):",
    suffix="\n    return width * height\n",
    joined=False,
)
WEIGHTS = Weights(context=1.0, typed=1.0, middle=4.0)


@pytest.fixture
def family(vocabulary):
    return family_for(vocabulary, "")


@pytest.fixture
def special(vocabulary):
    fim = vocabulary.fim
    end = vocabulary.special("<|endoftext|>")
    ids = (end, fim.prefix, fim.middle, fim.suffix, fim.repo, fim.separator, fim.pad)
    found = [token for token in ids if token is not None]
    return SpecialTokens(*found)


def laid_out(text: FimText, special: SpecialTokens, vocabulary: LlamaVocabulary) -> Sample:
    return fim_sample(text, special, lambda part: encoded(vocabulary, part), WEIGHTS)


def encoded(vocabulary: LlamaVocabulary, part: str) -> list[int]:
    return vocabulary.tokenize(part).tolist() if part else []


def of_the_product(
    text: FimText, family: FimFamily, vocabulary: LlamaVocabulary, *, is_plain: bool
) -> list[int]:
    prompt = build_prompt(
        family,
        vocabulary,
        repo_name=text.repo,
        path=text.path,
        prefix=text.prefix + text.typed,
        suffix=text.suffix,
        budget=PromptBudget(n_prompt=1000),
        layout="plain" if is_plain else "anchored",
    )
    return list(prompt.tokens)


def test_the_anchored_layout_is_the_products(family, vocabulary, special):
    sample = laid_out(TEXT, special, vocabulary)
    prompt = of_the_product(TEXT, family, vocabulary, is_plain=False)
    assert sample.tokens == [*prompt, *encoded(vocabulary, TEXT.middle), special.end]


def test_the_plain_layout_is_the_products(family, vocabulary, special):
    sample = laid_out(replace(TEXT, prefix=TEXT.prefix + TEXT.typed, typed=""), special, vocabulary)
    prompt = of_the_product(TEXT, family, vocabulary, is_plain=True)
    assert sample.tokens == [*prompt, *encoded(vocabulary, TEXT.middle), special.end]


def test_each_target_is_the_next_token_but_at_the_suffix(vocabulary, special):
    sample = laid_out(TEXT, special, vocabulary)
    foreseen = sample.tokens.index(special.suffix)
    first_idx = sample.tokens.index(special.middle) + 1
    assert sample.targets[foreseen] == sample.tokens[first_idx]
    for idx, target in enumerate(sample.targets[:-1]):
        assert idx == foreseen or target == sample.tokens[idx + 1]
    assert sample.weights[-1] == 0


def test_the_middle_and_its_end_weigh_most(vocabulary, special):
    sample = laid_out(TEXT, special, vocabulary)
    n_middle = len(encoded(vocabulary, TEXT.middle))
    assert sample.weights[-2 - n_middle : -1] == [4.0] * (n_middle + 1)
    assert sample.targets[-2] == special.end
    assert sample.weights.count(4.0) == n_middle + 1


def test_joined_text_is_tokenised_as_one(vocabulary, special):
    text = replace(TEXT, joined=True)
    sample = laid_out(text, special, vocabulary)
    whole = encoded(vocabulary, text.typed + text.middle)
    assert sample.tokens[-1 - len(whole) : -1] == whole
    # "wid" and "th" are one word, which counts as the middle's.
    n_typed = sum(weight == 1.0 for weight in sample.weights[-2 - len(whole) : -2])
    assert 0 < n_typed < len(encoded(vocabulary, text.typed))


def test_context_stands_before_the_file(vocabulary, special):
    text = replace(TEXT, chunks=(("project/shapes.py", "class Shape:"),))
    tokens = laid_out(text, special, vocabulary).tokens
    assert tokens.count(special.separator) == 2
    shown = b"".join(vocabulary.piece(token) for token in tokens).decode()
    assert shown.startswith("project\nproject/shapes.py\nclass Shape:\nproject/area.py\nimport os")


def test_a_document_can_be_cut(vocabulary, special):
    sample = document_sample(TEXT, special, lambda part: encoded(vocabulary, part), WEIGHTS)
    n_tokens = len(sample.tokens)
    sample.cut(n_tokens - 1)
    assert len(sample.tokens) == len(sample.targets) == len(sample.weights) == n_tokens - 1
