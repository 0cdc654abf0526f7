import sys
import unicodedata

import pytest

from speclsp.errors import SpecLspError
from speclsp.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 😀 模型.gguf", "größe 😀 模型.gguf"),
        ("", ""),
        ("a\x1b]0;owned\x07b", "a\ufffd]0;owned\ufffdb"),
        ("two\r\nlines\tand\u2028more", "two  lines and more"),
        ("gguf\u202etxt\u200b\ufeff", "gguf\ufffdtxt\ufffd\ufffd"),
        ("\x9b31mred\x00\x7f\ud800", "\ufffd31mred\ufffd\ufffd\ufffd"),
        ("5\u00a0GB", "5 GB"),
    ],
)
def test_what_is_not_printable_is_replaced(text, shown):
    assert printable(text) == shown


def test_what_is_kept():
    assert printable("a\tb\n\x1b[1mc\r", keep="\t\n") == "a\tb\n\ufffd[1mc "


def test_no_character_at_all_controls_a_terminal():
    shown = printable("".join(map(chr, range(sys.maxunicode + 1))))
    assert len(shown) == sys.maxunicode + 1
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_every_error_of_ours_is_one_printable_line():
    error = SpecLspError("The server says \x1b[2Jno\nError: yes.", remedy="Ask \u202ewhy\x07.")
    assert str(error) == "The server says \ufffd[2Jno Error: yes. Ask \ufffdwhy\ufffd."
