"""What drafts for the loaded models."""

import dataclasses

import numpy as np
import pytest
from scripted_models import ScriptedLoader

from speclsp.backends.draft_model import DraftModelDrafter
from speclsp.backends.weights import Tokenizer, Weights
from speclsp.completer.edit_job import EDIT_DRAFTERS
from speclsp.completer.loaded_models import make_proposer
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.drafter import NO_TREE, DraftContext, Statistics
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.registry import draft_model_remark, given_without_speculation
from speclsp.errors import SpecLspError
from speclsp.seam.events import EventQueue, LogLine, Problem
from speclsp.settings import Settings
from speclsp.settings_resolution import resolve


@pytest.fixture
def events():
    return EventQueue()


def loaded(fingerprint: str = "bytes") -> tuple[Tokenizer, Weights]:
    loader = ScriptedLoader(fingerprint=fingerprint)
    tokenizer = loader.tokenizer(Settings())
    return tokenizer, loader.weights(
        Settings(), tokenizer, lambda _: True, lambda _level, _line: None
    )


def heard(events: EventQueue) -> list[str]:
    messages = []
    while (event := events.next(0.0)) is not None:
        if isinstance(event, (LogLine, Problem)):
            messages.append(event.message)
    return messages


def make(
    events: EventQueue, settings: Settings, tokenizer_and_weights: tuple[Tokenizer, Weights]
) -> Proposer | None:
    def report(problem: SpecLspError) -> None:
        events.problem(problem.message, problem.remedy)

    return make_proposer(settings, tokenizer_and_weights[1], AcceptanceTable(), report)


@pytest.mark.parametrize(
    ("drafters", "n_told"), [("draft", 1), ("draft-simple", 1), ("none", 0), ("", 0)]
)
def test_a_draft_model_that_nobody_set(events, drafters, n_told):
    assert make(events, Settings(drafters=drafters), loaded()) is None
    messages = heard(events)
    assert len(messages) == n_told
    assert all("names a draft model only, and none is loaded" in text for text in messages)


@pytest.mark.parametrize("mode", ["auto", "tree", "chain", "first"])
def test_drafters_are_merged(events, mode):
    proposer = make(events, dataclasses.replace(Settings(), mode=mode), loaded())
    assert isinstance(proposer, DraftMerger)


class FixedCounts:
    """The same token follows every n-gram of two."""

    max_order = 2

    def followers(self, ngram: tuple[int, ...]) -> dict[int, int]:
        return {7: 9} if len(ngram) == 2 else {}


def test_statistics_are_drafted_from_by_default(events):
    proposer = make(events, Settings(), loaded())
    assert proposer is not None
    prefix = np.array([1, 2], dtype=np.int32)
    proposer.begin(DraftContext(prompt=(0,), prefix=prefix))
    assert proposer.propose([], 4) == NO_TREE
    # Each half of the default is named in the statistics, whether it drafted or not.
    assert list(proposer.stats()) == ["suffix", "ngram-cache"]
    known = Statistics(dynamic=(FixedCounts(),))
    proposer.begin(DraftContext(prompt=(0,), prefix=prefix, statistics=known))
    tree = proposer.propose([], 4)
    assert set(tree.tokens) == {7}
    assert set(tree.sources) == {"ngram-cache"}
    proposer.accept([0])
    assert proposer.stats()["ngram-cache"].n_accepted == 1


@pytest.mark.parametrize("mode", ["tree", "first"])
def test_ngram_mod_drafts_by_its_defaults(events, mode):
    proposer = make(events, Settings(drafters="ngram-mod", mode=mode), loaded())  # type: ignore[arg-type]
    assert proposer is not None
    free = VerifyCurve((1,), (1.0,))
    text = np.arange(200, dtype=np.int32)
    context = DraftContext(prompt=(0,), prefix=text[:24], suffix=text, verify_curve=free)
    proposer.begin(context)
    n_drafted = len(proposer.propose([], 99).tokens)
    # Mode first verifies all of it; elsewhere the decision takes as much as pays.
    assert n_drafted == 64 if mode == "first" else 15 < n_drafted <= 48
    assert heard(events) == []


def test_next_edits_are_drafted_as_far_as_the_curve_lets_pay(events):
    """Beyond `max_draft`, which is for completions."""
    region = np.arange(100, dtype=np.int32)
    free = VerifyCurve((1,), (1.0,))
    steep = VerifyCurve((1, 64), (1.0, 40.0))
    n_drafted: list[int] = []
    for curve in (free, steep):
        proposer = make_proposer(
            Settings(max_draft=3, mode="tree"),
            loaded()[1],
            AcceptanceTable(),
            lambda problem: events.problem(problem.message, problem.remedy),
            EDIT_DRAFTERS,
        )
        proposer.begin(
            DraftContext(prompt=(0,), regions=(region,), n_vocab=200, verify_curve=curve)
        )
        n_drafted.append(len(proposer.propose([], 99).tokens))
    assert n_drafted[0] > 15 > n_drafted[1]
    assert heard(events) == []


def test_a_setting_that_changes_nothing_is_reported(events):
    assert make(events, Settings(spec_ngram_mod_n_match=8), loaded()) is not None
    (problem,) = heard(events)
    assert problem == (
        "drafter_options.ngram-mod.n_match changes nothing: `drafters` (`--spec-type`) is "
        "'suffix,ngram-cache,draft'."
    )


def test_the_draft_model_comes_last_wherever_it_is_named(events):
    tokenizer, weights = loaded()
    model = DraftModelDrafter(weights.target, n_max=3, n_min=0, p_min=0.0, n_target_vocab=9)
    with_draft = dataclasses.replace(weights, draft=model)
    settings = Settings(drafters="draft,ngram_mod", mode="first")
    proposer = make(events, settings, (tokenizer, with_draft))
    assert list(proposer.stats()) == ["ngram-mod", "draft"]


def test_a_draft_model_beside_the_default_drafters_is_told_how_it_drafts():
    remark = draft_model_remark(Settings())
    assert "`--spec-type draft --mode first` makes it the only drafter" in remark
    assert "3 tokens at most" in remark
    assert "llama-server's documents name 16 and 0.75" in remark
    assert "16 and 0.75" not in draft_model_remark(resolve([{"draft": 16}]).settings)
    assert draft_model_remark(Settings(drafters="draft")) == ""
    assert draft_model_remark(resolve([{"draft": 0}]).settings) == ""


def test_settings_of_drafters_are_told_where_speculation_is_off():
    problem = given_without_speculation(resolve([{"draft": 8, "speculation": False}]).settings)
    assert problem.message == "speculation is off, so nothing reads draft_max."
    assert "--no-speculation" in problem.remedy
    model = given_without_speculation(Settings(speculation=False, spec_draft_model="x.gguf"))
    assert "spec_draft_model" in model.message
    assert given_without_speculation(Settings(speculation=False)) is None
    assert given_without_speculation(resolve([{"draft": 8}]).settings) is None


def test_nothing_drafts(events):
    pair = loaded()
    assert make(events, Settings(speculation=False), pair) is None
    assert make(events, Settings(drafters="none"), pair) is None
    assert heard(events) == []
    pair[1].target.max_draft = 0
    assert make(events, Settings(), pair) is None
    pair[1].target.max_draft = 1
    (told,) = heard(events)
    assert "`batch_size` is 1, or this model's memory cannot be rolled back" in told
    assert make(events, Settings(drafters="no-such"), pair) is None
    assert "unknown drafter 'no-such'" in heard(events)[0]
