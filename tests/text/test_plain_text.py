"""What ends a program's text, and what of it may be told while it grows."""

from typing import Any

import pytest

from speclsp.text.plain_text import ExpectedText, PlainText

END = 0x110000


class Characters:
    """A vocabulary whose tokens are characters; negative ones are single bytes."""

    def piece(self, token: int) -> bytes:
        return bytes([-token]) if token < 0 else chr(token).encode()


def fed(text: str, **rules: Any) -> tuple[PlainText, int]:
    """Feed a text until it ends; return it, and how many characters were taken."""
    plain = PlainText(Characters(), {END}, **rules)  # type: ignore[arg-type]
    for n_fed, character in enumerate(text, 1):
        if plain.feed(ord(character)):
            return plain, n_fed
    return plain, len(text)


def test_an_end_token_ends_it():
    plain = PlainText(Characters(), {END})  # type: ignore[arg-type]
    assert [plain.feed(token) for token in (ord("a"), END)] == [False, True]
    assert (plain.text, plain.stopped_by) == ("a", "end")


@pytest.mark.parametrize(
    ("stops", "kept", "word"),
    [
        (["c"], "ab", "c"),
        (["bc", "d"], "a", "bc"),
        (["x", ""], "abcd", ""),
        (["cd", "bcd"], "a", "bcd"),
    ],
)
def test_the_first_stop_string_ends_it_and_is_left_out(stops, kept, word):
    plain, _ = fed("abcd", stops=stops)
    assert (plain.text, plain.stopping_word) == (kept, word)
    assert plain.stopped_by == ("word" if word else "none")


def test_the_beginning_of_a_stop_string_is_not_told():
    plain, _ = fed("one ST", stops=["STOP"])
    assert plain.so_far == "one "
    for character in "ART":
        plain.feed(ord(character))
    assert plain.so_far == "one START"


def test_a_line_of_less_indentation_ends_it():
    plain, n_fed = fed("if a:\n        b\n    c\n", n_indent=8)
    assert (plain.text, plain.stopped_by, n_fed) == ("if a:\n        b\n    ", "limit", 21)


def test_the_first_line_end_after_its_time_ends_it():
    now = [0.0]
    plain = PlainText(Characters(), {END}, budget_s=1.0, clock=lambda: now[0])  # type: ignore[arg-type]
    assert not plain.feed(ord("a"))
    now[0] = 2.0
    assert not plain.feed(ord("b"))
    assert plain.feed(ord("\n"))
    assert (plain.text, plain.stopped_by) == ("ab\n", "limit")


def test_a_character_that_is_split_over_tokens_is_told_whole():
    plain = PlainText(Characters(), {END})  # type: ignore[arg-type]
    seen = []
    for byte in "é😀".encode():
        plain.feed(-byte)
        seen.append(plain.so_far)
    assert seen == ["", "é", "é", "é", "é", "é😀"]
    plain.feed(-0xE2)
    assert plain.text == "é😀"


def test_the_typed_beginning_is_left_out():
    plain, _ = fed("return x", typed="ret")
    assert plain.text == "urn x"


@pytest.mark.parametrize(
    ("written", "n_fed", "begins_so"),
    [
        ("(how=2)", 5, True),
        ("(how", 4, False),
        ("(home", 4, False),
        ("(mode", 2, False),
        (" (how=", 1, False),
    ],
)
def test_an_expected_text_ends_once_it_shows_whether_it_comes(written, n_fed, begins_so):
    text = ExpectedText(Characters(), {END}, expected="(how=")  # type: ignore[arg-type]
    n_left = next((n for n, one in enumerate(written, 1) if text.feed(ord(one))), len(written))
    assert (n_left, text.text.startswith("(how=")) == (n_fed, begins_so)


def test_an_expected_text_may_come_with_more_in_its_last_token():
    text = ExpectedText(Pieces(), {END}, expected="a\n")  # type: ignore[arg-type]
    assert text.feed(0)
    assert text.text.startswith("a\n")


class Pieces:
    """A vocabulary of one token."""

    def piece(self, _token: int) -> bytes:
        return b"a\nb"
