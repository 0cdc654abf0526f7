"""How next edits are judged beside what a commit did."""

import pytest

from benchmarks.commit_cases import changed_lines, verdict

TEXT = "use(a)\nx = old(1)\ny = old(2)\nuse(b)\nx = old(1)\n"
WANTED = TEXT.replace("old", "new")


@pytest.mark.parametrize(
    ("new", "wanted", "judged"),
    [
        (WANTED, WANTED, "right"),
        (TEXT.replace("y = old", "y = new"), WANTED, "right"),
        (WANTED.replace("use(a)", "use(c)"), WANTED, "partly"),
        (TEXT.replace("use(a)", "use(c)"), WANTED, "wrong"),
        (TEXT, WANTED, "missed"),
        (TEXT, None, "quiet"),
        (WANTED, None, "noise"),
    ],
)
def test_an_edit_is_judged_by_its_hunks(new, wanted, judged):
    assert verdict(TEXT, changed_lines(TEXT, new), wanted) == judged


def test_lines_that_are_repeated_are_not_taken_for_others():
    text = "x = old(1)\nu\nx = old(1)\nv\nx = new(1)\nu\n"
    changed = changed_lines(text, text.replace("old", "new"))
    assert [(one.start, one.old, one.new) for one in changed] == [
        (0, "x = old(1)\n", "x = new(1)\n"),
        (13, "x = old(1)\n", "x = new(1)\n"),
    ]
