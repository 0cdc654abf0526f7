"""Texts for programs, on the real embedded model."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import scripted_models
from scripted_models import N_TOKENS, ScriptedLoader
from typed_requests import document_of

from speclsp.completer.edit_prompts import edit_tokens, prompt_regions
from speclsp.completer.engine import Engine
from speclsp.completer.engine_thread import MAX_FAILURES
from speclsp.completer.jobs import Workbench
from speclsp.completer.local import LocalCompleter
from speclsp.edits.formats import FORMATS, EditSource
from speclsp.errors import RequestError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.events import TextGrew
from speclsp.seam.text import TextRequest, TextResult
from speclsp.settings import Settings

WAIT_S = 120
BODY = "    total = 0\n    for item in items:\n        total += item.price\n    return total\n"
CODE = "".join(f"def add_{name}(items):\n{BODY}\n\n" for name in ("shirts", "shoes", "hats"))


@pytest.fixture
def settings():
    return Settings(persist=False, index_project=False, threads=1, mode="tree")


class Program:
    """A program's window."""

    def __init__(self, settings: Settings, engine: Engine | None = None) -> None:
        self.completer = LocalCompleter(settings, engine=engine)
        self.completer.start()
        self.version = 0

    def ask(
        self, prefix: str = "", suffix: str = "", temperature: float = 0.0, **fields: object
    ) -> TextResult:
        self.version += 1
        self.completer.open_document(
            document_of(prefix + suffix, uri="d", path="", version=self.version)
        )
        request = TextRequest(
            uri="d",
            version=self.version,
            offset=len(prefix),
            wait_for_model=True,
            settings={"temperature": temperature, "deadline_ms": 3_600_000},
            **fields,  # type: ignore[arg-type]
        )
        return self.completer.submit(request, CancellationToken()).result(WAIT_S)

    def of_bench(self, look: Callable[[Workbench], Any]) -> Any:
        thread = self.completer._engine.thread
        return thread.with_models(self.completer, lambda bench, _: look(bench)).result(WAIT_S)

    def close(self) -> None:
        self.completer.close()


@pytest.fixture
def make(closed, settings):
    return lambda engine=None, **changes: closed(
        Program(dataclasses.replace(settings, **changes), engine)
    )


@pytest.fixture
def program(make):
    return make()


def tokens(program: Program, text: str) -> tuple[int, ...]:
    program.ask("x", n_predict=1)
    found = program.of_bench(lambda bench: bench.tokenizer.vocabulary.tokenize(text))
    return tuple(found.tolist())


def test_a_raw_prompt_is_continued_as_it_is(program):
    prompt = tokens(program, CODE + "def add_socks(items):\n")
    result = program.ask(prompt=prompt, n_predict=12)
    assert result.prompt == prompt
    assert (len(result.tokens), result.stopped_by) == (12, "limit")
    again = program.ask(prompt=prompt, n_predict=12)
    assert (again.text, again.stats.n_prompt_evaluated) == (result.text, 1)


def test_drafts_leave_the_text_as_it_is_and_save_passes(make):
    drafted, plain = (
        make(speculation=is_speculating).ask(f"{CODE}def add_socks(items):\n", "\n\n", n_predict=48)
        for is_speculating in (True, False)
    )
    assert (drafted.text, drafted.tokens) == (plain.text, plain.tokens)
    assert drafted.text
    assert drafted.stats.n_target_passes < plain.stats.n_target_passes


def test_a_stop_string_and_zero_tokens(program):
    whole = program.ask(CODE + "def add_socks(items):\n", n_predict=24)
    word = whole.text.split()[1]
    cut = program.ask(CODE + "def add_socks(items):\n", n_predict=24, stops=(word,))
    assert cut.text == whole.text.partition(word)[0]
    assert (cut.stopped_by, cut.stopping_word) == ("word", word)
    assert len(program.ask(CODE, n_predict=0).tokens) == 1


def test_the_scores_are_of_the_tokens(program):
    result = program.ask(CODE + "def add_socks(items):\n", n_predict=4, n_probs=2)
    assert [score.token for score in result.scores] == list(result.tokens)
    for score in result.scores:
        assert len(score.best) == 2
        assert score.best[0] == (score.token, score.logprob)
        assert score.best[0][1] >= score.best[1][1]


def test_context_of_other_files_is_shown(program):
    extra = (("shop/tax.py", "TAX_RATE_OF_THE_SHOP = 19\n"),)
    result = program.ask("rate = ", extra=extra, n_predict=2)
    vocabulary = program.of_bench(lambda bench: bench.tokenizer.vocabulary)
    prompt = b"".join(map(vocabulary.piece, result.prompt)).decode()
    assert "TAX_RATE_OF_THE_SHOP" in prompt


@pytest.mark.parametrize(
    ("prompt", "message"),
    [((10**6,), "invalid tokens"), ((5,) * 5000, "exceeds the available context size")],
)
def test_prompts_that_cannot_be_continued_load_no_models_anew(
    prompt, message, settings, closed, make
):
    """The models are the editors', too."""
    loader = ScriptedLoader()
    program = make(closed(Engine(settings, loader=loader)))
    for _ in range(2 * MAX_FAILURES):
        with pytest.raises(RequestError, match=message):
            program.ask(prompt=prompt)
    assert program.ask("x = ", n_predict=1).tokens
    assert len(loader.targets) == 1


def test_other_windows_do_not_draft_from_a_programs_texts(settings, closed, make):
    engine = closed(Engine(settings))
    engine.start()
    first, second = make(engine), make(engine)
    first.ask(CODE + "def add_socks(items):\n", n_predict=24)
    served = engine.models._target
    known = {window: len(texts) for window, texts in served.generated.items()}
    assert known.get(second.completer.tokens, 0) == 0
    assert known[first.completer.tokens] == 1
    request = CompletionRequest(uri="d", version=1, offset=0, wait_for_model=True)
    second.completer.open_document(document_of("x", uri="d", path=""))
    second.completer.submit(request, CancellationToken()).result(WAIT_S)


def test_a_text_that_gives_way_to_an_editor_goes_on_as_it_began(
    settings, closed, make, monkeypatch
):
    """It runs again, and what was told of it stays."""
    letters = [0.0 if 97 <= token < 123 else -50.0 for token in range(N_TOKENS)]
    monkeypatch.setattr(scripted_models, "answering", lambda _text: lambda _cached: letters)
    loader = ScriptedLoader()
    engine = closed(Engine(dataclasses.replace(settings, speculation=False), loader=loader))
    program, editor = make(engine, speculation=False), make(engine)
    editor.completer.open_document(document_of("x", uri="e", path=""))
    typed = CompletionRequest(uri="e", version=1, offset=1)
    told: list[TextGrew] = []
    n_before = []

    def take_events() -> None:
        while (event := program.completer.next_event(0)) is not None:
            told.extend([event] if isinstance(event, TextGrew) else [])

    def type_once() -> None:
        take_events()
        if len(told) >= 3 and not n_before:
            n_before.append(len(told))
            editor.completer.submit(typed, CancellationToken())

    program.ask("x", n_predict=1)
    loader.target.before_decode = type_once
    result = program.ask(prompt=(97, 98), n_predict=20, is_streamed=True, temperature=0.8)
    take_events()
    assert len(told) > n_before[0] >= 3
    assert [part.text for part in told] == [
        result.text[part.start : part.start + len(part.text)] for part in told
    ]


def edit_prompt(program: Program) -> tuple[int, ...]:
    """Return a prompt of Sweep's format, whose region is found."""
    sweep = FORMATS["sweep-8"]
    text = sweep.prompt(EditSource(path="shop.py", text=CODE, cursor=40)).text
    program.ask("x", n_predict=1)  # loads the models
    vocabulary = program.of_bench(lambda bench: bench.tokenizer.vocabulary)
    found = edit_tokens(text, sweep, vocabulary)
    assert len(prompt_regions(found, vocabulary)) == 1
    return tuple(found)


def test_a_prompt_of_a_next_edit_format_is_drafted_from_its_region(make):
    """What another program laid out so is followed as our own prompts are."""
    results = []
    for is_speculating in (True, False):
        program = make(drafters="ngram-simple", speculation=is_speculating)
        results.append(program.ask(prompt=edit_prompt(program), n_predict=24))
    drafted, plain = results
    assert drafted.tokens == plain.tokens
    assert drafted.stats.drafters["region"].n_drafted > 0


PLACE = "import os\n\n\n"
"""A place where several beginnings are likely."""


@pytest.mark.parametrize("is_fitted", [False, True])
def test_the_first_of_several_texts_costs_what_it_costs_alone(is_fitted, make):
    def ask(n_texts):
        # Nothing is cached or drafted from; the trial model is sure of one word alone.
        program = make(min_probability=0.0)
        return program.ask(PLACE, n_predict=24, n_texts=n_texts, is_fitted=is_fitted)

    alone, first = ask(1), ask(3)
    assert (first.text, first.tokens) == (alone.text, alone.tokens)
    assert first.stats.n_decode_passes == alone.stats.n_decode_passes
    assert first.stats.n_prompt_evaluated == alone.stats.n_prompt_evaluated
    assert 1 <= len(first.others) <= 2
    assert alone.others == ()
    tokens = [result.tokens[0] for result in (first, *first.others)]
    assert len(set(tokens)) == len(tokens)
    if is_fitted:
        n_most = max(16, len(first.tokens))
        assert all(len(other.tokens) <= n_most for other in first.others)


def test_other_texts_are_as_the_model_alone_goes_on_from_their_first_token(program):
    prompt = tokens(program, PLACE)
    result = program.ask(prompt=prompt, n_predict=8, n_texts=3)
    assert result.others
    for other in result.others:
        alone = program.ask(prompt=(*prompt, other.tokens[0]), n_predict=7)
        assert (other.tokens[0], *alone.tokens) == other.tokens


def test_other_texts_begin_with_likely_tokens(program):
    prompt = tokens(program, PLACE)
    result = program.ask(prompt=prompt, n_predict=4, n_texts=16, n_probs=10)
    likely = {token for token, logprob in result.scores[0].best if logprob > math.log(0.1)}
    ends = program.of_bench(lambda bench: bench.tokenizer.vocabulary.end_tokens)
    assert {other.tokens[0] for other in result.others} == likely - ends - {result.tokens[0]}
    assert [len(other.scores) for other in result.others] == [4] * len(result.others)
