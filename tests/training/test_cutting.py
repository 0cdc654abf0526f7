"""Cuts lie between characters, and are those that people make."""

import random

from hypothesis import given
from hypothesis import strategies as st

from training.cutting import MAX_MIDDLE_CHARS, Cut, cut_at, line_end, line_start

SOURCE = '''import os


def area(width, height):
    """Return the area."""
    if width < 0 or height < 0:
        raise ValueError("negative")

    return width * height


def shout(words):
    for word in words:
        yield word.upper()
'''


def cuts(n_draws: int) -> list[Cut]:
    rng = random.Random(0)
    found = (cut_at(SOURCE, rng.randrange(len(SOURCE)), rng) for _ in range(n_draws))
    return [cut for cut in found if cut is not None]


@given(st.text(alphabet="ab (:\n\té", max_size=200), st.integers(0, 199), st.integers(0, 50))
def test_prefix_middle_and_suffix_make_up_the_text(text, index, seed):
    cut = cut_at(text, min(index, len(text)), random.Random(seed))
    if cut is not None:
        assert 0 <= cut.start < cut.end <= len(text)
        assert cut.end - cut.start <= MAX_MIDDLE_CHARS
        assert text[cut.start : cut.end].strip()


def test_a_middle_ends_with_the_last_bracket_of_its_line():
    whole = [c for c in cuts(2000) if SOURCE[c.start : c.end].endswith('ValueError("negative")')]
    assert whole
    assert all(SOURCE[cut.end] == "\n" for cut in whole)


def test_all_ways_to_complete_are_drawn():
    drawn = cuts(3000)
    inside = [cut for cut in drawn if cut.start > line_start(SOURCE, cut.start)]
    to_line_end = [cut for cut in inside if cut.end == line_end(SOURCE, cut.start)]
    before_line_end = [cut for cut in inside if cut.end < line_end(SOURCE, cut.start)]
    from_line_end = [cut for cut in drawn if SOURCE[cut.start] == "\n"]
    several_lines = [cut for cut in drawn if "\n" in SOURCE[cut.start : cut.end].strip("\n")]
    for kind in (to_line_end, before_line_end, from_line_end, several_lines):
        assert len(kind) > 0.05 * len(drawn)
    assert len(to_line_end) > 0.3 * len(drawn)


def test_a_block_ends_where_its_indentation_does():
    body = [c for c in cuts(6000) if SOURCE[c.start : c.end].startswith("\n    for word")]
    assert any(SOURCE[cut.start : cut.end].endswith("yield word.upper()") for cut in body)


def test_a_blank_line_is_not_cut():
    assert cut_at("a\n\nb", 2, random.Random(0)) is None


def test_the_same_seed_cuts_the_same():
    assert cuts(100) == cuts(100)
