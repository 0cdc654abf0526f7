from typed_requests import document_of

from speclsp.prompt.context.edited_regions import MAX_REGIONS, EditedRegions
from speclsp.seam.documents import Document, TextEdit, edit_between

OLD = [f"line {n}" for n in range(60)]


def document(uri: str, text: str) -> Document:
    return document_of(text, uri=uri)


def edited(*changes: tuple[int, int, list[str]]) -> tuple[EditedRegions, list[str]]:
    """Apply changes (start, end, lines), noting each."""
    regions, lines = EditedRegions(), list(OLD)
    for start, end, new in changes:
        after = [*lines[:start], *new, *lines[end:]]
        before, text = "\n".join(lines), "\n".join(after)
        regions.take(document("u", before), edit_between(before, text))
        lines = after
    return regions, lines


def test_keystrokes_near_each_other_are_one_region():
    regions, lines = edited(
        (10, 11, ["n"]), (10, 11, ["ne"]), (10, 11, ["new"]), (12, 12, ["more"])
    )
    (region,) = regions.newest_first()
    assert (region.first_line, region.end_line) == (10, 13)
    assert region.text(lines) == (8, "line 8\nline 9\nnew\nline 11\nmore\nline 12\nline 13\n")


def test_regions_follow_edits_above_them_and_the_newest_comes_first():
    regions, lines = edited((40, 41, ["forty"]), (5, 5, ["a", "b", "c"]))
    newest, oldest = regions.newest_first()
    assert newest.first_line == 5
    assert lines[oldest.first_line : oldest.end_line] == ["forty"]


def test_a_replaced_file_is_no_edit():
    regions, _ = edited((5, 6, ["x"]), (0, 60, [f"other {n}" for n in range(60)]))
    assert not regions.newest_first()


def test_as_many_regions_are_kept_as_are_useful():
    regions = EditedRegions()
    for n in range(MAX_REGIONS + 5):
        regions.take(document(f"u{n}", "a"), TextEdit(0, 1, "b"))
    assert len(list(regions.newest_first())) == MAX_REGIONS
    regions.forget(f"u{MAX_REGIONS}")
    assert len(list(regions.newest_first())) == MAX_REGIONS - 1


def test_a_region_keeps_its_number_as_it_grows_and_moves():
    regions, _ = edited((40, 41, ["forty"]), (5, 5, ["a", "b"]), (42, 43, ["forty-one"]))
    newest, other = regions.newest_first()
    assert (newest.first_line, newest.number, other.number) == (42, 1, 2)
