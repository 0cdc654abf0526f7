"""A text ends before the token with which its joint probability falls below the least one."""

import math

import pytest

from speclsp.text.stopping import CompletionText

Token = tuple[str, float]
"""A token's text and probability."""

_CLOSED = "\n        a();\n    "


@pytest.fixture
def ended(byte_vocabulary, rules_at):
    """Feed tokens with their probabilities until the text ends."""

    def feed(document, tokens, least=0.5, *, typed="", language="python"):
        vocabulary = byte_vocabulary(tuple(piece.encode() for piece, _ in tokens))
        rules = rules_at(document, language)
        text = CompletionText(vocabulary, rules, typed=typed, min_probability=least)
        for token, (_, probability) in enumerate(tokens, 257):
            if text.feed(token, math.log(probability) if probability else math.nan):
                break
        return text

    return feed


@pytest.mark.parametrize(
    ("document", "tokens", "kept"),
    [
        # The product counts, not one token's probability.
        ("x = ▮\n", [("a", 0.8), (" +", 0.8), (" b", 0.8), (" *", 0.7)], "a + b"),
        ("x = ▮\n", [("a", 0.4), (" +", 1.0)], ""),
        # Never inside a word: the part of it goes too.
        ("x = ▮\n", [("total", 0.9), (" -", 0.9), (" net", 0.9), ("_sum", 0.3)], "total"),
        ("x = ▮\n", [("to", 0.9), ("tal", 0.3)], ""),
        ("x = to▮\n", [("ta", 0.9), ("l", 0.3)], ""),
        ("x = to▮\n", [("tal", 0.9), (".x", 0.3)], "tal"),
        # A colon within a line joins, one at its end opens a block.
        ("x = f(▮)\n", [("total", 0.9), (":", 0.9), (" int", 0.3)], "total"),
        ("if ▮\n", [("total", 0.9), (":", 0.9), ("\n", 0.3)], "total:"),
        # Half an operation, and what only looks like one.
        ("x = ▮\n", [("a", 0.9), (" <", 0.9), (" b", 0.3)], "a"),
        ("x = ▮\n", [("a", 0.9), (" >", 0.9), (" b", 0.3)], "a"),
        ("x = ▮\n", [("p", 0.9), ("->", 0.9), ("b", 0.3)], "p"),
        ("Vec<▮\n", [("u8", 0.9), (">", 0.9), (" x", 0.3)], "u8>"),
        # A reference without what it refers to.
        ("fn f(▮)\n", [("x", 0.9), (":", 0.9), (" &", 0.9), ("'a", 0.9), (" str", 0.3)], "x"),
        ("f(▮)\n", [("x", 0.9), (", &", 0.9), ("mut", 0.9), (" y", 0.3)], "x"),
        # A function that is an argument, before its body.
        (
            "it('▮')\n",
            [("adds", 0.9), ("',", 0.9), (" ()", 0.9), (" =>", 0.9), (" {", 0.3)],
            "adds'",
        ),
        ("x = ▮\n", [("1", 0.9), (",", 0.9), (" async x", 0.9), (" =>", 0.9), (" x", 0.3)], "1"),
        # An argument's name without its value; names that end there stay.
        ("f(▮)\n", [("a", 0.9), (",", 0.9), (" help", 0.9), ('="', 0.3)], "a"),
        ("f(▮)\n", [("help", 0.9), ("=", 0.3)], ""),
        ("f(▮)\n", [("help", 0.9), (" ==", 0.3)], "help"),
        ("▮\n", [("a", 0.9), (",", 0.9), (" b", 0.9), (" =", 0.3)], "a, b"),
        # What opens a bracket that nothing closes is left out.
        ("x = ▮\n", [("f", 0.9), ("(", 0.9), ("a", 0.3)], "f"),
        ("x = ▮\n", [("(", 0.9), ("a", 0.3)], ""),
        # Whole lines stay.
        ("def f():\n    ▮\n", [("a()", 0.9), ("\n    ", 0.9), ("b", 0.3)], "a()"),
        # Several lines leave the editor's closing bracket a line of its own.
        ("    if (x) {▮}\n", [("\n        a();", 0.9), ("\n        ", 0.9), ("b", 0.3)], _CLOSED),
        ("f(▮)\n", [("\n    a,", 0.9), ("\n    b", 0.9), (" +", 0.3)], "\n    a,\n    b\n"),
        ("f({▮})\n", [("\n    a,\n", 0.9), ("}", 0.9), (")", 0.9), (";", 0.3)], "\n    a,\n})"),
        # A docstring that is not closed is left out; one that was open before is not.
        ("def f():\n    ▮\n", [('"""', 0.9), ("\n    Strip", 0.9), (" the", 0.3)], ""),
        ("def f():\n    ▮\n", [("x = 1\n    ", 0.9), ("'''Add", 0.9), (" it", 0.3)], "x = 1"),
        ("def f():\n    ▮\n", [('"""A."""', 0.9), ("\n    ", 0.9), ("x", 0.3)], '"""A."""'),
        ('def f():\n    """▮\n', [("Add", 0.9), (" it", 0.3)], "Add"),
        # Nor is a string that is left open, with what joins it.
        ("▮\n", [("raise!(self", 0.9), (", ", 0.9), ('"', 0.9), ("expected", 0.3)], "raise!"),
        ("f(a▮)\n", [(", type=P", 0.9), (", help", 0.9), ('="', 0.9), ("x", 0.3)], ", type=P"),
        # A word alone in a line that begins in the text; a whole line may be one.
        ("x = 1\n▮\n", [("if", 0.9), (" x", 0.3)], ""),
        ("def f():\n    ▮\n", [("a()\n    ", 0.9), ("value", 0.9), (",", 0.3)], "a()"),
        ("def f():▮\n", [("\n    ", 0.9), ("value", 0.9), (" =", 0.3)], ""),
        ("def f():\n    ▮\n", [("pass", 0.9), ("\n", 0.3)], "pass"),
        ("def f():▮\n", [("\n    ", 0.9), ("pass", 0.9), ("\n", 0.3)], "\n    pass"),
        ("def f():\n    ▮\n", [("#", 0.9), (" Add", 0.3)], ""),
        ("def f():\n    ▮\n", [("a()\n    ", 0.9), ("# Add", 0.9), (" all", 0.3)], "a()"),
        ("def f():\n    ▮\n", [("# Add", 0.9), (" all", 0.9), (" of", 0.3)], "# Add all"),
        ("# ▮\n", [("Add", 0.9), (" all", 0.3)], "Add"),
        ("de▮\n", [("f", 0.9), (" g", 0.3)], "f"),
        # A method of the string that was just closed, without its call.
        ('x = ""▮\n', [(".join", 0.9), ("(", 0.9), ("a", 0.3)], ""),
        ('x = ""▮\n', [(".join", 0.9), ("(a)", 0.9), ("\n", 0.3)], ".join(a)"),
        # Nothing but the next line.
        ("    ▮\n    total = 0\n", [("total", 0.9), (" = 0", 0.9), ("\n", 0.3)], ""),
        # Blanks alone are no text.
        ("def f():▮\n", [("\n    ", 0.9), ("return", 0.3)], ""),
    ],
)
def test_it_ends_where_the_model_is_unsure(ended, document, tokens, kept):
    text = ended(document, tokens)
    assert (text.stopped_by, text.finish().text) == ("unsure", kept)
    assert text.probability == pytest.approx(math.prod(p for _, p in tokens))


@pytest.mark.parametrize(
    ("document", "tokens", "kept"),
    [
        ("Run\n▮\n", [("it:\n\n", 0.9), ("```", 0.9), ("sh", 0.3)], "it:"),
        ("```\nx\n▮\n", [("y\n", 0.9), ("```", 0.9), ("\n", 0.3)], "y\n```"),
    ],
)
def test_a_block_of_markdown_is_not_left_open(ended, document, tokens, kept):
    text = ended(document, tokens, language="markdown")
    assert (text.stopped_by, text.finish().text) == ("unsure", kept)


def test_0_ends_no_text(ended):
    text = ended("x = ▮\n", [("a", 0.01), ("b", 0.01)], 0.0)
    assert (text.stopped_by, text.so_far) == (None, "ab")


def test_typed_text_that_is_repeated_does_not_count(ended):
    tokens = [("ret", 0.1), ("urn", 0.9), (" x", 0.9)]
    text = ended("    ret▮\n", tokens, typed="ret")
    assert (text.stopped_by, text.so_far) == (None, "urn x")
    assert text.probability == pytest.approx(0.81)


def test_unknown_probabilities_end_no_text(ended):
    text = ended("x = ▮\n", [("a", 0.0), (" + b", 0.0)])
    assert (text.stopped_by, text.so_far, text.probability) == (None, "a + b", 1.0)


@pytest.mark.parametrize(
    ("document", "language", "pieces", "kept"),
    [
        (
            'def f():\n    """▮\n',
            "python",
            ["\n   ", " Count", " the", " words"],
            "\n    Count the",
        ),
        ('def f():\n    """▮\n', "python", ["\n   ", " Count", " the"], ""),
        ("/**▮\nf();\n", "java", ["\n", " *", " Counts", " the"], ""),
        ("/**▮ */\nf();\n", "java", ["\n", " *", " Counts", " the"], ""),
        ("/*▮*/\n", "c", ["*\n", " *", " Counts", " the"], ""),
        ('class A:\n    "▮"\n', "python", ['""', "A"], ""),
        ('class A:\n    ""▮\n', "python", ['"', "A"], ""),
    ],
)
def test_a_docstring_without_a_second_word(ended, document, language, pieces, kept):
    *sure, unsure = pieces
    tokens = [*((piece, 0.9) for piece in sure), (unsure, 0.3)]
    text = ended(document, tokens, language=language)
    assert (text.stopped_by, text.finish().text) == ("unsure", kept)


@pytest.mark.parametrize("least", [0.9, 0.5, 0.2, 0.05, 0.0])
def test_what_is_kept_begins_the_whole_text(ended, least):
    pieces = ["return", " sum", "(x", " *", " y", " for", " x", ",", " y", " in", " pairs", ")\n"]
    tokens = [(piece, 0.9) for piece in pieces]
    text = ended("def dot(pairs):\n    ▮\n", tokens, least)
    assert "".join(pieces).startswith(text.so_far)
    n_kept = sum(0.9**n >= least for n in range(1, len(pieces) + 1))
    n_kept -= n_kept == 1  # a word alone on its line is left out
    assert text.so_far.strip() == "".join(pieces[:n_kept]).strip()
