"""Defects of suggestions at the cursor ``▮``; what stands in ``⟦ ⟧`` is taken out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.code_marks import code_marks
from benchmarks.defects import find_defects

BODY = "def area(width):\n    total = width * 2\n"


def kinds(document: str, text: str, language: str = "python") -> list[str]:
    prefix, suffix = document.split("▮")
    n_replaced = 0
    if suffix.startswith("⟦"):
        taken, _, rest = suffix[1:].partition("⟧")
        suffix, n_replaced = taken + rest, len(taken)
    return [defect.kind for defect in find_defects(prefix, text, n_replaced, suffix, language)]


@pytest.mark.parametrize(
    ("document", "text", "language"),
    [
        ("x = f(▮)\n", "a, b", "python"),
        ("x = f(▮⟦)⟧\n", "a, b)", "python"),
        ("x = f(▮\n", "a, b)", "python"),
        ("x = f(▮\n", "", "python"),
        ("x = ▮\n", "f(", "python"),
        ("x = f(▮\n", "a,", "python"),
        (BODY + "    ▮\n", "return total", "python"),
        (BODY + "▮\n", "    return total", "python"),
        (BODY + "    ▮\n", "if total:\n        return 1\n    return total", "python"),
        (BODY + "    ▮\n", "return f(\n        total,\n    )", "python"),
        (BODY + "    ▮\n", 's = """a\nb"""', "python"),
        (BODY + "    retur▮\n", "n total", "python"),
        (BODY + "    return wid▮\n", "th", "python"),
        ("int f() {▮}\n", "\n  return 1;\n", "c"),
        ("int f() {▮\n", "\n  if (x) {", "c"),
        ("let a: &'static str = ▮;\n", '"it\'s"', "rust"),
        ("func f() {\n\t▮\n}\n", "if x {\n\t\tg()\n\t}", "go"),
        ("x = ▮\n", "'('  # it's", "python"),
        ("customer▮\n", "_name = 1", "python"),
        ("get▮\n", "Name()", "javascript"),
        ("It is ▮\n", "what (it is", "markdown"),
        ("y = a + b▮\nx = 1\n", "\ny = a", "python"),
        ("x = ▮  # why\n", "1", "python"),
    ],
)
def test_nothing_wrong(document, text, language):
    assert kinds(document, text, language) == []
    # Line ends make no difference.
    assert kinds(document.replace("\n", "\r\n"), text.replace("\n", "\r\n"), language) == []


@pytest.mark.parametrize(
    ("document", "text", "language", "expected"),
    [
        ("x = f(▮)\n", "a, b)", "python", ["unbalanced_bracket"]),
        ("x = f(▮⟦)⟧\n", "a, b", "python", ["unbalanced_bracket"]),
        ("x = g(f(▮⟦)⟧)\n", "a, b", "python", ["unbalanced_bracket"]),
        ("x = ▮ + 1\n", "f(a", "python", ["unbalanced_bracket"]),
        ("x = ▮\n", "f(a", "python", ["unbalanced_bracket"]),
        ('x = "▮"\n', 'a"', "python", ["unbalanced_bracket"]),
        ("int f() {▮}\n", "\n  return 1;\n}\n", "c", ["unbalanced_bracket"]),
        ("x = ▮ + rest\n", "a + rest", "python", ["repeated_suffix"]),
        (BODY + "    ▮\n    return 1\n", "x = 1\n    return 1", "python", ["repeated_suffix"]),
        (BODY + "    retu▮\n    return total\n", "rn total", "python", ["repeated_suffix"]),
        ("▮\nx = 1\nresult = compute(x)\n", "result = compute(x)", "python", ["repeated_suffix"]),
        (BODY + "    ▮\n", "\treturn 1", "python", ["wrong_indentation"]),
        (BODY + "    ▮\n", " return 1", "python", ["wrong_indentation"]),
        (BODY + "    ▮\n", "if x:\n    return 1", "python", ["wrong_indentation"]),
        (BODY + "    ▮\n", "if x:\n        y = 1\n      return 1", "python", ["wrong_indentation"]),
        ("func f() {\n\t▮\n}\n", "if x {\n        g()\n\t}", "go", ["wrong_indentation"]),
        ("int f() {\n    if (x) {\n        ▮\n", "a();\n      b();", "c", ["wrong_indentation"]),
        (BODY + "    return▮\n", "total", "python", ["broken_word"]),
        (BODY + "    retur▮\n", "ated", "python", ["broken_word"]),
        (BODY + "    return ▮idth\n", "total_w", "python", ["broken_word"]),
        (BODY + "    return tot▮th\n", "al", "python", ["broken_word"]),
        (BODY + "    return ▮th\n", "wid", "python", []),
        ("f(▮)\n", "a)) + 'b\nc", "python", ["unbalanced_bracket"]),
    ],
)  # fmt: skip
def test_defects(document, text, language, expected):
    assert kinds(document, text, language) == expected


def test_what_was_wrong_before_is_no_defect():
    assert kinds("x = )]'\n  y = 1\n   z = 2\n▮", "w = 3\n") == []


def test_strings_and_comments_hide_brackets():
    for language, text in (
        ("python", '\'(\' "[" # {\n"""(\n[""" '),
        ("c", '\'(\' "\\"[" // {\n/* (\n */'),
        ("lua", "'(' -- {\n"),
        ("javascript", "`(\n` '['"),
        ("rust", "fn f<'a>(x: &'a str) { '(' }"),
    ):
        marks = code_marks(text, language)
        assert (marks.openers, marks.closers, marks.quotes) == ([], [], []), language


TEXT = st.text(st.sampled_from("ab_ ()[]{}'\"\n\t#:,é🙂"), max_size=40)


@given(TEXT, TEXT, TEXT, st.sampled_from(["python", "c", "rust", "markdown", ""]))
def test_every_text_has_at_most_one_defect_of_a_kind(prefix, text, suffix, language):
    found = find_defects(prefix, text, 0, suffix, language)
    assert len({defect.kind for defect in found}) == len(found)
    assert not found or text.strip()


@given(TEXT, TEXT, TEXT)
def test_brackets_of_a_balanced_document_are_no_defect(prefix, text, suffix):
    """What is taken out of a document and put back in cannot unbalance it."""
    marks = code_marks(prefix + text + suffix, "python")
    without = code_marks(prefix + suffix, "python")
    if len(marks.closers) <= len(without.closers) and len(marks.openers) <= len(without.openers):
        found = {d.kind for d in find_defects(prefix, text, 0, suffix, "python")}
        assert "unbalanced_bracket" not in found or len(marks.quotes) > len(without.quotes)
