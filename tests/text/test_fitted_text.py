"""A program's text around a cursor: ended and fitted as an editor's, with the program's limits."""

import math
from typing import Any

import pytest

from speclsp.seam.request import PlacedRequest
from speclsp.seam.text import TextRequest
from speclsp.settings import Settings
from speclsp.text.fitted_text import FittedText
from speclsp.text.rules import stop_rules
from speclsp.vocabulary_protocol import Vocabulary

END = 0x110000


class Characters:
    """A vocabulary whose tokens are characters."""

    end_tokens = frozenset({END})

    def piece(self, token: int) -> bytes:
        return chr(token).encode("utf-8", "surrogateescape")


def fitted(
    around: str, text: str, *, ends: bool = True, unlikely: str = "", **limits: Any
) -> tuple[str, str, str]:
    """Return what becomes of a text, what ended it, and what of it was told.

    ``unlikely`` characters have a probability of 0.1, the others one of 1.
    """
    before, after = around.split("▮")
    request = PlacedRequest(
        plain=TextRequest(uri="", version=0, offset=0),
        text=before + after,
        cursor=len(before),
        path="",
        repo_name="",
        language_id="",
        file="",
    )
    vocabulary: Vocabulary = Characters()  # type: ignore[assignment]
    output = FittedText(vocabulary, {END}, rules=stop_rules(Settings(), request), **limits)
    told = ""
    for token in [*map(ord, text), *[END] * ends]:
        is_unlikely = token != END and chr(token) in unlikely
        stops = output.feed(token, math.log(0.1) if is_unlikely else 0.0)
        assert output.so_far.startswith(told)
        told = output.so_far
        if stops:
            break
    whole = output.finish()
    assert whole.startswith(told)
    return whole, output.stopped_by, told


LOOP = '        "email": self.email,\n'


@pytest.mark.parametrize(
    ("around", "text", "whole", "stopped_by"),
    [
        ("def f():\n    ▮\n\n\ndef g():\n", "return 1\n\n\ndef h():\n", "return 1", "rule"),
        ("    return {\n▮    }\n", LOOP * 11, LOOP.rstrip("\n"), "rule"),
        ("for (const item ▮)", "of items) {\n  f(item);\n}\n", "of items", "rule"),
        ("foo(▮);", "a, b);", "a, b", "end"),
        ("foo(▮)", "a, bar(b))", "a, bar(b)", "end"),
        ("x = ▮ + offset", "y + offset", "y", "end"),
        ("x = [▮]", "1, 2]", "1, 2", "end"),
        ("a\n▮\n", "b�c", "b", "rule"),
        ("x = '�'\ny = ▮\n", "'�'", "'�'", "end"),
        ("▮", "a\u202eb", "a", "rule"),
    ],
)
def test_a_text_is_what_an_editor_would_insert(around, text, whole, stopped_by):
    assert fitted(around, text)[:2] == (whole, stopped_by)


def test_the_programs_own_limits_hold():
    around = "def f():\n    ▮\n"
    assert fitted(around, "a = 1\n    STOP = 2", stops=["STOP"])[:2] == ("a = 1", "word")
    assert fitted("if a\n    ▮", "b\n   c", n_indent=4)[:2] == ("b", "limit")
    assert fitted("▮", "ST ART", stops=["STOP"])[0] == "ST ART"


def test_whole_lines_are_told_while_it_grows():
    text = "a = 1\n    b = 2\n    c = 3"
    assert fitted("def f():\n    ▮\n", text) == (text, "end", "a = 1\n    b = 2")
    assert fitted("x = ▮", "1 + 2")[2] == ""


def test_a_text_without_an_end_has_whole_words_only():
    """As where the tokens run out."""
    whole, stopped_by, _ = fitted("def f():\n    ▮\n", "a = 1\n    b = so", ends=False)
    assert (whole, stopped_by) == ("a = 1", "none")


@pytest.mark.parametrize(
    ("around", "text", "unlikely", "whole", "told"),
    [
        # A word that would go on is left out, and so is what joins it to the others.
        ("x = ▮\n", "a + before", "f", "a", ""),
        ("x = ▮\n", "?", "?", "", ""),
        # Told lines stay, and nothing behind the cut is told.
        ("def f():\n    ▮\n", "a = 1\n    b = f(c)\n    d = 2", "c", "a = 1\n    b = f", "a = 1"),
        ("def f():\n    ▮\n", "a = 1\n    b = c\n", "b", "a = 1", "a = 1"),
        # What stands after the cursor ends it, sure or not.
        ("f(▮)\n", "a, b) + c", "c", "a, b", ""),
    ],
)
def test_it_ends_before_what_the_model_is_unsure_of(around, text, unlikely, whole, told):
    found = fitted(around, text, unlikely=unlikely, min_probability=0.3)
    assert found == (whole, "rule", told)
    assert fitted(around, text, unlikely=unlikely)[1] != "rule"


def test_the_beginning_of_a_stop_string_is_kept_where_it_ends():
    whole, _, _ = fitted("x = ▮\n", "ST?", unlikely="?", stops=["STOP"], min_probability=0.3)
    assert whole == "ST"


def test_typed_text_that_is_repeated_does_not_count():
    limits = {"typed": "re", "min_probability": 0.3}
    assert fitted("    re▮\n", "return x", unlikely="e", **limits)[1] == "end"
