"""Edits between two texts: [old⟧ marks what goes, ⟦new⟧ what was written there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.edit_finding import Edit, find_edits


def shown(old: str, edit: Edit) -> str:
    gone = old[edit.start : edit.end]
    return f"{old[: edit.start]}⟦{gone}→{edit.typed}⟧{old[edit.end :]}"


@pytest.mark.parametrize(
    ("old", "new", "expected", "kind"),
    [
        ("a\nb\n", "a\nx = 1\nb\n", "a⟦→\nx = 1⟧\nb\n", "new line"),
        ("a\nb\n", "a\nx\n\ny\nb\n", "a⟦→\nx\n\ny⟧\nb\n", "new block"),
        ("a\n", "a\nx", "a\n⟦→x⟧", "new line"),
        ("a", "a\nx", "⟦a→a\nx⟧", "changed lines"),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n", "a⟦→\r\nx⟧\r\nb\r\n", "new line"),
        ("f(a, b)\n", "f(a, c, b)\n", "f(a, ⟦→c, ⟧b)\n", "within a line"),
        ("x = old_name(1)\n", "x = old_it(1)\n", "x = ⟦old_name→old_it⟧(1)\n", "within a line"),
        ("return self.value\n", "return self.values\n", "return self.value⟦→s⟧\n", "within a line"),
        ("    return 1\n", "    yield two\n", "    ⟦return 1→yield two⟧\n", "changed lines"),
        ("a\n  x\n  y\nb\n", "a\n  z\nb\n", "a\n  ⟦x\n  y→z⟧\nb\n", "changed lines"),
    ],
)  # fmt: skip
def test_an_edit(old, new, expected, kind):
    (edit,) = find_edits(old, new)
    assert shown(old, edit) == expected
    assert edit.kind == kind


def test_what_only_goes_is_no_edit():
    assert find_edits("a\nb\nc\n", "a\nc\n") == []
    assert find_edits("f(a, b)\n", "f(a)\n") == []
    assert find_edits("same\n", "same\n") == []
    assert find_edits("b\n", "x\nb\n") == []  # no line is there to open this one from


LINES = st.lists(st.sampled_from(["a = 1", "  b(c)", "", "d", "\tx: y"]), max_size=5, unique=True)


@given(LINES, st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["new", "  x.y", "z(1)"]))))
def test_all_edits_together_make_the_new_text(lines, inserted):
    lines = ["first", *lines]
    changed = list(lines)
    for place, line in inserted:
        changed.insert(1 + place, line)
    old, new = ("".join(f"{line}\n" for line in text) for text in (lines, changed))
    text = old
    for edit in reversed(find_edits(old, new)):
        text = text[: edit.start] + edit.typed + text[edit.end :]
    assert text == new
