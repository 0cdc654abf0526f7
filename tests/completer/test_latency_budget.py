"""What a slow model suggests while somebody types ends with a line when the budget is spent."""

import pytest
from scripted_models import ScriptedLoader
from typed_requests import TypedWindow, request_between, typed_completer

from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.settings import Settings

WAIT_S = 60
WHOLE = "a = 1\n    b = 2\n    c = 3\n    return a"
BEFORE = "def f():\n    "


@pytest.fixture
def make(closed):
    """Completers whose clock advances by one second with every look at it."""

    def make_completer(text=WHOLE, **settings):
        looks = iter(range(1_000_000))
        given = {"min_probability": 0.0, "debounce_ms": 0, "persist": False} | settings
        completer = closed(
            typed_completer(
                Settings(deadline_ms=10**9, **given),
                loader=ScriptedLoader(text),
                clock=lambda: float(next(looks)),
            )
        )
        completer.start()
        assert completer.wait_idle(WAIT_S)
        return completer

    return make_completer


def ask(completer: TypedWindow, before: str = BEFORE, **fields) -> CompletionResult:
    request = request_between(
        uri="file:///p/f.py",
        path="f.py",
        prefix=before,
        suffix="\n",
        language_id="python",
        wait_for_model=True,
        temperature=0.0,
        **fields,
    )
    return completer.complete(request, CancellationToken()).result(WAIT_S)


@pytest.mark.parametrize("speculation", [True, False])
def test_the_text_ends_with_a_line(make, speculation):
    result = ask(make(t_max_predict_ms=1, speculation=speculation))
    assert (result.generated.text, result.generated.finish_reason) == ("a = 1", "deadline")
    # The line's beginning is said again, and the line end is the last token.
    assert result.stats.n_predicted == len("    a = 1\n")


def test_blank_lines_at_the_beginning_are_no_text_to_end_with(make):
    completer = make("\n    a = 1\n    b = 2", t_max_predict_ms=1)
    assert ask(completer, "def f():").generated.text == "\n    a = 1"


@pytest.mark.parametrize(
    ("t_max_predict_ms", "fields"),
    [(0, {}), (1, {"trigger": "invoked"}), (1, {"origin": "program"})],
    ids=["no budget", "asked for by hand", "outside a session"],
)
def test_the_whole_text_comes(make, t_max_predict_ms, fields):
    result = ask(make(t_max_predict_ms=t_max_predict_ms), **fields)
    assert (result.generated.text, result.generated.finish_reason) == (WHOLE, "stop")


def test_who_asks_by_hand_is_not_given_the_beginning_that_is_known(make):
    completer = make(t_max_predict_ms=1)
    assert ask(completer).generated.text == "a = 1"
    again = ask(completer)
    assert (again.generated.text, again.source) == ("a = 1", "memory")
    assert ask(completer, trigger="invoked").generated.text == WHOLE
