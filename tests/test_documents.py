"""Documents are kept by version, and an edit between two texts makes the one into the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from speclsp.documents import N_VERSIONS, Documents, edit_between
from speclsp.request import CompletionRequest, Document, TextEdit

TEXT = st.text(st.sampled_from("ab\n"), max_size=12)


@given(TEXT, TEXT)
def test_an_edit_makes_the_one_text_into_the_other(old: str, new: str) -> None:
    edit = edit_between(old, new)
    assert edit.applied_to(old) == new
    assert len(edit.text) + edit.end - edit.start <= len(old) + len(new)


@given(TEXT, TEXT, st.data())
def test_an_edit_reaches_up_to_a_cursor(old: str, new: str, data: st.DataObject) -> None:
    cursor = data.draw(st.integers(0, len(new)))
    edit = edit_between(old, new, cursor=cursor)
    assert edit.applied_to(old) == new
    assert edit.start <= cursor <= edit.start + len(edit.text)


def opened(*texts: str) -> Documents:
    documents = Documents()
    for number, text in enumerate(texts):
        document = Document(uri=f"u{number}", path="a.py", language_id="", version=0, text=text)
        documents.open(document)
    return documents


def test_a_request_reads_the_version_that_it_was_made_in() -> None:
    documents = opened("ab")
    request = CompletionRequest(uri="u0", version=0, offset=1)
    placed = documents.place(request)
    for version in range(1, N_VERSIONS + 1):
        documents.change("u0", version, TextEdit(0, 0, "x"))
        assert (documents.place(request) is not None) == (version < N_VERSIONS)
    assert placed is not None
    assert (placed.prefix, placed.suffix) == ("a", "b")
    assert documents.newest()[0].text == "x" * N_VERSIONS + "ab"
    documents.close("u0")
    assert documents.place(request) is None
    assert documents.change("u0", 1, TextEdit(0, 0, "x")) is None


def test_a_request_has_its_edit_and_a_notebooks_other_cells() -> None:
    documents = opened("above", "ab", "below")
    request = CompletionRequest(
        uri="u1",
        version=0,
        offset=3,
        edit=TextEdit(1, 2, "cd"),
        above=(("u0", 0), ("closed", 3)),
        below=(("u2", 0),),
    )
    documents.change("u0", 1, TextEdit(0, 0, "later "))
    placed = documents.place(request)
    assert placed is not None
    assert (placed.prefix, placed.suffix) == ("above\nacd", "\nbelow")
    assert placed.plain() == request


def test_of_a_large_document_two_versions_are_kept() -> None:
    documents = opened("a" * 3_000_000)
    for version in (1, 2):
        documents.change("u0", version, TextEdit(0, 0, "x"))
    assert [documents.at_version("u0", version) is None for version in (0, 1, 2)] == [
        True, False, False,
    ]  # fmt: skip


def after_edits(text: str, *edits: TextEdit) -> list[str]:
    documents = opened(text)
    for version, edit in enumerate(edits, 1):
        documents.change("u0", version, edit)
    return [deleted for _, deleted in documents.deleted()]


LINE = "total = price * quantity\n"


def test_what_was_deleted_or_replaced_is_kept_the_latest_first() -> None:
    text = LINE + "x = 1\n" + LINE.upper()
    cut = TextEdit(0, len(LINE), "")
    replaced = TextEdit(6, 6 + len(LINE), "y")
    assert after_edits(text, cut, replaced) == [LINE.upper(), LINE]


def test_text_that_is_deleted_piece_by_piece_is_one() -> None:
    backwards = [TextEdit(i, i + 1, "") for i in range(len(LINE) - 1, -1, -1)]
    forwards = [TextEdit(0, 1, "") for _ in LINE]
    around = [TextEdit(10, 12, ""), TextEdit(8, 12, ""), TextEdit(0, len(LINE) - 6, "")]
    for edits in (backwards, forwards, around):
        assert after_edits(LINE, *edits) == [LINE]


def test_what_says_nothing_is_not_kept() -> None:
    word = TextEdit(0, 5, "")
    assert after_edits(LINE, word) == []
    assert after_edits(LINE, TextEdit(0, len(LINE), f"if x:\n    {LINE}")) == []
    assert after_edits("x" * 10_000, TextEdit(0, 9_000, "")) == []
    # Nor does much that is deleted line by line grow without end.
    kept = after_edits(LINE * 1_000, *[TextEdit(0, len(LINE), "")] * 1_000)
    assert [len(text) <= 8_000 for text in kept] == [True] * len(kept)
    assert LINE * (8_000 // len(LINE)) in kept
    # A word between two deletions does not take a longer text's place.
    many = [TextEdit(0, len(LINE), "y"), *[TextEdit(2, 5, "z"), TextEdit(20, 24, "z")] * 20]
    assert after_edits(LINE * 20, *many)[-1] == LINE
