"""Alternatives: distinct, ranked, behind one prefill, and beside a first text that stays."""

import math
from collections.abc import Callable, Sequence
from unittest.mock import Mock

import pytest
from scripted_models import END, N_TOKENS, ScriptedLoader
from typed_requests import TypedWindow, request_between, typed_completer
from waiting import until

from speclsp.errors import DecodeError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.settings import Settings

WAIT_S = 60
PLACES = {
    "behind a word's beginning": "class Cart:\n    def __init__(self):\n        self.items = []\n\n"
    "    def add(self, item):\n        ret",
    "on a blank line": "def total(items):\n    result = 0\n    for item in items:\n        ",
    "behind a dot": "def f(x):\n    return x.",
    "at the start of a line": "import os\n\n\n",
}


def completing(completer: TypedWindow, prefix: str, **fields: object) -> CompletionResult:
    request = request_between(
        uri="headless:a.py",
        prefix=prefix,
        language_id="python",
        trigger="invoked",
        origin="program",
        wait_for_model=True,
        deadline_ms=60_000,
        **fields,
    )
    try:
        return completer.complete(request, CancellationToken()).result(WAIT_S)
    finally:
        completer.close_document(request.uri)  # what is typed next is no edit of it


@pytest.fixture(scope="module")
def real():
    completer = typed_completer(Settings(threads=1, persist=False))
    completer.start()
    yield completer
    completer.close()


def sense(text: str) -> str:
    return "".join(text.split())


@pytest.mark.real
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("place", PLACES)
def test_candidates_of_the_real_model(place, temperature, real):
    def complete(n_candidates):
        # A prompt that nothing of is known: its first line is this test's own.
        prefix = f"# {place} {temperature} {n_candidates > 1}\n{PLACES[place]}"
        return completing(
            real, prefix, n_candidates=n_candidates, temperature=temperature, seed=3, n_predict=40
        )

    several, again, one = complete(3), complete(3), completing(
        real,
        f"# {place} {temperature} True\n{PLACES[place]}",
        temperature=temperature,
        seed=3,
        n_predict=40,
    )  # fmt: skip
    # What one request gives is the first text, whatever stands beside it.
    assert (several.generated.text, several.generated.finish_reason) == (
        one.generated.text,
        one.generated.finish_reason,
    )
    assert several.generated.mean_logprob == pytest.approx(one.generated.mean_logprob, abs=0.01)
    # The prompt was evaluated once.
    stats = several.stats
    n_known = stats.n_prompt - stats.n_prompt_evaluated
    assert n_known < 40
    assert 0 < stats.n_predicted == one.stats.n_predicted
    texts = [several.generated.text, *(other.text for other in several.alternatives)]
    assert len(texts) == 3
    assert len({sense(text) for text in texts}) == 3
    assert all(texts[1:])
    means = [other.mean_logprob for other in several.alternatives]
    assert means == sorted(means, key=lambda mean: -(mean or 0.0))
    assert all(mean is not None and mean < 0.0 for mean in means)
    assert (
        len({several.generated.completion_id, *(o.completion_id for o in several.alternatives)})
        == 3
    )
    assert [other.text for other in again.alternatives] == texts[1:]


@pytest.mark.real
def test_mean_logprob_is_that_of_the_text_whatever_is_drafted(real, closed):
    plain = closed(typed_completer(Settings(threads=1, persist=False, speculation=False)))
    plain.start()
    for prefix in PLACES.values():
        drafted, alone = completing(real, prefix), completing(plain, prefix)
        assert drafted.generated.text == alone.generated.text
        assert drafted.generated.mean_logprob == pytest.approx(
            alone.generated.mean_logprob, abs=0.01
        )


# --- a scripted model -----------------------------------------------------------------------------


def choosing(choices: dict[str, dict[str, float]]) -> Callable[[Sequence[int]], list[float]]:
    """Predict by what was said on the line: probabilities of the next characters.

    "" ends the text, and so does all that is not named.
    """

    def predict(cached: Sequence[int]) -> list[float]:
        middle = len(cached) - 1 - list(reversed(cached)).index(258)
        said = bytes(cached[middle + 1 :]).decode().rpartition("\n")[2]
        logits = [-30.0] * N_TOKENS
        for character, probability in choices.get(said, {"": 1.0}).items():
            logits[ord(character) if character else END] = math.log(probability)
        return logits

    return predict


TREE = {
    "": {"a": 0.5, "b": 0.3, "c": 0.15, "": 0.05},
    "a": {"x": 0.9, "y": 0.1},
    "ax": {"1": 0.6, "2": 0.4},
    "b": {" ": 0.5, "1": 0.5},
    "b ": {"1": 1.0},
    "c": {"1": 1.0},
}


@pytest.fixture
def scripted(closed):
    def make(choices, **sizes):
        loader = ScriptedLoader(**sizes)
        settings = Settings(persist=False, index_project=False, speculation=False)
        completer = closed(typed_completer(settings, loader=loader))
        completer.start()
        until(lambda: completer.state() == "ready")
        loader.target._predict = choosing(choices)
        return completer, loader.target

    return make


@pytest.mark.parametrize(
    ("n_candidates", "expected"),
    [
        (1, {}),
        # Worth most: b at the start, 0.3 of all; then 2 for 1, 0.4 of one token of three.
        (2, {"b 1": (0.3 * 0.5 * 1.0) ** (1 / 3)}),
        (4, {
            "ax2": (0.5 * 0.9 * 0.4) ** (1 / 3),
            "b 1": (0.3 * 0.5 * 1.0) ** (1 / 3),
            "c1": 0.15**0.5,
        }),
    ],
)  # fmt: skip
def test_texts_part_where_the_model_was_least_sure(n_candidates, expected, scripted):
    completer, _ = scripted(TREE)
    result = completing(completer, "x = 1\n", n_candidates=n_candidates)
    assert result.generated.text == "ax1"
    assert result.generated.mean_logprob == pytest.approx(
        math.log((0.5 * 0.9 * 0.6) ** (1 / 3)), abs=1e-4
    )
    found = {o.text: math.exp(o.mean_logprob or 0.0) for o in result.alternatives}
    assert found == {text: pytest.approx(mean, abs=1e-4) for text, mean in expected.items()}
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_each_token_is_evaluated_once(scripted):
    completer, target = scripted(TREE)
    completing(completer, "x = 0\n")
    n_before = target.n_tokens_evaluated
    stats = completing(completer, "y = 1\n", n_candidates=3).stats
    # The first text's tokens, but for the end token, are evaluated beside the prompt's, and so are
    # those of the alternatives from the one on by which they part.
    n_of_alternatives = len("b 1") + len("2")
    n_evaluated = target.n_tokens_evaluated - n_before
    assert n_evaluated == stats.n_prompt_evaluated + len("ax1") + n_of_alternatives


def test_a_text_that_says_the_same_gives_way_to_another(scripted):
    choices = {
        "": {"a": 0.6, " ": 0.3, "z": 0.1},
        " ": {"a": 1.0},
        "a": {"b": 1.0},
        " a": {"b": 1.0},
    }
    completer, _ = scripted(choices)
    result = completing(completer, "x = 1\n", n_candidates=2)
    assert result.generated.text == "ab"
    assert [other.text for other in result.alternatives] == ["z"]


def test_nothing_to_say_has_alternatives(scripted):
    completer, _ = scripted({"": {"": 0.6, "a": 0.3, "b": 0.1}})
    result = completing(completer, "x = 1\n", n_candidates=3)
    assert result.generated.text == ""
    assert [other.text for other in result.alternatives] == ["a", "b"]


def test_alternatives_keep_to_what_was_typed(scripted):
    # The byte vocabulary holds back blanks alone, which all texts say again.
    choices = {"": {" ": 0.1, "q": 0.9}, " ": {" ": 0.2, "q": 0.8}, "  ": {"a": 0.6, "b": 0.4}}
    completer, _ = scripted(choices)
    result = completing(completer, "if x:\n  ", n_candidates=4)
    assert result.generated.text == "a"
    assert [other.text for other in result.alternatives] == ["b"]
    assert result.generated.mean_logprob == pytest.approx(math.log(0.6), abs=1e-4)


def test_a_target_without_branches_has_no_alternatives(scripted):
    completer, _ = scripted(TREE, n_branches=1)
    result = completing(completer, "x = 1\n", n_candidates=4)
    assert (result.generated.text, result.alternatives) == ("ax1", ())


def test_alternatives_that_fail_leave_the_first_text(scripted):
    completer, target = scripted(TREE)
    target.decode_forks = Mock(side_effect=DecodeError("no more"))
    result = completing(completer, "x = 1\n", n_candidates=4)
    assert (result.generated.text, result.alternatives) == ("ax1", ())
    assert completer.statistics().n_failed == 0
