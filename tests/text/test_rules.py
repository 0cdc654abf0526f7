"""One line or several, from the settings and the text at the cursor."""

import pytest
from typed_requests import request_between

from speclsp.settings import Settings
from speclsp.text.code_reader import CodeState
from speclsp.text.rules import StopRules, stop_rules


@pytest.mark.parametrize(
    ("document", "language", "extent"),
    [
        ("▮", "python", "lines"),
        ("x = 1\n▮", "python", "lines"),
        ("def f():\n    ▮", "python", "lines"),
        ("def f():\n    ▮\n    return x\n", "python", "lines"),
        ("def f():▮\n", "python", "block"),
        ("def f(▮)", "python", "block"),
        ('x = [▮]";', "python", "block"),
        ("def f(▮):", "python", "block"),
        ("x = ▮", "python", "line"),
        ("def f(▮x):", "python", "line"),
        ("    ▮return", "python", "line"),
        ("int f() {▮}", "c", "block"),
        ("int f() {▮", "c", "block"),
        ("int x = ▮;", "c", "line"),
        ("Some text ▮", "markdown", "line"),
        ("Some text\n▮", "markdown", "lines"),
        ("def f():\r\n    ▮\r\n", "python", "lines"),
        ('def f():\n    """▮\n', "python", "string"),
        ('def f():\n    """▮"""\n', "python", "string"),
        ('def f():\n    r"""▮"\n', "python", "string"),
        ('def f():\n    """A.▮\n', "python", "line"),
        ('def f():\n    """A."""▮\n', "python", "line"),
        ('def f():\n    """\n    ▮\n', "python", "lines"),
        ('x = "▮\n', "python", "line"),
        ('x = """▮ + y\n', "python", "line"),
        ("const x = `▮`;\n", "typescript", "string"),
        ("/**▮\nf();\n", "typescript", "string"),
        ("/** ▮ */\nf();\n", "typescript", "string"),
        ("/*▮*/ f();\n", "c", "line"),
        ("// ▮\nf();\n", "c", "line"),
        ("--[[▮]]\n", "lua", "string"),
        ("/// ▮\nfn f() {}\n", "rust", "line"),
    ],
)
def test_auto(rules_at, document, language, extent):
    assert rules_at(document, language).extent == extent


@pytest.mark.parametrize(
    ("wanted", "extent", "max_lines"),
    [
        ({}, "block", 20),
        ({"multiline": "never"}, "line", 1),
        ({"multiline": "always"}, "block", 20),
        ({"max_lines": 5}, "block", 5),
        ({"of_request": {"max_lines": 3}, "max_lines": 5}, "block", 3),
        ({"of_request": {"max_lines": 0}, "max_lines": 5}, "block", 5),  # a wrong value is left out
        ({"of_request": {"multiline": "never"}}, "line", 1),
        ({"of_request": {"multiline": "always"}, "multiline": "never"}, "block", 20),
        ({"of_request": {"multiline": "never"}, "multiline": "always"}, "line", 1),
    ],
)
def test_settings_and_request(rules_at, wanted, extent, max_lines):
    rules = rules_at("def f():▮\n", **wanted)
    assert (rules.extent, rules.max_lines) == (extent, max_lines)


def test_always_takes_several_lines_in_the_middle_of_one(rules_at):
    assert rules_at("x = ▮ + y\n", multiline="always").extent == "lines"


@pytest.mark.parametrize(
    ("multiline", "extent"), [("auto", "string"), ("always", "string"), ("never", "line")]
)
def test_a_docstring_has_several_lines_if_the_setting_allows(rules_at, multiline, extent):
    assert rules_at('def f():\n    """▮\n', multiline=multiline).extent == extent


def test_what_stands_around_the_cursor(rules_at):
    rules = rules_at("a\r\n\tif x:\r\n\t\ty = ▮)  \r\n\r\n\t\tz  \r\n\tw\r\n")
    assert rules == StopRules(
        extent="line",
        max_lines=1,
        language_id="python",
        line_before="\t\ty = ",
        line_after=")  ",
        next_lines=("\t\tz", "\tw"),
        code_before="a\n\tif x:\n\t\ty = ",
        code_after="\n\n\t\tz  \n\tw\n",
        newline="\r\n",
        state_before=CodeState(),
    )


def test_huge_lines_are_looked_at_in_part(rules_at):
    rules = rules_at("x" * 100_000 + "▮" + "y" * 100_000 + "\nnext\n")
    assert len(rules.line_before) == 4000
    assert len(rules.line_after) == 4000
    assert rules.next_lines == ()


def test_the_code_before_begins_outside_of_strings_where_it_is_cut(rules_at):
    method = (
        '    def f{0}(self) -> None:\n        """A.\n\n        More, and (again.\n        """\n\n'
    )
    methods = "".join(method.format(i) for i in range(200))
    rules = rules_at(f"class A:\n{methods}    x = ▮\n")
    assert rules.code_before.startswith("    def f")
    assert 4000 < len(rules.code_before) <= 8000
    # Nothing begins anywhere: the first whole line has to do.
    assert rules_at("  x = 1\n" * 2000 + "▮").code_before.startswith("  x = 1\n")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("n_lines", [500, 2_000, 20_000])
def test_a_long_string_is_known_where_the_code_before_begins_inside_it(rules_at, n_lines, newline):
    prose = f"    It's more, and (again.{newline}" * n_lines
    inside = rules_at(f'def f():{newline}    """A.{newline}{prose}▮{newline}    """')
    is_read = n_lines < 20_000
    assert inside.state_before.scope == ("string" if is_read else "code")
    behind = rules_at(f'def f():{newline}    """A.{newline}{prose}    """{newline}    ▮')
    assert behind.state_before.scope == ("code" if is_read else "string")


@pytest.mark.parametrize(("path", "extent"), [("a.rb", "block"), ("a.unknown", "line")])
def test_a_request_without_a_language_opens_blocks_by_its_path(path, extent):
    request = request_between("x = 1\ndef area", path=path)
    assert stop_rules(Settings(), request).extent == extent
