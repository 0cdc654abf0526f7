"""The block alone, line by line; whole completions are in ``test_stopping.py``."""

import pytest
from typed_requests import request_between

from speclsp.settings import Settings
from speclsp.text.block import CursorBlock
from speclsp.text.fitting import balanced
from speclsp.text.rules import stop_rules


def block_at(document: str, language_id: str) -> CursorBlock:
    prefix, suffix = document.split("▮")
    request = request_between(
        uri="", path="a", repo_name="", prefix=prefix, suffix=suffix, language_id=language_id
    )
    rules = stop_rules(Settings(multiline="always"), request)
    return CursorBlock(rules)


@pytest.mark.parametrize(
    ("line", "is_left"),
    [("        b()", False), ("    b()", False), ("b()", True), ("    else:", False)],
)
def test_a_less_deep_line_leaves_the_block(line, is_left):
    block = block_at("def f():\n    ▮\n", "python")
    block.take_line("    a()")
    assert block.is_left_by(line) is is_left


def test_a_closer_does_not_leave_the_block():
    block = block_at("void f() {\n  ▮\n", "c")
    block.take_line("  a();")
    assert not block.is_left_by("}")


@pytest.mark.parametrize(("after", "kept"), [("", "a();\n}"), ("}\n", "a();")])
def test_a_closer_is_worth_having_unless_the_file_has_it(rules_at, after, kept):
    assert balanced("a();\n}", rules_at("void f() {\n  ▮\n" + after, "c")).text == kept


def test_a_word_may_yet_become_one_that_goes_on_with_the_block():
    block = block_at("if a:▮\n", "python")
    block.take_line("if a:")
    assert block.may_be_special("el")
    assert not block.may_be_special("els + 1")


def test_the_bracket_that_was_open_at_the_cursor_ends_the_block():
    block = block_at("f(▮", "javascript")
    block.take_line("f(function () {")
    assert not block.is_ended_by("f(function () {", "function () {")
    block.take_line("})")
    assert block.is_ended_by("})", "function () {\n})")
