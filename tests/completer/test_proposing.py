"""What drafts for the loaded models, and what it remembers from session to session."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scripted_models import ScriptedLoader

from speclsp.completer.events import EventQueue
from speclsp.completer.proposing import SAVE_EVERY, Proposing
from speclsp.drafting.chain import DrafterChain
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.ngram_statistics import NO_FOLLOWERS, Followers, Statistics
from speclsp.drafting.protocol import NO_TREE, DraftContext
from speclsp.engine.models import Tokenizer, Weights
from speclsp.request import LogLine, Problem
from speclsp.settings import Settings
from speclsp.storage.calibration_store import CalibrationStore
from speclsp.storage.locations import calibration_store_path, state_dir


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def events() -> EventQueue:
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


def draft_once(proposing: Proposing, fingerprint: str = "bytes") -> None:
    """Make a proposer, and let one draft of it be wrong."""
    proposer = proposing.make(Settings(), *loaded(fingerprint))
    assert isinstance(proposer, DraftMerger)
    tokenizer = loaded()[0]
    prefix = tokenizer.vocabulary.tokenize("abcdef abc")
    proposer.begin(DraftContext(prompt=(0,), prefix=prefix))
    for n_emitted in range(20):
        proposer.propose([1] * n_emitted, 4)
    for _ in range(SAVE_EVERY - 1):
        assert not proposing.completed()
    assert proposing.completed()


@pytest.mark.parametrize(
    ("drafters", "n_told"), [("draft", 1), ("draft-simple", 1), ("none", 0), ("", 0)]
)
def test_a_draft_model_that_nobody_set(events: EventQueue, drafters: str, n_told: int) -> None:
    proposing = Proposing(events, persist=False)
    assert proposing.make(Settings(drafters=drafters), *loaded()) is None
    messages = heard(events)
    assert len(messages) == n_told
    assert all("names a draft model only, and none is loaded" in text for text in messages)


@pytest.mark.parametrize("mode", ["auto", "tree", "chain"])
def test_drafters_are_merged(events: EventQueue, mode: str) -> None:
    proposer = Proposing(events, persist=False).make(
        dataclasses.replace(Settings(), mode=mode), *loaded()
    )
    assert isinstance(proposer, DraftMerger)


class FixedCounts:
    """The same token follows every n-gram of two."""

    max_order = 2

    def followers(self, ngram: tuple[int, ...]) -> Followers:
        if len(ngram) < 2:
            return NO_FOLLOWERS
        return Followers(np.array([7], dtype=np.int32), np.array([9]))


def test_statistics_join_without_being_named(events: EventQueue) -> None:
    proposer = Proposing(events, persist=False).make(Settings(drafters="suffix"), *loaded())
    assert proposer is not None
    prefix = np.array([1, 2], dtype=np.int32)
    proposer.begin(DraftContext(prompt=(0,), prefix=prefix))
    assert proposer.propose([], 4) == NO_TREE
    assert proposer.stats().keys() == {"suffix"}
    known = Statistics(dynamic=(FixedCounts(),))
    proposer.begin(DraftContext(prompt=(0,), prefix=prefix, statistics=known))
    tree = proposer.propose([], 4)
    assert set(tree.tokens) == {7}
    assert set(tree.sources) == {"ngram-cache"}
    proposer.accept([0])
    assert proposer.stats()["ngram-cache"].n_accepted == 1


def test_or_the_first_one_wins(events: EventQueue) -> None:
    proposer = Proposing(events, persist=False).make(Settings(mode="first"), *loaded())
    assert isinstance(proposer, DrafterChain)


def test_nothing_drafts(events: EventQueue) -> None:
    proposing = Proposing(events, persist=False)
    tokenizer, weights = loaded()
    assert proposing.make(Settings(speculation=False), tokenizer, weights) is None
    assert proposing.make(Settings(drafters="none"), tokenizer, weights) is None
    assert heard(events) == []
    recurrent = dataclasses.replace(weights, supports_rollback=False)
    assert proposing.make(Settings(), tokenizer, recurrent) is None
    assert "cannot be rolled back" in heard(events)[0]
    assert proposing.make(Settings(drafters="no-such"), tokenizer, weights) is None
    assert "unknown drafter 'no-such'" in heard(events)[0]


def test_what_was_learned_survives_a_restart_by_model(events: EventQueue) -> None:
    first = Proposing(events, persist=True)
    draft_once(first)
    learned = first._calibration.cells()
    first.close()
    again = Proposing(events, persist=True)
    again.make(Settings(), *loaded())
    assert again._calibration.cells() == learned
    again.make(Settings(), *loaded("another vocabulary"))
    assert again._calibration.cells() != learned
    again.make(Settings(max_draft=3), *loaded())
    assert again._calibration.cells() == learned
    again.close()
    assert heard(events) == []


def test_new_settings_keep_what_was_learned(events: EventQueue) -> None:
    proposing = Proposing(events, persist=False)
    draft_once(proposing)
    learned = proposing._calibration.cells()
    proposing.make(Settings(max_draft=3), *loaded())
    assert proposing._calibration.cells() == learned


def test_without_persistence_nothing_is_written(events: EventQueue) -> None:
    proposing = Proposing(events, persist=False)
    draft_once(proposing)
    proposing.save()
    proposing.close()
    assert not state_dir().exists()


def test_nothing_new_is_not_written(events: EventQueue) -> None:
    proposing = Proposing(events, persist=True)
    proposing.make(Settings(), *loaded())
    proposing.close()
    store = CalibrationStore.open()
    assert store.n_models() == 0
    store.close()


def test_a_damaged_store_is_told_and_replaced(events: EventQueue) -> None:
    calibration_store_path().parent.mkdir(parents=True)
    calibration_store_path().write_bytes(b"nonsense" * 1000)
    proposing = Proposing(events, persist=True)
    draft_once(proposing)
    proposing.close()
    assert "damaged" in heard(events)[0]
    store = CalibrationStore.open()
    assert store.n_models() == 1
    store.close()


def test_a_store_that_cannot_be_written_is_told_once(events: EventQueue, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    proposing = Proposing(events, persist=True)
    draft_once(proposing)
    proposing.save()
    proposing.close()
    (message,) = heard(events)
    assert message.startswith("how often drafts are right is not kept")
