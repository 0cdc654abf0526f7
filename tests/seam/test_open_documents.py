"""Documents are kept by version, and an edit between two texts makes the one into the other."""

from hypothesis import given
from hypothesis import strategies as st
from typed_requests import document_of

from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import TextEdit, edit_between
from speclsp.seam.open_documents import N_VERSIONS, Documents

TEXT = st.text(st.sampled_from("ab\n"), max_size=12)


@given(TEXT, TEXT)
def test_an_edit_makes_the_one_text_into_the_other(old, new):
    edit = edit_between(old, new)
    assert edit.applied_to(old) == new
    assert len(edit.text) + edit.end - edit.start <= len(old) + len(new)


@given(TEXT, TEXT, st.data())
def test_an_edit_reaches_up_to_a_cursor(old, new, data):
    cursor = data.draw(st.integers(0, len(new)))
    edit = edit_between(old, new, cursor=cursor)
    assert edit.applied_to(old) == new
    assert edit.start <= cursor <= edit.start + len(edit.text)


def opened(*texts: str) -> Documents:
    documents = Documents()
    for number, text in enumerate(texts):
        document = document_of(text, uri=f"u{number}", version=0)
        documents.open(document)
    return documents


def test_a_request_reads_the_version_that_it_was_made_in():
    documents = opened("ab")
    request = CompletionRequest(uri="u0", version=0, offset=1)
    placed = documents.place(request)
    for version in range(1, N_VERSIONS + 1):
        documents.change(documents.newest()[0].edited(version, TextEdit(0, 0, "x")))
        assert (documents.place(request) is not None) == (version < N_VERSIONS)
    assert placed is not None
    assert (placed.prefix, placed.suffix) == ("a", "b")
    assert documents.newest()[0].text == "x" * N_VERSIONS + "ab"
    documents.close("u0")
    assert documents.place(request) is None
    assert documents.change(document_of("xab", uri="u0", version=1)) is None


def test_a_request_has_its_edit_and_a_notebooks_other_cells():
    documents = opened("above", "ab", "below")
    request = CompletionRequest(
        uri="u1",
        version=0,
        offset=3,
        edit=TextEdit(1, 2, "cd"),
        above=(("u0", 0), ("closed", 3)),
        below=(("u2", 0),),
    )
    documents.change(document_of("later above", uri="u0", version=1))
    placed = documents.place(request)
    assert placed is not None
    assert (placed.prefix, placed.suffix) == ("above\nacd", "\nbelow")
    assert placed.plain == request


def test_of_a_large_document_two_versions_are_kept():
    documents = opened("a" * 3_000_000)
    for version in (1, 2):
        documents.change(documents.newest()[0].edited(version, TextEdit(0, 0, "x")))
    assert [documents.at_version("u0", version) is None for version in (0, 1, 2)] == [
        True, False, False,
    ]  # fmt: skip
