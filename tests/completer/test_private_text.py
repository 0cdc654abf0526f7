"""What the engine's side gets to see of a buffer."""

from __future__ import annotations

import dataclasses

import pytest

from speclsp.completer.private_text import PrivateText, cut_before_secrets, may_be_learned
from speclsp.request import (
    Alternative,
    CompletionRequest,
    CompletionResult,
    Document,
    RequestStats,
)
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.text.balance import balanced
from speclsp.text.confidence import Fit
from speclsp.text.rules import stop_rules

SECRET = 'password = "hunter22"\n'
MASKED = f'password = "{PLACEHOLDER}"\n'


def private(settings: Settings | None = None, ignored: str = "") -> PrivateText:
    return PrivateText(settings or Settings(), lambda file: file == ignored)


def request(prefix: str, suffix: str, path: str = "a.py", file: str = "/p/a.py"):
    return CompletionRequest(
        uri="file:///p/a.py", path=path, repo_name="p", file=file, prefix=prefix, suffix=suffix
    )


def document(text: str, path: str = "a.py", file: str = "/p/a.py") -> Document:
    return Document(
        uri="file:///p/a.py", path=path, file=file, language_id="python", version=1, text=text
    )


def masked_text(texts: PrivateText, text: str, path: str = "a.py", file: str = "/p/a.py") -> str:
    taken = texts.document(document(text, path, file))
    assert taken is not None
    return taken.text


@pytest.mark.parametrize("is_open", [True, False])
def test_a_request_is_masked_on_both_sides_but_not_on_its_line(is_open: bool) -> None:
    texts = private()
    prefix, suffix = f"{SECRET}x = f(", f")\n{SECRET}"
    if is_open:
        assert masked_text(texts, prefix + suffix) == f"{MASKED}x = f()\n{MASKED}"
    asked = texts.request(request(prefix, suffix))
    assert isinstance(asked, CompletionRequest)
    assert (asked.prefix, asked.suffix) == (f"{MASKED}x = f(", f")\n{MASKED}")


def test_nothing_is_asked_on_the_line_of_a_secret() -> None:
    texts = private()
    assert texts.request(request('x = 1\npassword = "hun', 'ter22"\n')) == "private"
    assert isinstance(texts.request(request(f"{SECRET}", "\n")), CompletionRequest)


@pytest.mark.parametrize(
    ("path", "file"), [(".env", "/p/.env"), ("id_rsa", "/p/id_rsa"), ("b.py", "/p/ignored.py")]
)
def test_a_private_file_has_no_text_and_no_completions(path: str, file: str) -> None:
    texts = private(ignored="/p/ignored.py")
    assert masked_text(texts, "x = 1\n", path, file) == ""
    assert texts.request(request("x = ", "\n", path, file)) == "private"


def test_what_is_too_much_to_look_at_at_once_is_unknown_until_it_was_looked_through() -> None:
    texts = private()
    large = "x = 1\n" * 20_000 + SECRET
    opened, asked = document(large), request(large, "y = 1\n")
    assert texts.document(opened) is None
    assert texts.request(asked) == "unknown"
    texts.look_through(opened)
    taken = texts.document(opened)
    assert taken is not None
    assert taken.text == "x = 1\n" * 20_000 + MASKED
    passed = texts.request(asked)
    assert isinstance(passed, CompletionRequest)
    assert passed.prefix == taken.text
    assert texts.request(request("z = 3\n" * 20_000, "")) == "unknown"
    texts.look_through(request("z = 3\n" * 20_000, ""))
    assert isinstance(texts.request(request("z = 3\n" * 20_000, "")), CompletionRequest)


def test_a_text_of_very_many_secrets_is_private_as_a_whole() -> None:
    texts = private()
    dump = document("-----BEGIN PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD9\n" * 1_200)
    texts.look_through(dump)
    assert masked_text(texts, dump.text) == ""
    assert texts.request(request(dump.text, "")) == "private"


def test_switched_off_everything_passes() -> None:
    texts = private(dataclasses.replace(Settings(), mask_secrets=False), ignored="/p/a.py")
    asked = request(SECRET, "")
    assert texts.request(asked) is asked
    assert masked_text(texts, SECRET) == SECRET


def fit_at(prefix: str, suffix: str) -> Fit:
    asked = dataclasses.replace(request(prefix, suffix), language_id="python")
    rules = stop_rules(Settings(), asked)
    return lambda text: balanced(text, rules)


def test_results_are_cut_and_alternatives_that_say_no_more_are_dropped() -> None:
    def other(text: str) -> Alternative:
        return Alternative(completion_id=text, text=text, n_replaced=1)

    result = CompletionResult(
        completion_id="1",
        text=f"a)\n{PLACEHOLDER}",
        finish_reason="stop",
        stats=RequestStats(),
        n_replaced=1,
        alternatives=(other("b)"), other(f"a)\n{PLACEHOLDER}x"), other(f"c\n{PLACEHOLDER}")),
    )
    cut = cut_before_secrets(request("f(", ")\n"), result, fit_at("f(", ")\n"))
    assert (cut.text, cut.n_replaced) == ("a)", 1)
    assert [(a.text, a.n_replaced) for a in cut.alternatives] == [("b)", 1), ("c", 0)]
    harmless = dataclasses.replace(result, text="a)", alternatives=())
    assert cut_before_secrets(request("f(", ")\n"), harmless, fit_at("f(", ")\n")) == harmless


def test_what_is_left_before_a_secret_leaves_no_bracket_open() -> None:
    result = CompletionResult(
        completion_id="1",
        text=f"g()\nx = f(a or {PLACEHOLDER})",
        finish_reason="stop",
        stats=RequestStats(),
    )
    cut = cut_before_secrets(request("", "\n"), result, fit_at("", "\n"))
    assert cut.text == "g()"


def test_what_holds_a_secret_is_not_learned() -> None:
    assert may_be_learned(Settings(), "x = ", "f(1)", "a.py")
    assert not may_be_learned(Settings(), "password = ", '"hunter22"', "a.py")
    assert not may_be_learned(Settings(), MASKED, "f(1)", "a.py")
