"""Completions at a cursor, byte by byte: where they end and what is inserted."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typed_requests import request_between

from speclsp.settings import Settings
from speclsp.text.rules import stop_rules
from speclsp.text.stopping import CompletionText

CASES = tomllib.loads((Path(__file__).parent / "completions.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_completion(complete, name):
    language, document, generated, expected, stopped_by = CASES[name]
    completed = complete(document, generated, language)
    assert completed.document == expected
    assert completed.stopped_by == (stopped_by or None)


@pytest.mark.parametrize(
    ("language", "document", "generated", "expected"),
    [
        ("markdown", "Run it:\n\n▮\n", "```sh\nmake\n```\n", "Run it:\n\n```sh\nmake\n```\n"),
        (
            "python",
            'def f():\n    """Add.\n\n    ▮\n    """\n',
            "```\n    f()\n    ```\n",
            'def f():\n    """Add.\n\n    ```\n    f()\n    ```\n    """\n',
        ),
        (
            "rust",
            "/// ```\n/// f();\n▮\nfn f() {}\n",
            "/// ```\n/// more\n",
            "/// ```\n/// f();\n/// ```\n/// more\nfn f() {}\n",
        ),
    ],
    ids=["in Markdown", "in a string", "beside others"],
)
def test_a_fence_that_belongs_there(complete, language, document, generated, expected):
    completed = complete(document, generated, language)
    assert (completed.document, completed.stopped_by) == (expected, None)


@pytest.mark.parametrize("above", ["}", "} // done", "}\n// done"])
def test_a_handler_behind_its_block(complete, above):
    document, generated = f"try {{\n    f();\n{above}\n▮\n", "catch (error) {\n    k();\n}\n"
    assert complete(document, generated, "typescript").done.text == generated.rstrip("\n")


@pytest.mark.parametrize(
    ("language", "document", "generated"),
    [
        ("typescript", "interface P {\n    then(): void;\n    ▮\n}\n", "finally(): void;"),
        ("javascript", "x = {\n    then: 1,\n    ▮\n};\n", "catch: 2,"),
        ("javascript", "x = {\n    try: {\n        ▮\n    },\n};\n", "catch: 2,"),
        ("typescript", "class P {\n    n = 1;\n    ▮\n}\n", "catch(f) { return f; }"),
        ("java", "try {\n    f();\n}\n/* so */\n▮\n", "catch (E e) { g(); }"),
        ("php", "try {\n    f();\n}\n# so\n▮\n", "catch (E $e) { g(); }"),
        ("cpp", "try {\n    f();\n}\n#endif\n▮\n", "catch (E& e) { g(); }"),
    ],
)
def test_a_word_of_a_handler_in_no_block_of_try(complete, language, document, generated):
    assert complete(document, generated + "\n", language).done.text == generated


@pytest.mark.parametrize("head", ["try {", "try\n{", "try (var x = f(a)) {", "if (y) try {"])
def test_a_handler_in_its_block_is_left_out(complete, head):
    document = f"{head}\n    f();\n    ▮\n}}\n"
    assert complete(document, "catch (E e) {\n        g();\n    }\n", "java").done.text == ""


@pytest.mark.parametrize(
    ("language", "document"),
    [
        ("latex", "\\newcommand{\\x}{%\n  y\n  ▮\n"),
        ("", "f {\n    g\n    ▮\n"),
        ("css", "a {\n    color: red;\n    ▮\n"),
    ],
)
def test_a_brace_may_be_deep_in_languages_that_were_not_counted(complete, language, document):
    assert complete(document, "}\n", language).done.text == "}"


@pytest.mark.parametrize("generated", ["*\n", "*\n *\n", "*\n *\n *\n"])
def test_a_comment_of_stars_alone_is_left_out(complete, generated):
    document = "/*▮\nint f();\n"
    assert complete(document, generated, "c").document == document.replace("▮", "")


@pytest.mark.parametrize(
    ("language", "document", "generated", "expected"),
    [
        (
            "java",
            "long f() {\n    ▮\n\n    return a + b;\n}\n",
            "return c",
            "long f() {\n    \n\n    return a + b;\n}\n",
        ),
        (
            "c",
            "switch (x) {\n  case 1:\n  f();\n  ▮\n  case 2:\n  g();\n}\n",
            "break;\n",
            "switch (x) {\n  case 1:\n  f();\n  break;\n  case 2:\n  g();\n}\n",
        ),
        (
            "ruby",
            "def f\n  ▮\n  g\nend\n",
            "return if x\n",
            "def f\n  return if x\n  g\nend\n",
        ),
        (
            "python",
            'def f():\n    """A.\n\n    ▮\n    B.\n    """\n',
            "return to start\n",
            'def f():\n    """A.\n\n    return to start\n    B.\n    """\n',
        ),
    ],
    ids=[
        "half a jump before the next line",
        "a jump before another branch",
        "a jump under a condition",
        "a word in a docstring",
    ],
)
def test_a_jump_and_the_next_line(complete, language, document, generated, expected):
    completed = complete(document, generated, language)
    assert (completed.document, completed.stopped_by) == (expected, None)


@pytest.mark.parametrize(
    ("document", "generated"),
    [
        ("try:\n    f(\n        x\n    )\n▮", "except TypeError:\n    pass"),
        ("if (\n    x\n):\n    f()\n# Or:\n▮", "else:\n    g()"),
        ("for x in y:\n    f()\n▮", "else:\n    g()"),
        ("y = (\n    x\n    if z\n    ▮\n)\n", "else 1"),
        ("y = x\n▮", "elsewhere = 1"),
        ('if x:\n    s = """\ntext\n"""\n▮', "else:\n    f()"),
        ("try:\n    q = '''\nSELECT 1\n'''\n    run(q)\n▮", "except E:\n    f()"),
        ('if a:\n    x = f("""\nb\n""")\n▮', "else:\n    f()"),
        ("x = a if b \\\n    ▮", "else c"),
    ],
    ids=[
        "behind a call",
        "behind a comment",
        "of a loop",
        "in an expression",
        "another word",
        "behind a long string",
        "behind a statement and a long string",
        "behind a long string in a call",
        "on the next line",
    ],
)
def test_a_branch_of_a_statement_above(complete, document, generated):
    completed = complete(document, generated + "\n")
    assert (completed.document, completed.stopped_by) == (document.replace("▮", generated), None)


@pytest.mark.parametrize(
    ("generated", "following", "expected"),
    [
        (b"return f", b'"{', "return"),
        (b"x = rb", b"'a", "x"),
        (b"return half", b'"', "return half"),
        (b"return f", b"(", "return f"),
    ],
)
def test_no_letters_of_a_string_are_left_without_it(
    byte_vocabulary, rules_at, generated, following, expected
):
    text = CompletionText(byte_vocabulary(), rules_at("f(); ▮"), budget_s=0, clock=lambda: 0.0)
    for token in generated:
        text.feed(token)
    text.end_before(following)
    assert text.so_far == expected


@pytest.mark.parametrize(
    ("budget_s", "expected"),
    [(0.0, "a = 1"), (5.0, "a = 1"), (5.5, "a = 1\nb = 2"), (99.0, "a = 1\nb = 2\n")],
)
def test_the_latency_budget_ends_it_with_a_line(byte_vocabulary, rules_at, budget_s, expected):
    now = iter(range(99))
    text = CompletionText(
        byte_vocabulary(), rules_at("▮"), budget_s=budget_s, clock=lambda: 5.0 * next(now)
    )
    for token in b"a = 1\nb = 2\n":
        if text.feed(token):
            break
    assert text.so_far == expected
    assert text.stopped_by == ("time" if budget_s < 99 else None)


@pytest.mark.parametrize("max_lines", [1, 2, 3, 7])
def test_max_lines(complete, max_lines):
    generated = "".join(f"x{i} = {i}\n" for i in range(20))
    completed = complete("▮", generated, max_lines=max_lines)
    assert completed.done.text.count("\n") == max_lines - 1
    assert completed.stopped_by == "lines"
    # The token that ends the last line is the last one taken.
    assert completed.n_fed == sum(len(f"x{i} = {i}\n") for i in range(max_lines))


def test_max_lines_of_a_block_count_its_own_lines(complete):
    completed = complete("def f():▮\n", "\n    a()\n    b()\n    c()\n", max_lines=2)
    assert completed.done.text == "\n    a()\n    b()"


@pytest.mark.parametrize(
    ("document", "generated", "text"),
    [
        # Cut off by n_predict or the deadline: whole lines, or a whole call of the first one.
        ("def f():▮\n", "\n    return 1\n    x = so", "\n    return 1"),
        ("def f():▮\n", "\n    return g(1)\n\ndef", "\n    return g(1)"),
        ("def f():▮\n", "\n    x = g(\n        1\n    )", "\n    x = g(\n        1\n    )"),
        ("x = ▮\n", "g(x).of(y).na", "g(x).of(y)"),
        ("x = ▮\n", "total + cou", "total + cou"),
        ("def f():▮\n", "\n    x = 1\n    return g(x, y", "\n    x = 1"),
        ("x = ▮\n", "g(x, y", "g"),
        ("def f():\n    ▮\n", "return 1\nd", "return 1"),
        ("def f():\n    ▮\n    return x\n", "x = 1\n    return x", "x = 1"),
        ("def f():\n    ▮\n", "", ""),
        ("x = ▮\n", "   ", ""),
        ("s = '▮", "é"[:1], "é"),
    ],
)
def test_text_cut_off(complete, document, generated, text):
    completed = complete(document, generated)
    assert completed.stopped_by is None
    assert completed.done.text == text


@pytest.mark.parametrize(
    ("document", "generated", "text", "stopped_by"),
    [
        ("x = ▮\n", "1\x1b]0;owned\x07", "1", "bytes"),
        ("x = ▮\n", "1\0", "1", "bytes"),
        ("x = ▮\n", "1\x7f2", "1", "bytes"),
        ("x = ▮\n", "1\x9b2", "1", "bytes"),
        ("x = ▮\n", "1\u20282", "1", "bytes"),
        ("if ok▮:\n", "\u202e } \u2066if a:", "", "bytes"),
        ("x = ▮\n", "'a\u2067b'", "'a", "bytes"),
        ("x = ▮\n", "'a\u200fb'", "'a", "bytes"),
        # A document in Hebrew or Arabic may have them.
        ("y = '\u200fשלום'\nx = ▮\n", "'\u200fab'", "'\u200fab'", None),
        ("y = '\u200fשלום'\nx = ▮\n", "'\u202eab'", "'", "bytes"),
        ("x = ▮\ny = '\u2067ab\u2069'\n", "'\u2067cd\u2069'", "'\u2067cd\u2069'", None),
        ("y = '\x1b'\nx = ▮\n", "'\x1b'", "'", "bytes"),
        ("x = ▮\n", "\tone\r\ntwo", "\tone", "lines"),
        ("x = ▮\n", "1<|endoftext|>def f(): pass", "1", "end"),
        ("x = ▮\n", "1<\uff5cend\u2581of\u2581sentence\uff5c>", "1", "end"),
        ("x = ▮\n", "1<fim_middle>2", "1", "end"),
        ("x = ▮\n", "1<[fim-suffix]>2", "1", "end"),
        ("x = ▮\n", "1<EOT>", "1", "end"),
        ("x = ▮\n", "a <|> b", "a <|> b", None),
        ("x = ▮\n", "'</s>'", "'</s>'", None),
        ("END = '<|eot_id|>'\nx = ▮\n", "'<|eot_id|>'", "'<|eot_id|>'", None),
    ],
)
def test_what_nobody_sees_and_names_of_tokens_end_it(
    complete, document, generated, text, stopped_by
):
    completed = complete(document, generated, "", multiline="never")
    assert (completed.done.text, completed.stopped_by) == (text, stopped_by)


@pytest.mark.parametrize("name", ["</s>", "[MIDDLE]"])
def test_a_familys_names_end_the_text_of_a_server(byte_vocabulary, rules_at, name):
    text = CompletionText(byte_vocabulary(), rules_at("x = ▮"), end_names=["</s>", "[MIDDLE]"])
    fed = [text.feed(byte) for byte in f"12{name}".encode()]
    assert fed == [False] * (len(fed) - 1) + [True]
    assert (text.finish().text, text.stopped_by) == ("12", "end")


def test_end_tokens_end_it_and_add_nothing(byte_vocabulary, rules_at):
    vocabulary = byte_vocabulary(pieces=(b"<|file_sep|>",))
    for token in (256, 257):
        text = CompletionText(vocabulary, rules_at("x = ▮"), end_tokens=frozenset((257,)))
        assert not text.feed(ord("1"))
        assert text.feed(token)
        assert text.feed(ord("2"))
        assert text.finish().text == "1"
        assert text.stopped_by == "end"


def test_a_token_is_cut_where_a_rule_ends_the_text(byte_vocabulary, rules_at):
    vocabulary = byte_vocabulary(pieces=(b"):\n    return x\n",))
    text = CompletionText(vocabulary, rules_at("x = f(a▮"))
    assert text.feed(257)
    assert text.finish().text == "):"


PIECES = [*"ab_ ()[]{}:;,'\"\\.=+\n\t\r#é🙂", "<|file_sep|>", "<", "\x1b", "\u202e", "\u200f"]
SOURCE_TEXT = st.lists(st.sampled_from(PIECES), max_size=80).map("".join)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(prefix=SOURCE_TEXT, suffix=SOURCE_TEXT, generated=SOURCE_TEXT, data=st.data())
def test_only_the_text_at_the_cursor_changes(byte_vocabulary, prefix, suffix, generated, data):
    request = request_between(
        uri="u",
        path="p",
        repo_name="r",
        prefix=prefix,
        suffix=suffix,
        language_id=data.draw(st.sampled_from(["python", "c", "ruby", "markdown", ""])),
        multiline=data.draw(st.sampled_from(["auto", "never", "always"])),
    )
    rules = stop_rules(request.settings_over(Settings()), request)
    text = CompletionText(byte_vocabulary(), rules)
    any(text.feed(token) for token in generated.encode())
    done = text.finish()
    # Never more than the rest of the line is replaced, and line ends never are.
    assert 0 <= done.n_replaced <= len(rules.line_after)
    assert not set(suffix[: done.n_replaced]) & set("\r\n")
    # Empty rather than blank, and then nothing is taken out either.
    assert bool(done.text) == bool(done.text.strip())
    assert done.text or done.n_replaced == 0
    if rules.extent == "line":
        assert "\n" not in done.text
    # Indentation and line ends aside, the text is the start of what was generated.
    bare = "".join(done.text.split())
    assert "".join(generated.split()).startswith(bare)
    assert "\ufffd" not in done.text
    if rules.newline == "\r\n":
        assert done.text.count("\n") == done.text.count("\r\n")
    else:
        assert "\r" not in done.text


@pytest.mark.parametrize(
    ("document", "generated", "expected"),
    [
        (
            "def f():\n    ▮\n",
            "x = 1  # it's\n    raise E('what\ny = 1\n",
            "def f():\n    x = 1  # it's\n",
        ),
        ("x = f(▮\n", "'abc\n", "x = f(\n"),
    ],
)
def test_a_string_that_its_line_leaves_open_is_cut(complete, document, generated, expected):
    assert complete(document, generated, "python").document == expected


@pytest.mark.parametrize("name", CASES)
def test_not_a_token_is_taken_after_the_decisive_one(complete, name):
    """Whatever came instead of the last byte, the rule would not have stopped the text yet."""
    language, document, generated, _, stopped_by = CASES[name]
    n_fed = complete(document, generated, language).n_fed
    text = generated.encode()[: n_fed - 1].decode(errors="ignore")
    assert complete(document, text, language).stopped_by is None
    others = [complete(document, text + other, language) for other in "oe(\n_af"]
    assert any(other.stopped_by != (stopped_by or None) for other in others)


@settings(max_examples=200, deadline=None)
@given(
    prefix=SOURCE_TEXT,
    suffix=SOURCE_TEXT,
    generated=st.one_of(
        SOURCE_TEXT,
        st.lists(st.sampled_from(["def f():", "    x", "\n", "}", "{", "ab, ", "end"])).map(
            "".join
        ),
    ),
    cuts=st.lists(st.integers(1, 20), max_size=30),
    language=st.sampled_from(["python", "c", "ruby", ""]),
)
@example(prefix="(", suffix="\r:", generated="\n:\n", cuts=[], language="python")
def test_the_text_does_not_depend_on_how_it_is_cut_into_tokens(
    byte_vocabulary, prefix, suffix, generated, cuts, language
):
    request = request_between(
        uri="u", path="p", repo_name="r", prefix=prefix, suffix=suffix, language_id=language
    )
    rules = stop_rules(Settings(), request)
    data = generated.encode()
    pieces, start = [], 0
    for n_bytes in cuts:
        pieces.append(data[start : start + n_bytes])
        start += n_bytes
    pieces.append(data[start:])
    whole = CompletionText(byte_vocabulary(pieces=tuple(pieces)), rules)
    n_fed = 0
    for token in range(257, 257 + len(pieces)):
        n_fed += 1
        if whole.feed(token):
            break
    single = CompletionText(byte_vocabulary(), rules)
    for byte in b"".join(pieces[:n_fed]):
        if single.feed(byte):
            break
    assert (whole.finish(), whole.stopped_by) == (single.finish(), single.stopped_by)
    # Once decided, nothing changes any more.
    if whole.stopped_by:
        done = whole.finish(), whole.stopped_by
        assert whole.feed(ord("x"))
        assert (whole.finish(), whole.stopped_by) == done


def test_the_embedded_vocabulary_gives_back_every_character(rules_at, vocabulary):
    source = "s = 'é🙂𝒳 日本語'  # ünïcode\tand tabs"
    tokens = vocabulary.tokenize(source).tolist()
    assert any(not _is_whole(vocabulary.piece(token)) for token in tokens)
    text = CompletionText(vocabulary, rules_at("x = 1; ▮"))
    assert not any(text.feed(token) for token in tokens)
    assert text.finish().text == source


def _is_whole(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("document", "whole", "beginning", "kept"),
    [
        ("▮\n", 'x = 1\ns = """A.\nB."""', 'x = 1\ns = """A.', "x = 1"),
        ("▮\n", "x = f(a\n)", "x = f(a", "x = f"),
        ("▮\n", "x = f(\n    a,\n)", "x = f(\n    a,", "x = f(\n    a,"),
        ("if x:\r\n\ty()\r\n\t▮\r\n", "z()\n\tg(a\n\t)", "z()\r\n\tg(a", "z()"),
        ("f(▮)\n", "a)\ng(b)", "a)", "a)"),
    ],
)
def test_a_beginning_of_a_text_is_balanced_anew(
    rules_at, byte_vocabulary, document, whole, beginning, kept
):
    text = CompletionText(byte_vocabulary(), rules_at(document))
    for token in whole.encode():
        text.feed(token)
    assert text.fitted(beginning).text == kept


@pytest.mark.parametrize(
    ("language", "document", "generated", "kept"),
    [
        ("python", 'x = f"Hel▮\n', "lo, {name}\n    return x", "lo, {name}"),
        ("python", 'x = f"Hel▮\n', 'lo")\ny = 1\n', 'lo"'),
        ("python", 'print("Hel▮")\n', "lo, world\n", "lo, world"),
        ("typescript", "const s = `Hel▮\n", "lo ${a}\n more`", "lo ${a}"),
        ("go", 's := "Hel▮\n', "lo\n", "lo"),
    ],
)
def test_a_string_that_the_user_began_may_stay_open(complete, language, document, generated, kept):
    assert complete(document, generated, language).done.text == kept
