"""How far K-quants are from giving the same text with drafts: ε, and a rate.

The fixed places' own tokens are the references.  Behind a token that comes out differently the
comparison goes on from the reference's.

A failure means that speculation changes texts by more than rounding does: look for the defect in
verification or in what is rolled back, and loosen no bound.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from exactness import Outcome, Reference, compare, run, sampling
from published import golden, loaded_target, loaded_tokenizer, model_path, places, why_missing
from quiet_loading import quiet_draft_model
from real_prompts import RealPrompt
from scripted_drafters import OracleDrafter
from scripted_proposers import adversarial_trees, oracle_trees

from speclsp.backends.llama.context import LlamaTarget
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext, Drafter
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.registry import load_drafter
from speclsp.settings import Settings
from tests.support.margins import EPSILON, NEARLY_EVEN, RecordingSampler

pytestmark = pytest.mark.real

QUANTISATION = "q4_k_m"
STEP = {"0.5b": 3, "1.5b": 6}
"""One place of so many, so that the larger model does not take minutes."""
N_SEEDED = 16
MOST_DIFFERING = 0.02
"""Share of tokens that may come out differently; measured: see docs/decisions/lossless.md."""
ROWS = (1, 4, 8, 12)


def merged() -> DraftMerger:
    drafters = [load_drafter(name, Settings()) for name in ("suffix", "ngram-cache")]
    return DraftMerger(drafters, AcceptanceTable(), mode="tree", n_max=7)


def references(
    size: str, target: LlamaTarget, prompts: dict[str, RealPrompt], mode: str
) -> list[Reference]:
    """The target's tokens: the recorded ones, or with a seed those that it gives here."""
    found = []
    for seed, (name, own) in enumerate([*golden(size).items()][:: STEP[size]]):
        prompt, params = prompts[name], sampling(mode, seed)
        if mode == "greedy":
            found.append(Reference(prompt, params, own.tokens, own.margins))
            continue
        sampler = RecordingSampler(params)
        target.truncate(0)
        made = run(target, DraftContext(prompt=prompt.tokens), None, sampler, N_SEEDED)
        found.append(Reference(prompt, params, made.tokens, tuple(sampler.margins)))
    return found


@pytest.mark.parametrize("mode", ["greedy", "seeded"])
def test_tokens_that_differ_were_nearly_even(size, target, prompts, mode, capsys):
    n_vocab = target.n_vocab
    makers: dict[str, Callable[[Sequence[int]], Drafter | Proposer]] = {
        "chains": lambda rest: OracleDrafter(rest, n_draft=11),
        "trees": lambda rest: oracle_trees(rest, n_vocab, seed=len(rest), n_nodes=11),
        "wrong trees": lambda rest: adversarial_trees(rest, n_vocab, n_branches=3),
        "look-ups": lambda _rest: merged(),
    }
    if mode == "seeded":
        del makers["wrong trees"]
    told = references(size, target, prompts, mode)
    for name, make in makers.items():
        outcome = Outcome()
        n_texts = 0
        for reference in told:
            before = outcome.n_mismatches
            compare(target, reference, make, 2.0 * NEARLY_EVEN[QUANTISATION], outcome)
            n_texts += outcome.n_mismatches > before
        with capsys.disabled():
            print(  # noqa: T201 - the figures behind the promise are to be seen
                f"\n{size} {mode} {name}: {n_texts} of {len(told)} texts, "
                f"{outcome.n_mismatches} of {outcome.n_tokens} tokens differ, widest margin "
                f"{outcome.widest:.3f}; {outcome.n_drafted} were drafted"
            )
        assert outcome.n_drafted > 0
        assert outcome.not_nearly_even == []
        assert outcome.n_mismatches <= max(2, MOST_DIFFERING * outcome.n_tokens)


def test_logits_of_batch_shapes_are_within_epsilon(size, target, prompts, capsys):
    """The logits behind the same prefix in passes over 1, 4, 8 and 12 tokens.

    A failure alone, without one above, means kernels that round more: another CPU or llama.cpp.
    """
    worst: dict[int, float] = dict.fromkeys(ROWS[1:], 0.0)
    for name, own in [*golden(size).items()][:: 4 * STEP[size]]:
        told = own.tokens[:24]
        by_rows = {}
        for n_rows in ROWS:
            target.truncate(0)
            target.decode(prompts[name].tokens, 1)
            pieces = [told[i : i + n_rows] for i in range(0, len(told), n_rows)]
            by_rows[n_rows] = np.concatenate([target.decode(p, len(p)).copy() for p in pieces])
        for n_rows in ROWS[1:]:
            difference = float(np.abs(by_rows[1] - by_rows[n_rows]).max())
            worst[n_rows] = max(worst[n_rows], difference)
    with capsys.disabled():
        print(f"\n{size}: logits differ from single tokens' by {worst}")  # noqa: T201
    assert max(worst.values()) < EPSILON[QUANTISATION]


def test_the_smaller_model_drafts_for_the_larger_one(capsys):
    """The pair of 1.5B and 0.5B: the larger one's tokens, more than one a pass."""
    if reason := why_missing("1.5b") or why_missing("0.5b"):
        pytest.skip(reason)
    target, tokenizer = loaded_target("1.5b"), loaded_tokenizer("1.5b")
    drafter = quiet_draft_model(model_path("0.5b"), tokenizer.vocabulary)
    try:
        assert not drafter.crosses_by_text
        by_name = {place.name: place for place in places()}
        outcome = Outcome()
        for name in ("python-copy", "java-getter"):
            own = golden("1.5b")[name]
            prompt = by_name[name].prompt(tokenizer)
            reference = Reference(prompt, sampling("greedy", 0), own.tokens, own.margins)
            compare(target, reference, lambda _: drafter, 2.0 * NEARLY_EVEN[QUANTISATION], outcome)
        with capsys.disabled():
            print(f"\npair: {outcome.n_mismatches} of {outcome.n_tokens} tokens differ")  # noqa: T201
        assert outcome.n_drafted > outcome.n_tokens // 2
        assert outcome.not_nearly_even == []
    finally:
        drafter.close()
        target.close()
