"""What was deleted or replaced is kept for drafts: whole, and never a secret in the clear."""

import dataclasses

import numpy as np
from typed_requests import document_of

from speclsp.completer.deleted_texts import MOST_CHARS, DeletedTexts
from speclsp.seam.documents import TextEdit


class Editing:
    """A document that is edited, masked as the window masks it."""

    def __init__(self, text: str, uri: str = "u") -> None:
        self.document = document_of(text, uri=uri, version=0)
        self.deleted = DeletedTexts(lambda _document: True)

    def edit(self, edit: TextEdit) -> None:
        former = self.document
        self.document = dataclasses.replace(former, text=edit.applied_to(former.text))
        self.deleted.changed(former, edit)


def after_edits(text: str, *edits: TextEdit) -> list[str]:
    editing = Editing(text)
    for edit in edits:
        editing.edit(edit)
    return editing.deleted.texts()


LINE = "total = price * quantity\n"


def test_what_was_deleted_or_replaced_is_kept_the_latest_first():
    text = LINE + "x = 1\n" + LINE.upper()
    cut = TextEdit(0, len(LINE), "")
    replaced = TextEdit(6, 6 + len(LINE), "y")
    assert after_edits(text, cut, replaced) == [LINE.upper(), LINE]


def test_text_that_is_deleted_piece_by_piece_is_one():
    backwards = [TextEdit(i, i + 1, "") for i in range(len(LINE) - 1, -1, -1)]
    forwards = [TextEdit(0, 1, "") for _ in LINE]
    around = [TextEdit(10, 12, ""), TextEdit(8, 12, ""), TextEdit(0, len(LINE) - 6, "")]
    for edits in (backwards, forwards, around):
        assert after_edits(LINE, *edits) == [LINE]


def test_what_says_nothing_is_not_kept():
    word = TextEdit(0, 5, "")
    assert after_edits(LINE, word) == []
    assert after_edits(LINE, TextEdit(0, len(LINE), f"if x:\n    {LINE}")) == []
    assert after_edits("x" * 10_000, TextEdit(0, 5_000, "")) == []
    # Nor does much that is deleted line by line grow without end.
    kept = after_edits(LINE * 1_000, *[TextEdit(0, len(LINE), "")] * 1_000)
    assert [len(text) <= MOST_CHARS for text in kept] == [True] * len(kept)
    assert LINE * (MOST_CHARS // len(LINE)) in kept
    # A word between two deletions does not take a longer text's place.
    many = [TextEdit(0, len(LINE), "y"), *[TextEdit(2, 5, "z"), TextEdit(20, 24, "z")] * 20]
    assert after_edits(LINE * 20, *many)[-1] == LINE


def test_typing_ends_what_is_deleted_piece_by_piece():
    call, name = "some_function_call(x, y)", "another_function(z)"
    typed = [TextEdit(0, len(call), ""), *[TextEdit(i, i, c) for i, c in enumerate(name)]]
    assert after_edits(call, *typed, TextEdit(0, len(name), "")) == [name, call]
    # Nor do places that only were the same number are one.
    text = "".join(chr(200 + i) for i in range(100))
    edits = [TextEdit(20, 50, ""), TextEdit(0, 0, "#" * 60), TextEdit(10, 40, "")]
    assert after_edits(text, *edits) == ["#" * 30, text[20:50]]


def test_all_are_forgotten_where_something_became_a_secret():
    editing = Editing(LINE + LINE)
    editing.edit(TextEdit(0, len(LINE), ""))
    assert editing.deleted.tokens(lambda text: np.array([len(text)]))
    editing.deleted.forget()
    assert editing.deleted.texts() == []
    assert editing.deleted.tokens(lambda text: np.array([len(text)])) == ()
    # Nor does what is deleted next join what was forgotten.
    editing.edit(TextEdit(0, len(LINE), ""))
    assert editing.deleted.texts() == [LINE]


def test_a_closed_documents_texts_are_forgotten():
    editing = Editing(LINE)
    editing.edit(TextEdit(0, len(LINE), ""))
    editing.deleted.closed("other")
    assert editing.deleted.texts() == [LINE]
    editing.deleted.closed("u")
    assert editing.deleted.texts() == []
