"""The trail of edits: what is one change, what cancels out, and what is never kept."""

import random
from dataclasses import replace

import pytest
from typed_requests import document_of

from speclsp.edits.trail import Trail
from speclsp.seam.documents import edit_between
from speclsp.seam.edit import Change
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.secrets.pieces import Pieces

TEXT = "".join(f"line {number}\n" for number in range(30))


class Edited:
    """A document, its trail and a clock."""

    def __init__(self, text: str = TEXT) -> None:
        self.now = 100.0
        self.trail = Trail(lambda: self.now)
        self.document = document_of(text, uri="file:///a.py", language_id="python")

    def become(self, text: str) -> None:
        edit = edit_between(self.document.text, text)
        self.trail.changed(self.document, edit)
        assert edit.applied_to(self.document.text) == text
        self.document = replace(self.document, text=text, version=self.document.version + 1)

    def replace(self, old: str, new: str) -> None:
        assert self.document.text.count(old) == 1
        self.become(self.document.text.replace(old, new))

    def pairs(self) -> list[tuple[str, str]]:
        return [(change.old, change.new) for change in self.trail.changes()]


@pytest.fixture
def edited():
    return Edited()


def test_keys_that_follow_each_other_are_one_change(edited):
    for typed in ("li", "line x", "line xy"):
        edited.replace(edited.document.text.splitlines()[5] + "\n", typed + "\n")
        edited.now += 0.4
    assert edited.trail.changes() == (
        Change(
            path="a.py", line=5, old="line 5\n", new="line xy\n",
            before="line 2\nline 3\nline 4\n", after="line 6\nline 7\nline 8\n",
        ),
    )  # fmt: skip


def test_what_is_far_or_later_is_another_change(edited):
    edited.replace("line 5\n", "five\n")
    edited.replace("line 9\n", "nine\n")  # near and soon
    edited.replace("line 25\n", "25\n")  # far
    edited.now += 2
    edited.replace("line 26\n", "26\n")  # later
    assert edited.pairs() == [
        ("line 5\nline 6\nline 7\nline 8\nline 9\n", "five\nline 6\nline 7\nline 8\nnine\n"),
        ("line 25\n", "25\n"),
        ("line 26\n", "26\n"),
    ]


@pytest.mark.parametrize("pause", [0.1, 5.0])
def test_an_edit_and_its_undoing_cancel_out(pause, edited):
    edited.replace("line 20\n", "twenty\n")
    edited.now += 5
    edited.replace("line 5\n", "five\n")
    edited.now += pause
    edited.replace("five\n", "line 5\n")
    assert edited.pairs() == [("line 20\n", "twenty\n")]


def test_inserted_and_deleted_lines(edited):
    edited.replace("line 5\n", "line 5\nnew\n")
    edited.now += 5
    edited.replace("line 7\nline 8\n", "")
    assert edited.pairs() == [("", "new\n"), ("line 7\nline 8\n", "")]
    assert [change.line for change in edited.trail.changes()] == [6, 8]


def test_lines_move_with_later_edits_above(edited):
    edited.replace("line 20\n", "twenty\n")
    edited.now += 5
    edited.replace("line 2\n", "line 2\n2.1\n2.2\n")
    assert [change.line for change in edited.trail.changes()] == [22, 3]


def test_accepted_suggestions_are_marked(edited):
    edited.replace("line 5\n", "line 5 + more\n")
    edited.trail.accepted("file:///a.py", " + more")
    edited.trail.accepted("file:///b.py", " + more")
    assert [change.is_accepted for change in edited.trail.changes()] == [True]


def test_no_text_is_kept_from_before_a_secret_was_known(edited):
    edited.replace("line 5\n", "password = hunter\n")
    edited.now += 5
    edited.replace("line 20\n", "twenty\n")
    edited.trail.forget(Pieces(["hunter"]))
    assert edited.pairs() == [("line 20\n", "twenty\n")]
    edited.replace("password = hunter\n", f"password = {PLACEHOLDER}\n")
    edited.trail.forget(Pieces(["hunter"]))
    assert "hunter" not in repr(edited.trail.changes())


@pytest.mark.parametrize("place", ["old", "new", "before", "after"])
def test_eight_letters_of_a_secret_are_found_wherever_they_stand(place):
    edited = Edited(TEXT.replace("line 4", "x = Kq83mZ_1") if place == "before" else TEXT)
    if place == "after":
        edited = Edited(TEXT.replace("line 6", "x = Kq83mZ_1"))
    if place == "old":
        edited = Edited(TEXT.replace("line 5", "x = Kq83mZ_1"))
    new = "x = Kq83mZ_1\n" if place == "new" else "five\n"
    edited.replace("x = Kq83mZ_1\n" if place == "old" else "line 5\n", new)
    edited.trail.forget(Pieces(["q83mZ_1"]))  # as a whole: it is shorter than eight
    assert edited.pairs() == []
    edited.replace(new, "6\n")
    assert edited.pairs()
    edited.trail.forget(Pieces(["_Kq83mZ_"]))
    assert edited.pairs()


def test_large_changes_and_closed_documents_are_left_out(edited):
    edited.become("x" * 9000 + "\n")
    assert edited.pairs() == []
    edited = Edited()
    edited.replace("line 5\n", "five\n")
    edited.trail.closed("file:///a.py")
    assert edited.pairs() == []


@pytest.mark.parametrize("seed", range(20))
def test_each_change_is_what_became_of_the_text(seed):
    """Taken back in turn from the newest text, the changes give the oldest one."""
    random_ = random.Random(seed)
    edited = Edited(random_.choice([TEXT, TEXT.rstrip("\n"), "", "one"]))
    first = edited.document.text
    for _ in range(12):
        text = edited.document.text
        start = random_.randint(0, len(text))
        end = min(len(text), start + random_.choice([0, 0, 1, 9, 40]))
        typed = random_.choice(["", "x", "new\n", "a\nb", "\n"])
        edited.become(text[:start] + typed + text[end:])
        edited.now += random_.choice([0.1, 0.1, 3.0])
    entries = list(edited.trail._entries)
    lines = edited.document.text.splitlines(keepends=True)
    # A single entry, or one that nothing moved afterwards, stands where it says.
    newest = entries[-1]
    assert lines[newest.line : newest.line + len(newest.new)] == newest.new
    if len(entries) == 1:
        lines[newest.line : newest.line + len(newest.new)] = newest.old
        assert "".join(lines) == first
