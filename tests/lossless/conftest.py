"""The real models, loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_prompts import RealPrompt, cut_prompts

from speclsp.engine.draft_model import DraftModelDrafter, load_draft_model
from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.loading import load_target
from speclsp.engine.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.engine.params import target_params
from speclsp.settings import Settings

MODELS = Path(__file__).parents[2] / "fixtures" / "models"


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[LlamaVocabulary]:
    loaded = load_vocabulary(MODELS / "embedded-target-f16.gguf")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module", params=["f16", "q8_0"])
def quantisation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def target(quantisation: str) -> Iterator[LlamaTarget]:
    # With one thread llama.cpp computes a token alone as it does in a small batch.  With several
    # it splits a lone token's attention over them, and the last bits differ.
    model_params, context_params = target_params(Settings(threads=1))
    loaded = load_target(
        MODELS / f"embedded-target-{quantisation}.gguf",
        model_params,
        context_params,
        fit=False,
        progress=lambda share: True,
        log=lambda level, line: None,
    )
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def draft_model(vocabulary: LlamaVocabulary, target: LlamaTarget) -> Iterator[DraftModelDrafter]:
    path = MODELS / "embedded-draft-q8_0.gguf"
    drafter = load_draft_model(
        path, Settings(spec_draft_threads=1), vocabulary, target.n_ctx, lambda level, line: None
    )
    yield drafter
    drafter.close()


@pytest.fixture(scope="module")
def prompts(vocabulary: LlamaVocabulary) -> list[RealPrompt]:
    return cut_prompts(vocabulary)
