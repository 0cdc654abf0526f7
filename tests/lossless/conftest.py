"""The real models, loaded once."""

from pathlib import Path

import pytest
from other_vocabulary import write_with_fewer_tokens
from quiet_loading import quiet_draft_model, quiet_target
from real_prompts import STEP, cut_prompts

MODELS = Path(__file__).parents[2] / "fixtures" / "models"

N_THREADS = {"f16": 2 if STEP == 1 else 1, "q8_0": 1}
"""With one thread llama.cpp computes a token alone as it does in a small batch.  With several it
splits a lone token's attention over them: the last bits differ, and rounding the activations to
eight bits makes a hundredth of a logit of them.  Measured with Q8_0 and two threads: 0.4 to 0.7 %
of the tokens, greedy and seeded; F16 does not mind.  `make test` takes one thread: threads that
wait for each other keep the tests of the other process from running."""


@pytest.fixture(scope="module", params=["f16", "q8_0"])
def quantisation(request):
    return str(request.param)


@pytest.fixture(scope="module")
def target(quantisation, q8_0_model):
    path = q8_0_model if quantisation == "q8_0" else MODELS / "embedded-target-f16.gguf"
    loaded = quiet_target(path, threads=N_THREADS[quantisation], fit=False)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def draft_model(vocabulary):
    drafter = quiet_draft_model(MODELS / "embedded-draft-q8_0.gguf", vocabulary)
    yield drafter
    drafter.close()


@pytest.fixture(scope="module")
def draft_by_text(vocabulary, tmp_path_factory):
    """A draft model with half of the target's tokens, which drafts through text."""
    path = tmp_path_factory.mktemp("half") / "draft.gguf"
    write_with_fewer_tokens(MODELS / "embedded-draft-q8_0.gguf", path, n_merges=1700)
    drafter = quiet_draft_model(path, vocabulary)
    assert drafter.crosses_by_text
    yield drafter
    drafter.close()


@pytest.fixture(scope="module")
def prompts(vocabulary):
    return cut_prompts(vocabulary)
