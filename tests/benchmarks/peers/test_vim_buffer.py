"""What llama.vim takes from a buffer."""

import pytest

from benchmarks.peers.vim_buffer import (
    N_PREFIX_LINES,
    N_SUFFIX_LINES,
    VimBuffer,
    context_ahead,
    local_context,
    shown_suggestion,
    vim_buffer,
)


def buffer(marked: str) -> VimBuffer:
    before, _, after = marked.partition("‸")
    return vim_buffer("file.py", before, after)


@pytest.mark.parametrize(
    ("marked", "lines", "row", "column"),
    [
        ("‸", ("",), 0, 0),
        ("one‸\n", ("one",), 0, 3),
        ("one\n‸", ("one", ""), 1, 0),
        ("one\ntw‸o\nthree\n", ("one", "two", "three"), 1, 2),
        ("one\r\ntw‸o\r\n", ("one", "two"), 1, 2),
    ],
)
def test_a_buffer_has_lines_and_a_cursor(marked, lines, row, column):
    found = buffer(marked)
    assert (found.lines, found.row, found.column) == (lines, row, column)


def test_the_context_is_cut_at_the_cursor():
    found = local_context(buffer("a\nb\n    c = f(‸)\nd\ne\n"))
    assert found.prefix == "a\nb\n"
    assert found.middle == "    c = f("
    assert found.suffix == ")\nd\ne\n"
    assert (found.indent, found.n_chars_after) == (4, 1)


def test_a_line_of_blanks_counts_as_not_written():
    found = local_context(buffer("a\n    ‸  \nd\n"))
    assert (found.prefix, found.middle, found.suffix) == ("a\n", "", "\nd\n")
    assert (found.indent, found.n_chars_after) == (0, 0)


def test_the_context_has_256_lines_before_and_64_behind():
    lines = [f"line {n}" for n in range(1000)]
    found = local_context(buffer("\n".join([*lines[:500], "he‸re", *lines[500:]])))
    assert found.prefix.splitlines() == lines[500 - N_PREFIX_LINES : 500]
    assert found.suffix.splitlines() == ["re", *lines[500 : 500 + N_SUFFIX_LINES]]


def test_ahead_of_one_line_the_cursor_stands_behind_it():
    found = context_ahead(buffer("a\n    b = ‸\nc\n"), ["f(x)"], indent=4)
    assert (found.prefix, found.middle, found.suffix) == ("a\n", "    b = f(x)", "\nc\n")
    assert (found.indent, found.n_chars_after) == (4, 0)


def test_ahead_of_several_lines_all_but_the_last_are_written():
    found = context_ahead(buffer("a\nif x‸\nc\n"), [":", "    y", "    z"], indent=0)
    assert (found.prefix, found.middle) == ("a\nif x:\n    y\n", "    z")


def test_ahead_the_window_is_as_long_as_before():
    lines = [f"line {n}" for n in range(400)]
    found = context_ahead(buffer("\n".join(lines) + "‸"), ["", "x", "y"], indent=0)
    assert found.prefix.splitlines() == [*lines[399 - N_PREFIX_LINES + 2 : 399], "line 399", "x"]


def test_what_stands_behind_the_cursor_is_doubled_ahead_as_in_the_plugin():
    assert context_ahead(buffer("f(‸)"), ["x)"], indent=0).middle == "f()x)"


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
