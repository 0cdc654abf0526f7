"""Texts of the model end before the first secret in them."""

from typed_requests import request_between

from speclsp.answers import GeneratedText
from speclsp.completer.completion_job import _cut_before_secrets
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.text.fitting import Fit, balanced
from speclsp.text.rules import stop_rules


def fit_at(prefix: str, suffix: str) -> Fit:
    rules = stop_rules(Settings(), request_between(prefix, suffix, language_id="python"))
    return lambda text: balanced(text, rules)


def cut(texts: list[GeneratedText], prefix: str, suffix: str) -> list[GeneratedText]:
    return _cut_before_secrets(request_between(prefix, suffix), texts, fit_at(prefix, suffix))


def test_results_are_cut_and_alternatives_that_say_no_more_are_dropped():
    texts = [
        GeneratedText(completion_id=text, text=text, n_replaced=1)
        for text in (f"a)\n{PLACEHOLDER}", "b)", f"a)\n{PLACEHOLDER}x", f"c\n{PLACEHOLDER}")
    ]
    first, *others = cut(texts, "f(", ")\n")
    assert (first.text, first.n_replaced) == ("a)", 1)
    assert [(a.text, a.n_replaced) for a in others] == [("b)", 1), ("c", 0)]
    harmless = [GeneratedText(completion_id="1", text="a)", n_replaced=1)]
    assert cut(harmless, "f(", ")\n") == harmless


def test_what_is_left_before_a_secret_leaves_no_bracket_open():
    whole = GeneratedText(completion_id="1", text=f"g()\nx = f(a or {PLACEHOLDER})")
    assert [left.text for left in cut([whole], "", "\n")] == ["g()"]
