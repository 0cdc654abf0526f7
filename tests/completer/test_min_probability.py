"""Suggestions end where the model stops being sure."""

import math
from collections.abc import Callable, Sequence

import pytest
from scripted_models import END, N_TOKENS, ScriptedLoader
from typed_requests import TypedWindow, request_between, typed_completer
from waiting import until

from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.settings import Settings

WAIT_S = 60


def saying(text: str, probabilities: Sequence[float]) -> Callable[[Sequence[int]], list[float]]:
    """Predict ``text``, each character with its probability, then its end."""
    script = [*text.encode(), END]

    def predict(cached: Sequence[int]) -> list[float]:
        middle = len(cached) - 1 - list(reversed(cached)).index(258)
        behind = bytes(cached[middle + 1 :]).decode()
        said = next(n for n in range(len(text), -1, -1) if behind.endswith(text[:n]))
        place = min(said, len(script) - 1)
        p = probabilities[place] if place < len(probabilities) else 1.0
        logits = [math.log(max(1.0 - p, 1e-9) / N_TOKENS)] * N_TOKENS
        logits[script[place]] = math.log(p)
        return logits

    return predict


@pytest.fixture
def make(closed):
    def start(text, probabilities, **settings):
        loader = ScriptedLoader()
        values = {"index_project": False, "speculation": False, "suggestion_memory": False}
        completer = closed(typed_completer(Settings(**{**values, **settings}), loader=loader))
        completer.start()
        until(lambda: completer.state() == "ready")
        loader.target._predict = saying(text, probabilities)
        return completer

    return start


def complete(completer: TypedWindow, prefix: str = "x = 1\n", **fields: object) -> CompletionResult:
    request = request_between(prefix=prefix, language_id="python", wait_for_model=True, **fields)
    return completer.complete(request, CancellationToken()).result(WAIT_S)


UNSURE = [0.9, 0.9, 0.3]


def test_a_text_ends_where_the_model_is_unsure(make):
    completer = make("uncertain", UNSURE)
    result = complete(completer)  # inside a word: nothing is left
    assert (result.generated.text, result.is_withheld, result.generated.finish_reason) == (
        "",
        True,
        "stop",
    )
    assert result.unsure == pytest.approx(0.9 * 0.9 * 0.3, abs=0.01)
    assert result.stats.n_predicted == 3
    stats = completer.statistics()
    assert (stats.n_withheld, stats.n_empty, stats.n_completions) == (1, 1, 0)
    assert stats.why_nothing == "not sure (0.24 of 0.3)"
    # What another model would have shown is not known.
    completer.apply_settings(Settings(model="other.gguf"))
    assert completer.statistics().why_nothing == ""


def test_words_before_that_are_shown(make):
    completer = make("one two three", [0.99] * 8 + [0.3])
    result = complete(completer)
    assert (result.generated.text, result.is_withheld) == ("one two", False)
    assert result.unsure == pytest.approx(0.99**8 * 0.3, abs=0.01)
    stats = completer.statistics()
    assert (stats.n_cut, stats.n_withheld, stats.n_completions) == (1, 0, 1)
    assert stats.why_nothing == ""


def test_the_rest_of_a_cut_text_is_not_cut_again(make):
    completer = make("one two three", [0.99] * 8 + [0.3], suggestion_memory=True)
    first = complete(completer)
    rest = complete(completer, prefix="x = 1\none")
    assert (first.generated.text, rest.generated.text, rest.source) == ("one two", " two", "memory")
    assert completer.statistics().n_cut == 1


def test_whoever_asks_gets_what_is_less_sure(make):
    result = complete(make("uncertain", UNSURE), trigger="invoked")
    assert (result.generated.text, result.is_withheld) == ("uncertain", False)
    result = complete(make("uncertain", [0.9, 0.9, 0.03]), trigger="invoked")
    assert (result.generated.text, result.is_withheld) == ("", True)


def test_a_program_gets_the_whole_text_unless_it_asks_as_an_editor_does(make):
    completer = make("uncertain", [0.01])
    assert complete(completer, trigger="invoked", origin="program").generated.text == "uncertain"
    assert complete(completer, trigger="automatic", origin="program").generated.text == ""


@pytest.mark.parametrize(
    ("min_probability", "expected"), [(0.0, "uncertain"), (0.24, "uncertain"), (0.25, "")]
)
def test_the_bar_may_be_set(min_probability, expected, make):
    completer = make("uncertain", UNSURE, min_probability=min_probability)
    assert complete(completer).generated.text == expected
    overrides = {"min_probability": 0.0}
    assert complete(completer, prefix="y = 2\n", overrides=overrides).generated.text == "uncertain"


def test_the_cut_text_is_the_same_whatever_is_drafted(make):
    """The generated text stands before the cursor already, so that drafts reach beyond the cut."""
    probabilities = [0.99] * 8 + [0.3]
    plain = complete(make("one two three", probabilities), prefix="one two three\n" * 4)
    drafted = complete(
        make("one two three", probabilities, speculation=True, mode="first"),
        prefix="one two three\n" * 4,
    )
    assert drafted.generated.text == plain.generated.text == "one two"
    assert drafted.unsure == pytest.approx(plain.unsure)
    assert drafted.stats.n_accepted > 0


def test_whoever_types_through_the_cut_has_the_text_so_far_in_the_cache(make):
    """What was decoded up to the cut is not evaluated again; only the typed letters behind it."""
    completer = make("one two three", [0.99] * 8 + [0.3] + [0.99] * 4)
    cut = complete(completer)
    assert cut.generated.text == "one two"
    typed = complete(completer, prefix="x = 1\none two th", trigger="invoked")
    assert typed.generated.text == "ree"
    assert typed.stats.n_prompt_evaluated <= len(" th")
    assert typed.stats.n_prompt > len("x = 1\none two th")
