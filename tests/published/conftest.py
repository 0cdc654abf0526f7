"""The published models, loaded once each; the tests of one that is missing are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from published import MODELS, loaded_target, loaded_tokenizer, places, why_missing
from real_prompts import RealPrompt

from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.weights import Tokenizer


@pytest.fixture(scope="module", params=MODELS)
def size(request: pytest.FixtureRequest) -> str:
    if reason := why_missing(request.param):
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture(scope="module")
def tokenizer(size: str) -> Tokenizer:
    return loaded_tokenizer(size)


@pytest.fixture(scope="module")
def target(size: str) -> Iterator[LlamaTarget]:
    loaded = loaded_target(size)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> dict[str, RealPrompt]:
    return {place.name: place.prompt(tokenizer) for place in places()}
