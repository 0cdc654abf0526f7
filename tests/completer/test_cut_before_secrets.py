"""Texts of the model end before the first secret in them."""

from __future__ import annotations

import dataclasses

from typed_requests import request_between

from speclsp.completer.completion_job import _cut_before_secrets
from speclsp.request import CompletionResult, GeneratedText, RequestStats
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.text.fitting import Fit, balanced
from speclsp.text.rules import stop_rules


def fit_at(prefix: str, suffix: str) -> Fit:
    rules = stop_rules(Settings(), request_between(prefix, suffix, language_id="python"))
    return lambda text: balanced(text, rules)


def test_results_are_cut_and_alternatives_that_say_no_more_are_dropped() -> None:
    def other(text: str) -> GeneratedText:
        return GeneratedText(completion_id=text, text=text, n_replaced=1)

    result = CompletionResult(
        completion_id="1",
        text=f"a)\n{PLACEHOLDER}",
        finish_reason="stop",
        stats=RequestStats(),
        n_replaced=1,
        alternatives=(other("b)"), other(f"a)\n{PLACEHOLDER}x"), other(f"c\n{PLACEHOLDER}")),
    )
    cut = _cut_before_secrets(request_between("f(", ")\n"), result, fit_at("f(", ")\n"))
    assert (cut.text, cut.n_replaced) == ("a)", 1)
    assert [(a.text, a.n_replaced) for a in cut.alternatives] == [("b)", 1), ("c", 0)]
    harmless = dataclasses.replace(result, text="a)", alternatives=())
    assert (
        _cut_before_secrets(request_between("f(", ")\n"), harmless, fit_at("f(", ")\n")) == harmless
    )


def test_what_is_left_before_a_secret_leaves_no_bracket_open() -> None:
    result = CompletionResult(
        completion_id="1",
        text=f"g()\nx = f(a or {PLACEHOLDER})",
        finish_reason="stop",
        stats=RequestStats(),
    )
    cut = _cut_before_secrets(request_between("", "\n"), result, fit_at("", "\n"))
    assert cut.text == "g()"
