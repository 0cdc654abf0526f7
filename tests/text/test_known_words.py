"""Words that are all but typed, and what is no end of them."""

from __future__ import annotations

import pytest

from speclsp.text.stopping import CompletionText
from speclsp.text.trim import departs_from_known_word


@pytest.mark.parametrize(
    ("document", "text", "departs"),
    [
        ("raise A\nraise B\nrais▮\n", "es C", True),
        ("raise A\nraise B\nrais▮\n", "e C", False),
        ("raises A\nraise A\nraise B\nrais▮\n", "es C", False),
        ("rais▮\nraise A\nraise B\n", "es C", True),
        # Once may be by chance, and two letters fit too much.
        ("raise A\nrais▮\n", "es C", False),
        ("raise A\nraise B\nra▮\n", "nge", False),
        # Much of the known word is missing, or the typed one is whole.
        ("raise_all(A)\nraise_all(B)\nrais▮\n", "es C", False),
        ("raise A\nraise B\nraise▮\n", "d = 1", False),
        ("raise A\nraise B\nrais▮\n", " = 1", False),
        ("local a\nlocal b\nloca▮\n", "tions: []", True),
        ("größe\ngröße\ngröß▮\n", "te", True),
    ],
)
def test_departs_from_a_known_word(rules_at, document, text, departs):
    assert departs_from_known_word(text, rules_at(document)) is departs


def test_a_healed_word_that_departs_is_withheld(byte_vocabulary, rules_at):
    rules = rules_at("raise A\nraise B\nrais▮\n")
    for generated, text in (("raises C\n", ""), ("raise C\n", "e C")):
        healed = CompletionText(byte_vocabulary(), rules, typed="rais")
        any(healed.feed(byte) for byte in generated.encode())
        assert healed.text == text
    # Where the model did not say the word again, it could not have known better.
    plain = CompletionText(byte_vocabulary(), rules)
    any(plain.feed(byte) for byte in b"es C\n")
    assert plain.text == "es C"
