"""Drafts that contradict what was typed cost no pass."""

import pytest

from speclsp.drafting.drafter import (
    NO_DRAFT,
    NOTHING_HELD,
    Candidate,
    Draft,
    DraftContext,
    HeldText,
)
from speclsp.drafting.proposer import MeasuredDrafter

PIECES = [b"ret", b"return", b"urn", b" x", b"", b"re", b"t", b"\xf0\x9f", b"\x99\x82"]


@pytest.mark.parametrize(
    ("data", "generated", "draft", "admitted"),
    [
        (b"retu", [], [0, 2, 3], True),
        (b"retu", [], [1, 3], True),
        (b"retu", [], [5, 6], True),
        (b"retu", [], [3], False),
        (b"retu", [], [0, 3], False),
        (b"retu", [0], [2, 3], True),
        (b"retu", [0], [3], False),
        (b"retu", [1], [3], True),
        (b"retu", [0, 2], [0], True),
        ("🙂".encode(), [], [7, 8, 3], True),
        ("🙂".encode(), [7], [7], False),
        (b"", [], [3], True),
        (b"retu", [], [], True),
    ],
)
def test_admits(data, generated, draft, admitted):
    assert HeldText(data, PIECES.__getitem__).admits(generated, draft) is admitted


def test_nothing_held_admits_everything():
    assert NOTHING_HELD.admits([], [1, 2, 3])


class Stubborn:
    name = "stubborn"

    def begin(self, context):
        pass

    def draft(self, generated, n_max):
        return Draft((3, 3))

    def candidates(self, generated, n_max):
        return [Candidate((3, 3), "a", 1), Candidate((1, 3), "a", 1)]

    def accept(self, n_accepted):
        pass


def test_a_draft_that_contradicts_the_text_is_none():
    drafter = MeasuredDrafter(Stubborn())
    held = HeldText(b"retu", PIECES.__getitem__)
    drafter.start(DraftContext(prompt=(), held=held), lambda: 0.0)
    assert drafter.draft([], 8).tokens == ()
    assert [c.tokens for c in drafter.candidates([], 8)] == [(1, 3)]
    assert drafter.draft([1], 8).tokens == (3, 3)
    drafter.start(DraftContext(prompt=()), lambda: 0.0)
    assert drafter.draft([], 8).tokens == (3, 3)


def test_drafts_end_before_a_token_that_ends_the_output():
    drafter = MeasuredDrafter(Stubborn())
    drafter.start(DraftContext(prompt=(), end_tokens=frozenset({3})), lambda: 0.0)
    assert drafter.draft([], 8) == NO_DRAFT
    assert drafter.candidates([], 8) == [Candidate((1,), "stubborn:a", 1, 1.0, ())]
    stats = drafter.stats()
    assert (stats.n_proposed_drafts, stats.n_proposed) == (1, 1)
