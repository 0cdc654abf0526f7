"""What the engine's side gets to see of a buffer."""

from __future__ import annotations

import dataclasses

import pytest

from speclsp.completer.private_text import PrivateText, cut_before_secrets, may_be_learned
from speclsp.masking.masked_text import PLACEHOLDER
from speclsp.request import (
    Alternative,
    CompletionRequest,
    CompletionResult,
    Document,
    RequestStats,
)
from speclsp.settings import Settings

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


@pytest.mark.parametrize("is_open", [True, False])
def test_a_request_is_masked_on_both_sides_but_not_on_its_line(is_open: bool) -> None:
    texts = private()
    prefix, suffix = f"{SECRET}x = f(", f")\n{SECRET}"
    if is_open:
        assert texts.document(document(prefix + suffix)).text == f"{MASKED}x = f()\n{MASKED}"
    asked = texts.request(request(prefix, suffix))
    assert asked is not None
    assert (asked.prefix, asked.suffix) == (f"{MASKED}x = f(", f")\n{MASKED}")


def test_nothing_is_asked_on_the_line_of_a_secret() -> None:
    texts = private()
    assert texts.request(request('x = 1\npassword = "hun', 'ter22"\n')) is None
    assert texts.request(request(f"{SECRET}", "\n")) is not None


@pytest.mark.parametrize(
    ("path", "file"), [(".env", "/p/.env"), ("id_rsa", "/p/id_rsa"), ("b.py", "/p/ignored.py")]
)
def test_a_private_file_has_no_text_and_no_completions(path: str, file: str) -> None:
    texts = private(ignored="/p/ignored.py")
    assert texts.document(document("x = 1\n", path, file)).text == ""
    assert texts.request(request("x = ", "\n", path, file)) is None


def test_switched_off_everything_passes() -> None:
    texts = private(dataclasses.replace(Settings(), mask_secrets=False), ignored="/p/a.py")
    asked = request(SECRET, "")
    assert texts.request(asked) is asked
    assert texts.document(document(SECRET)).text == SECRET


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
    cut = cut_before_secrets(request("f(", ")\n"), result)
    assert (cut.text, cut.n_replaced) == ("a)\n", 0)
    assert [(a.text, a.n_replaced) for a in cut.alternatives] == [("b)", 1), ("c\n", 0)]
    harmless = dataclasses.replace(result, text="a)", alternatives=())
    assert cut_before_secrets(request("f(", ")\n"), harmless) == harmless


def test_what_holds_a_secret_is_not_learned() -> None:
    assert may_be_learned(Settings(), "x = ", "f(1)", "a.py")
    assert not may_be_learned(Settings(), "password = ", '"hunter22"', "a.py")
    assert not may_be_learned(Settings(), MASKED, "f(1)", "a.py")
