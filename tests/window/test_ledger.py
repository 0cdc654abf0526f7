"""The table of suggestions: what is left of them, what was rejected, what is learned."""

import dataclasses
import itertools
from typing import Any

import pytest
from typed_requests import remade, request_at, result_of

from speclsp.reporting.session import SessionRecorder
from speclsp.seam.completion import GeneratedText, PlacedCompletion
from speclsp.seam.documents import AcceptedText, TextEdit
from speclsp.seam.statistics import SessionStats
from speclsp.window.ledger import MAX_SUGGESTIONS, Ledger, Offers, Suggestion

PLACE = request_at("a = 1\nx = ¦\n")


class Kept:
    """A ledger, and the ways to fill it."""

    def __init__(self, *texts: tuple[str, str], **fields: Any) -> None:
        self.counts = SessionRecorder()
        self.ledger = Ledger(self.counts)
        self.now = 0.0
        self._numbers = itertools.count()
        for place, text in texts:
            self.made(request_at(place, **fields), text)

    @property
    def stats(self) -> SessionStats:
        counts = self.ledger.impressions.counts(self.now)
        return dataclasses.replace(self.counts.snapshot(SessionStats()), **counts)

    def shown(self, completion_id: str) -> Suggestion | None:
        return self.ledger.shown(completion_id, self.now)

    def asked(self, request: PlacedCompletion) -> PlacedCompletion:
        asked = remade(request, completion_id=f"id-{next(self._numbers)}")
        self.ledger.requested(asked, may_answer=True)
        return asked

    def made(self, request: PlacedCompletion, text: str, **fields: Any) -> str:
        """Let the model say a text; returns its id."""
        asked = self.asked(request)
        result = result_of(text, completion_id=asked.completion_id, **fields)
        self.ledger.generated(asked, result, 0.0)
        return asked.completion_id

    def found(self, text: str, now: float = 0.0, **fields: Any) -> str | None:
        known = self.ledger.find(request_at(text, **fields), now)
        return None if known is None else known.rest.text

    def given(self, text: str) -> str:
        """Answer a request with what is left; returns the id."""
        request = remade(request_at(text), completion_id=f"id-{next(self._numbers)}")
        known = self.ledger.find(request, 0.0)
        assert known is not None
        self.ledger.used(request, known)
        return request.completion_id

    def turn_down(self, text: str = "foo") -> None:
        self.shown(self.made(PLACE, text))
        self.ledger.typed(request_at("a = 1\nx = z¦\n"))


# --- answers --------------------------------------------------------------------------------------


def test_the_latest_answer_that_fits_wins_and_going_back_finds_the_former():
    kept = Kept(("x = ¦", "abc"), ("x = a¦", "xyz"))
    assert kept.found("x = a¦") == "xyz"
    assert kept.found("x = ax¦") == "yz"
    assert kept.found("x = ab¦") == "c"
    assert kept.found("x = ¦") == "abc"


@pytest.mark.parametrize(
    "other",
    [
        {"multiline": "never"},
        {"max_lines": 3},
        {"n_predict": 5},
        {"temperature": 0.5},
        {"seed": 7},
        {"language_id": "rust"},
        {"path": "b.py"},
        {"repo_name": "q"},
        {"overrides": {"multiline": "never"}},
        {"uri": "file:///p/b.py"},
    ],
)
def test_an_answer_to_other_rules_is_none(other):
    kept = Kept(("x = ¦", "abc"))
    assert kept.found("x = a¦") == "bc"
    assert kept.found("x = a¦", **other) is None


def test_nothing_to_suggest_is_known_at_the_place_and_briefly():
    kept = Kept(("x = ¦", ""))
    assert kept.found("x = ¦", now=1) == ""
    assert kept.found("x = a¦", now=1) is None
    assert kept.found("x = ¦", now=3) is None


def test_answers_grow_old_and_are_bounded():
    assert Kept(("x¦", "abc")).found("x¦", now=599) == "abc"
    assert Kept(("x¦", "abc")).found("x¦", now=601) is None
    kept = Kept(*((f"{n}¦", "abc") for n in range(MAX_SUGGESTIONS + 1)))
    assert kept.found("0¦") is None
    assert kept.found("1¦") == "abc"


def test_alternatives_are_known_behind_the_first_text():
    other = GeneratedText(completion_id="other", text="xyz", n_replaced=0, mean_logprob=-1.0)
    kept = Kept()
    kept.made(request_at("a¦"), "xbc", alternatives=(other,))
    assert kept.found("ax¦") == "bc"
    known = kept.ledger.find(request_at("axy¦"), 0)
    generated = known.suggestion.generated
    assert (known.rest.text, generated.completion_id, generated.mean_logprob) == (
        "z", "other", -1.0,
    )  # fmt: skip


def test_a_document_can_be_forgotten_and_all_answers():
    kept = Kept(("x¦", "abc"))
    kept.ledger.forget("file:///p/a.py")
    assert kept.found("x¦") is None
    kept = Kept(("x¦", "abc"))
    kept.ledger.clear()
    assert kept.found("x¦") is None


# --- rejections -----------------------------------------------------------------------------------


def test_a_text_that_was_typed_against_twice_is_held_back_at_that_place():
    kept = Kept()
    kept.turn_down()
    assert not kept.ledger.was_rejected(PLACE, "foo")
    kept.turn_down()
    assert kept.ledger.was_rejected(PLACE, "foo")
    assert not kept.ledger.was_rejected(PLACE, "bar")
    assert not kept.ledger.was_rejected(request_at("y = ¦\n"), "foo")
    assert not kept.ledger.was_rejected(request_at("a = 1\nx = ¦\n", uri="file:///b"), "foo")
    kept.ledger.accepted(kept.made(PLACE, "foo"), None)
    assert not kept.ledger.was_rejected(PLACE, "foo")


@pytest.mark.parametrize("then", ["a = 1\nx = f¦\n", "a = 1\nx = ¦\n", "a = 1\nx =¦\n", "¦a = 1"])
def test_what_was_typed_as_suggested_or_left_was_not_turned_down(then):
    kept = Kept()
    for _ in range(3):
        kept.shown(kept.made(PLACE, "foo"))
        kept.ledger.typed(request_at(then))
    assert not kept.ledger.was_rejected(PLACE, "foo")


def test_what_is_left_of_a_suggestion_is_still_that_suggestion():
    kept = Kept()
    for _ in range(2):
        kept.shown(kept.made(PLACE, "foo(1)"))
        for typed in ("f", "fo"):
            kept.ledger.typed(request_at(f"a = 1\nx = {typed}¦\n"))
            kept.shown(kept.given(f"a = 1\nx = {typed}¦\n"))
        kept.ledger.typed(request_at("a = 1\nx = for¦\n"))
    assert kept.ledger.was_rejected(PLACE, "foo(1)")
    for n in range(2):  # a suggestion that was right at first was not turned down
        for _ in range(2):
            kept.shown(kept.made(PLACE, f"bar({n})"))
            kept.ledger.typed(request_at("a = 1\nx = bar[¦\n"))
        assert not kept.ledger.was_rejected(PLACE, f"bar({n})")


def test_a_closed_documents_screen_is_forgotten():
    kept = Kept()
    for _ in range(3):
        kept.shown(kept.made(PLACE, "foo"))
        kept.ledger.forget(PLACE.uri)
        kept.ledger.typed(request_at("a = 1\nx = z¦\n"))
    assert not kept.ledger.was_rejected(PLACE, "foo")


# --- shown and accepted ---------------------------------------------------------------------------


def accepted(kept: Kept, completion_id: str, n_chars: int | None = None) -> list[str]:
    return [learned.text for learned in kept.ledger.accepted(completion_id, n_chars)]


def test_a_suggestion_is_shown_once_and_counted_word_by_word():
    kept = Kept()
    first = kept.made(request_at("¦"), "a b c")
    assert kept.shown(first) is not None
    assert kept.shown(first) is None
    assert kept.shown("unknown") is None
    assert accepted(kept, first, 2) == []
    assert (kept.stats.n_shown, kept.stats.n_partially_accepted) == (1, 1)
    assert accepted(kept, first, 1) == []
    assert kept.stats.n_chars_accepted == 2
    assert accepted(kept, first) == ["a b c"]
    assert accepted(kept, first) == []
    assert accepted(kept, "unknown") == []
    assert (kept.stats.n_accepted_items, kept.stats.n_partially_accepted) == (1, 0)
    assert kept.stats.n_chars_accepted == 5


def typed_through(kept: Kept, shown: str, text: str) -> list[str]:
    """Type a text that is shown at PLACE key by key; returns the ids of what was shown."""
    ids = [shown]
    kept.shown(shown)
    for n_typed in range(1, len(text)):
        place = f"a = 1\nx = {text[:n_typed]}¦\n"
        kept.ledger.typed(request_at(place))
        ids.append(kept.given(place))
        kept.shown(ids[-1])
    return ids


@pytest.mark.parametrize("how", ["accepted", "typed to its end", "typed over", "closed"])
def test_a_suggestion_that_is_typed_through_counts_once(how):
    kept = Kept()
    ids = typed_through(kept, kept.made(PLACE, "foo(1)"), "foo(1)")
    assert kept.stats.n_shown == 0  # it is on screen for no time yet
    match how:
        case "accepted":
            kept.ledger.accepted(ids[-1], None)
        case "typed to its end":
            kept.ledger.typed(request_at("a = 1\nx = foo(1)\ny¦\n"))
        case "typed over":
            kept.ledger.typed(request_at("a = 1\nx = foo(2¦\n"))
        case "closed":
            kept.ledger.forget(PLACE.uri)
    kept.now = 60.0
    stats = kept.stats
    assert (stats.n_shown, stats.n_accepted_items) == (1, how == "accepted")
    assert stats.n_chars_accepted == (1 if how == "accepted" else 0)
    assert stats.n_chars_shown == len("foo(1)")
    assert stats.n_chars_typed_over == (len("1)") if how == "typed over" else 0)


def test_a_suggestion_counts_once_it_was_on_screen_for_half_a_second():
    kept = Kept()
    shown = kept.made(PLACE, "foo(1)")
    kept.shown(shown)
    kept.now = 0.49
    assert kept.stats.n_shown == 0
    kept.now = 0.5
    assert kept.stats.n_shown == 1
    typed_through(kept, shown, "foo(1)")
    kept.ledger.typed(request_at("a = 1\nx = foo(2¦\n"))
    kept.now = 60.0
    assert kept.stats.n_shown == 1
    kept.shown(kept.given("a = 1\nx = f¦\n"))  # gone back to
    kept.now = 120.0
    assert kept.stats.n_shown == 1


def test_another_suggestion_in_its_place_counts_for_itself():
    kept = Kept()
    kept.shown(kept.made(PLACE, "foo"))
    kept.shown(kept.made(PLACE, "bar"))
    assert kept.stats.n_shown == 1
    kept.now = 1.0
    assert kept.stats.n_shown == 2


def test_what_the_model_generates_again_of_what_is_on_screen_is_the_same_suggestion():
    kept = Kept()
    for place, text in [("x = ¦", "foo(1)"), ("x = fo¦", "o(1)"), ("x = foo¦", "(1)")]:
        last = kept.made(request_at(place), text)
        kept.shown(last)
    kept.ledger.accepted(last, None)
    assert (kept.stats.n_shown, kept.stats.n_accepted_items) == (1, 1)


def test_candidates_of_one_answer_count_once():
    kept = Kept()
    other = GeneratedText(completion_id="other", text="bar")
    kept.shown(kept.made(PLACE, "foo", alternatives=(other,)))
    kept.shown("other")
    assert accepted(kept, "other") == ["bar"]
    assert (kept.stats.n_shown, kept.stats.n_accepted_items) == (1, 1)


def test_words_accepted_one_by_one_are_one_accepted_suggestion():
    kept = Kept()
    first = kept.made(PLACE, "a b c")
    kept.shown(first)
    accepted(kept, first, 1)
    assert (kept.stats.n_accepted_items, kept.stats.n_partially_accepted) == (0, 1)
    second = kept.given("a = 1\nx = a¦\n")
    kept.shown(second)
    accepted(kept, second, 2)
    third = kept.given("a = 1\nx = a b¦\n")
    kept.shown(third)
    accepted(kept, third)
    stats = kept.stats
    assert (stats.n_shown, stats.n_accepted_items, stats.n_partially_accepted) == (1, 1, 0)
    assert stats.n_chars_accepted == len("a b c")


def test_a_rest_is_learned_as_what_it_is_the_rest_of_and_once():
    kept = Kept(("¦", "a b c"))
    second = kept.given("a ¦")
    assert accepted(kept, second, 2) == []
    assert accepted(kept, kept.given("a b¦")) == ["a b c"]
    assert accepted(kept, second) == []


def test_what_was_taken_in_part_is_learned_with_the_next_or_at_the_end():
    kept = Kept()
    first, second = kept.made(request_at("1\n2\n3¦"), "abc"), kept.made(request_at("y¦"), "def")
    assert accepted(kept, first, 2) == []
    assert accepted(kept, second, 1) == ["ab"]
    uri = "file:///p/a.py"
    learned = AcceptedText(path="a.py", file="", before="y", text="d", uri=uri)
    assert kept.ledger.flush() == [learned]
    assert kept.ledger.flush() == []
    (whole,) = kept.ledger.accepted(kept.made(request_at("1\n2\n3¦"), "abc"), None)
    assert whole.before == "2\n3"


# --- prefetches -----------------------------------------------------------------------------------


def test_a_place_is_prefetched_once_while_it_is_requested_or_known():
    kept = Kept()
    after = request_at("abc¦", is_prefetch=True)
    assert not kept.ledger.has_text_at(after)
    asked = kept.asked(after)
    assert kept.ledger.has_text_at(after)
    assert not kept.ledger.has_text_at(request_at("abd¦"))
    kept.ledger.failed(asked)
    assert not kept.ledger.has_text_at(after)
    kept.made(after, "def")
    assert kept.ledger.has_text_at(after)
    kept.ledger.clear()
    assert not kept.ledger.has_text_at(after)


def test_a_prefetch_is_used_once():
    kept = Kept()
    kept.made(request_at("a¦", is_prefetch=True), "text")
    kept.given("at¦")
    kept.given("ate¦")
    assert kept.stats.n_prefetches_used == 1


# --- offers ---------------------------------------------------------------------------------------

BODY = "\n    a = 1\n    return a"


@pytest.mark.parametrize(
    ("text", "edit", "texts", "outcomes"),
    [
        pytest.param("f()\n", TextEdit(3, 3, BODY), [f"f(){BODY}\n"], ["accepted"], id="lines"),
        pytest.param("a b\n", TextEdit(0, 2, ""), ["b\n"], ["accepted"], id="deletion"),
        pytest.param("f(a b)", TextEdit(3, 3, ","), ["f(a, b)"], ["accepted"], id="one character"),
        pytest.param("ret", TextEdit(3, 3, "urn"), ["retu", "return"], ["accepted"], id="rest"),
        pytest.param("ret", TextEdit(3, 3, "urn"), ["retu", "retur", "return"], [], id="typed"),
        pytest.param(
            "ret", TextEdit(3, 3, "urn"), ["retu", "retur", "return", "", "return"], [],
            id="typed, deleted and back",
        ),
        pytest.param("f()\n", TextEdit(3, 3, BODY), [f"f(){BODY} + 1\n"], [], id="more"),
        pytest.param("f()\n", TextEdit(3, 3, BODY), ["f()\n    a = 1\n"], [], id="less"),
        pytest.param("f()\n", TextEdit(3, 3, BODY), [f"g(){BODY}\n"], [], id="and elsewhere"),
        pytest.param("a", TextEdit(0, 1, "bc"), ["bc", "a"], ["accepted", "undone"], id="undone"),
        pytest.param(
            "a", TextEdit(0, 1, "bc"), ["bc", "a", "bc", "a"], ["accepted", "undone"], id="redone"
        ),
        pytest.param("a", TextEdit(0, 1, "bc"), ["d", "a"], [], id="another change undone"),
    ],
)  # fmt: skip
def test_a_documents_changes_tell_of_an_offer(text, edit, texts, outcomes):
    offers = Offers()
    offers.offer("one", "uri", text, edit)
    assert offers.changed("other", edit.applied_to(text)) == []
    found = [outcome for now in texts for outcome in offers.changed("uri", now)]
    assert found == [("one", outcome) for outcome in outcomes]


def test_of_offers_that_come_to_the_same_the_newest_is_accepted():
    offers = Offers()
    offers.offer("one", "uri", "re", TextEdit(2, 2, "turn"))
    assert offers.changed("uri", "ret") == []
    offers.offer("two", "uri", "ret", TextEdit(3, 3, "urn"))
    assert offers.changed("uri", "return") == [("two", "accepted")]
    assert offers.changed("uri", "re") == []
    assert offers.changed("uri", "ret") == [("two", "undone")]


def test_what_a_client_has_reported_is_undone_by_the_change_back():
    offers = Offers()
    offers.offer("one", "uri", "a", TextEdit(0, 1, "bc"))
    offers.accepted("one")
    assert offers.changed("uri", "bc") == []
    assert offers.changed("uri", "a") == [("one", "undone")]


def test_a_closed_document_and_old_offers_are_forgotten():
    offers = Offers()
    offers.offer("one", "uri", "a", TextEdit(0, 1, "bc"))
    offers.forget("uri")
    assert offers.changed("uri", "bc") == []
    offers.offer("old", "uri", "a", TextEdit(0, 1, "bc"))
    for number in range(Offers.N_KEPT):
        offers.offer(str(number), "uri", "a", TextEdit(1, 1, f" {number}"))
    assert offers.changed("uri", "bc") == []
