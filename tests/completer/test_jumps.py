"""What the first request at another place in a file evaluates."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_models import N_TOKENS, GatedTarget, ScriptedLoader
from typed_requests import TypedWindow, request_between, typed_completer

from speclsp.backends.draft_model import DraftModelDrafter
from speclsp.completer import completion_job
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.settings import Settings

WAIT_S = 60
SOURCE = Path(ast.__file__).read_text(encoding="utf-8")[:30_000]
PLACES = [SOURCE.index("\n", place) for place in (8_000, 20_000, 14_000)]


@pytest.fixture
def make(closed):
    def make_completer(loader=None, **settings):
        loader = loader or ScriptedLoader("value = 1")
        completer = closed(typed_completer(typed(**settings), loader=loader))
        completer.start()
        assert completer.wait_idle(WAIT_S)
        return completer

    return make_completer


def typed(**settings) -> Settings:
    """Settings with which every request reaches the model."""
    return Settings(
        persist=False,
        deadline_ms=60_000,
        debounce_ms=0,
        suggestion_memory=False,
        idle_work="prompts",
        automatic_filters=False,
        min_probability=0.0,
        **settings,
    )


def ask(completer: TypedWindow, place: int, **fields) -> CompletionResult:
    request = request_between(
        uri="file:///p/ast.py",
        path="ast.py",
        prefix=SOURCE[:place],
        suffix=SOURCE[place:],
        language_id="python",
        n_predict=4,
        wait_for_model=True,
        temperature=0.0,
        **fields,
    )
    result = completer.complete(request, CancellationToken()).result(WAIT_S)
    assert completer.wait_idle(WAIT_S)
    return result


def jumps(completer: TypedWindow) -> list[int]:
    """Ask at one place after the other; returns what each evaluated."""
    return [ask(completer, place).stats.n_prompt_evaluated for place in PLACES]


@pytest.mark.slow
@pytest.mark.parametrize("speculation", [True, False])
def test_a_jump_evaluates_no_more_than_the_constant_says(make, speculation, monkeypatch):
    assert all(96 < n <= 192 for n in jumps(make(speculation=speculation)))
    monkeypatch.setattr(completion_job, "N_JUMP", 400)
    assert all(256 < n <= 400 for n in jumps(make(speculation=speculation)))


def test_the_rest_is_laid_out_in_the_next_pause(make):
    completer = make()
    short = ask(completer, PLACES[0])
    settled = ask(completer, PLACES[0])
    assert short.stats.n_prompt <= 192
    assert settled.stats.n_prompt > 1_200
    assert settled.stats.n_prompt_evaluated <= 2


def test_who_asks_by_hand_or_without_a_session_gets_the_whole_at_once(make):
    completer = make()
    for place, fields in zip(PLACES, [{"trigger": "invoked"}, {"origin": "program"}], strict=False):
        assert ask(completer, place, **fields).stats.n_prompt_evaluated > 1_200


class PairLoader(ScriptedLoader):
    """Loads a draft model beside the target, whose passes take far longer than the target's."""

    def weights(self, *arguments, **options):
        weights = super().weights(*arguments, **options)
        model = GatedTarget(lambda _cached: [0.0] * N_TOKENS)

        def take_a_second():
            model.ns_native += 1_000_000_000

        model.before_decode = take_a_second
        drafter = DraftModelDrafter(model, n_max=3, n_min=0, p_min=0.0, n_target_vocab=N_TOKENS)
        return replace(weights, draft=drafter)


@pytest.mark.parametrize("mode", ["auto", "first"])
@pytest.mark.parametrize("speculation", [True, False])
def test_the_draft_model_reads_the_prompt_in_idle_time(make, mode, speculation):
    completer = make(loader=PairLoader("value = 1"), mode=mode, speculation=speculation)
    ask(completer, PLACES[0])
    weights = completer.completer._engine.models.weights
    read, whole = list(weights.draft.model.cached), list(weights.target.cached)
    if not speculation:
        assert read == []
    elif mode == "first":
        assert read == whole
    else:
        # Its passes take longer than the target's, so that it reads what its times need.
        assert read == whole[: len(read)]
        assert 0 < len(read) < len(whole)
        assert ask(completer, PLACES[1]).stats.drafters["draft"].n_draft_calls == 0
