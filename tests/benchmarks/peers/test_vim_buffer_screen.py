"""What llama.vim shows of an answer."""

import pytest

from benchmarks.peers.vim_buffer import shown_suggestion, vim_buffer


@pytest.mark.parametrize(
    ("marked", "answer", "text"),
    [
        pytest.param("x = ‸\n", "1", "1", id="a line"),
        pytest.param("x = ‸\n", "f(\n    1\n)\n\n", "f(\n    1\n)", id="line ends go"),
        pytest.param("x = ‸\n", "", "", id="nothing"),
        pytest.param("x = ‸\n", "  \n", "", id="blanks alone"),
        pytest.param("x = ‸\n", "\n    ", "\n    ", id="blanks behind a line end"),
        pytest.param("x = ‸)\n", ")", "", id="the cursor's line's rest"),
        pytest.param("x = f(‸)\n", "1", "1", id="before the cursor's line's rest"),
        pytest.param("a‸\nb\nc\n", "\nb\nc", "", id="the next lines"),
        pytest.param("a‸\nb\nc\n", "\nb\nd", "\nb\nd", id="the next line, and another"),
        pytest.param("a‸\n\nab\n", "b", "", id="the next line that is not blank"),
        pytest.param("a‸\nab\ncde\n", "b\ncd", "", id="that, and the one behind begun"),
        pytest.param("a‸\nab\nc\nd\n", "b\nc\nd", "", id="that, and those behind"),
        pytest.param("a‸\nab\nc\nd\n", "b\nc\ne", "b\nc\ne", id="that, and others behind"),
        pytest.param("a‸\nab\nc\n", "bb", "bb", id="longer than the next line"),
        pytest.param("if x:\n    ‸\n", "    y\n    z", "y\n    z", id="blanks that are there"),
        pytest.param("if x:\n    ‸\n", "        y", "    y", id="blanks beyond the cursor"),
        pytest.param("if x:\n        ‸\n", "    y", "", id="fewer blanks than were typed"),
    ],
)
def test_what_is_inserted(marked, answer, text):
    before, _, after = marked.partition("‸")
    assert shown_suggestion(answer, vim_buffer("file.py", before, after)).text == text


def test_the_last_line_shown_has_the_rest_of_the_cursors_line():
    shown = shown_suggestion("1,\n  2", vim_buffer("file.py", "f(", ")\n"))
    assert shown.lines == ["1,", "  2)"]


def test_what_is_not_shown_leaves_the_rest_of_the_line():
    assert shown_suggestion(")", vim_buffer("file.py", "f(", ")\n")).lines == [")"]


def test_what_cannot_be_inserted_is_on_the_plugins_screen_all_the_same():
    shown = shown_suggestion("    y", vim_buffer("file.py", "if x:\n        ", "\n"))
    assert (shown.text, shown.lines, shown.can_be_taken) == ("", ["y"], True)
    assert not shown_suggestion("  ", vim_buffer("file.py", "x", "\n")).can_be_taken
