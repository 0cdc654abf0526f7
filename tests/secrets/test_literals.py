"""The one reader of values: what it reads, and that it reads it a bounded number of times."""

import random

import pytest
from masked_by_rules import update_checked

from speclsp.secrets.literals import Value, read_heredoc, read_indented, read_literal
from speclsp.secrets.masked_text import PLACEHOLDER, MaskedText, masked
from tests.support.secret_forms import FORMS, planted_secrets, read_forms


def read(text: str, **how: bool) -> Value:
    value = read_literal(text, 0, **how)
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"one" two', "one"),
        (r'"on\"e" two', r"on\"e"),
        (r'"one\\" two', r"one\\"),
        (r"'it\'s' two", r"it\'s"),
        ("'it''s' two", "its"),
        (r"\"one\", \"two\"", "one"),
        (r"\"on\\\"e\" two", r"on\\\"e"),
        (r'\"one", "two', "one"),
        ('"one" + "two" + three', "onetwo"),
        ("'one' . 'two'", "onetwo"),
        ('"one" .. "two"', "onetwo"),
        ('"one"\n    "two"\n', "onetwo"),
        ('"one" \\\n"two"', "onetwo"),
        ('"one" +\n"two"', "onetwo"),
        ('"one"\n+ "two"', "onetwo"),
        ('"one"\n"""Docs."""', "one"),
        ('"one", "two"', "one"),
        ('"""one\n"two"\n""" three', 'one\n"two"\n'),
        ("'''one\n\ntwo''' three", "one\n\ntwo"),
        ("`one\ntwo` three", "one\ntwo"),
        ('"one\\\ntwo" three', "one\\\ntwo"),
        ('rb"one"', "one"),
        ('@"one"', "one"),
        ('r#"one"#', "one"),
    ],
)
def test_a_literal_is_read_to_its_end(text, value):
    assert (read(text).text, read(text).is_open) == (value, False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"one two', "one two"),
        ('"one\ntwo', "one"),
        ('"', ""),
        ('"one\\', "one\\"),
        ('"one" + "two', "onetwo"),
        ('"""one\ntwo', "one\ntwo"),
        ('"""one\ntwo\n\nthree = 3\n', "one\ntwo"),
        ("`one\ntwo", "one\ntwo"),
        (r"\"one", "one"),
    ],
)
def test_a_literal_without_an_end_is_read_too(text, value):
    assert (read(text).text, read(text).is_open) == (value, True)


def test_the_parts_of_a_value_leave_out_what_joins_them():
    text = 'x = ("one"\n     "two")'
    value = read_literal(text, 5, is_bracketed=True)
    assert value is not None
    assert [text[start:end] for start, end in value.parts] == ["one", "two"]
    assert read_literal("one", 0) is None


@pytest.mark.parametrize(
    ("text", "value", "is_open"),
    [
        ("<<EOF\none\ntwo\nEOF\nthree", "one\ntwo", False),
        ("$(cat <<'EOF'\none\nEOF\n)", "one", False),
        ("<<~EOS\n  one\n  EOS\n", "one", False),
        ("<<EOF\none\nEOFS\nEOF\n", "one\nEOFS", False),
        ("<<EOF\none\ntwo", "one\ntwo", True),
        ("<<EOF\none\n\nthree", "one", True),
    ],
)
def test_a_heredoc_is_read_to_its_tag(text, value, is_open):
    found = read_heredoc(text, 0)
    assert found is not None
    assert (found.text, found.is_open) == (value, is_open)


def test_an_indented_block_is_read_to_the_next_line_that_is_not_deeper():
    text = "  key: |\n    one\n\n    two\n  next: 1\n"
    assert read_indented(text, text.index("\n") + 1, 2).text == "one\n\n    two"


LINE = "x = 1\n"
OPENING = ['"""', "'''", "`", "EOF", "<<EOF", "password = ", '"', "\\", "(", ")", "", "", "x = 1"]


@pytest.mark.parametrize("name", ["a.py", "a.sh"])
@pytest.mark.parametrize("seed", range(6))
def test_any_edits_of_values_of_several_lines_give_what_masking_the_whole_text_gives(name, seed):
    rng = random.Random(f"{name} {seed}")
    if seed < 4:
        forms = [*(form for form in FORMS if "\n" in form.template), *FORMS[::9]]
        pieces = [*(form.drawn(seed)[0] for form in forms), *OPENING]
    else:
        stay = [form.template for form in read_forms("stay.txt") if form.kind == "harmless"]
        pieces = [*(one.lines for one in planted_secrets()), *stay, "", "x = (", "secret = ("]
    lines = [rng.choice(pieces) for _ in range(50)]
    text, n_masked = MaskedText(name), 0
    for _ in range(120):
        lines = lines or [""]
        at = rng.randrange(len(lines))
        lines[at : at + rng.randrange(9)] = [rng.choice(pieces) for _ in range(rng.randrange(4))]
        whole = "\n".join(lines or [""])
        if rng.random() < 0.6:  # an edit inside of a line
            start = rng.randrange(len(whole) + 1)
            typed = rng.choice(["", '"', '"""', "\n", "\n\n", "k", "`", "    ", "password = "])
            whole = whole[:start] + typed + whole[start + rng.randrange(4) :]
        lines = whole.split("\n")
        update_checked(text, whole, name)
        n_masked += text.text.count(PLACEHOLDER)
    assert n_masked > 100


def test_a_change_far_below_a_name_is_part_of_its_value():
    long = "".join(f"line {n}\n" for n in range(60))
    text = MaskedText("a.py")
    text.update(f'{LINE}password = """\n{long}{LINE}')
    text.update(f'{LINE}password = """\n{long}"""\n{LINE}')
    assert text.text == f'{LINE}password = """{PLACEHOLDER}"""\n{LINE}'
    text.update(f'{LINE}password = """\n{long}hunter22\n"""\n{LINE}')
    assert "hunter22" not in text.text
    update_checked(text, f'{LINE}pasword = """\n{long}hunter22\n"""\n{LINE}', "a.py")
    assert "hunter22" not in text.text


@pytest.mark.slow
@pytest.mark.timeout(30)  # read again for each name, these took minutes
@pytest.mark.parametrize(
    "piece",
    [
        "password = '\\\\'",
        'password="',
        "password=\\\"'`",
        'password = """',
        "password = <<A\n",
        "password: |\n ",
        "password = (\n'a'\n",
        'user, password = "a", ',
        "password=a=b; ",
        " -a password=x,",
        "curl curl -u a:b ",
        "http://a:b/",
        "://a:",
        "connect(a, b, ",
        "password\\\\",
        "<password>",
        "${password:",
        "pat",
        "bearer ",
    ],
)
def test_texts_without_end_are_read_a_bounded_number_of_times(piece):
    text = piece * (20_000 // len(piece))
    assert len(masked(text, "a.sh")) > 0
    assert len(masked(text, "a.py")) > 0
