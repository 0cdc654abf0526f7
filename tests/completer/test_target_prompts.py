"""Typed sessions on the embedded model: what each request that reaches it evaluates."""

import ast
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

import pytest
from scripted_models import N_TOKENS, ByteVocabulary
from scripted_target import ScriptedTarget, hashing
from typed_requests import TypedWindow, document_of, request_between, typed_completer
from waiting import until

from speclsp.backends.weights import Weights
from speclsp.common_ends import common_head
from speclsp.completer.target_prompts import TargetPrompts
from speclsp.prompt.document_prompts import NO_CHUNK_SOURCE, PromptQuestion
from speclsp.prompt.families import family_for
from speclsp.prompt.prompt import FimText, PromptBudget, PromptLayout
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import Problem
from speclsp.settings import Settings

WAIT_S = 60
SOURCES = {
    name: (Path(ast.__file__).parent / f"{name}.py").read_text(encoding="utf-8")[:30_000]
    for name in ("ast", "configparser")
}
N_KEYS = 40
"""Keystrokes between two jumps."""


@pytest.fixture
def make(closed):
    def make_completer(**settings):
        completer = closed(
            typed_completer(
                Settings(
                    persist=False,
                    threads=1,
                    deadline_ms=60_000,
                    debounce_ms=0,
                    suggestion_memory=False,
                    idle_work="prompts",
                    automatic_filters=False,
                    **settings,
                )
            )
        )
        completer.start()
        assert completer.wait_idle(WAIT_S)
        return completer

    return make_completer


def ask(
    completer: TypedWindow, prefix: str, suffix: str, name: str = "ast", **fields
) -> CompletionResult:
    request = request_between(
        uri=f"file:///p/{name}.py",
        path=f"{name}.py",
        prefix=prefix,
        suffix=suffix,
        language_id="python",
        n_predict=fields.pop("n_predict", 4),
        wait_for_model=True,
        temperature=0.0,
        **fields,
    )
    return completer.complete(request, CancellationToken()).result(WAIT_S)


@dataclass
class Counts:
    """Prompt tokens evaluated by the requests that reached the model."""

    within: list[int] = field(default_factory=list)
    newlines: list[int] = field(default_factory=list)
    jumps: list[int] = field(default_factory=list)

    @property
    def all(self) -> list[int]:
        return [*self.within, *self.newlines, *self.jumps]


def type_again(completer: TypedWindow, name: str, start: int, counts: Counts) -> None:
    """Type ``N_KEYS`` keys of a file at a place where nothing follows on the line."""
    source = SOURCES[name]
    start = source.index("\n", start)
    end = source.index("\n", start + N_KEYS + 40)
    for n_typed in range(1, N_KEYS + 1):
        result = ask(completer, source[: start + n_typed], source[end:], name)
        assert completer.wait_idle(WAIT_S)
        if result.source != "model" or not result.stats.n_prompt:
            continue
        key = source[start + n_typed - 1]
        kind = counts.jumps if n_typed == 1 else counts.newlines if key == "\n" else counts.within
        kind.append(result.stats.n_prompt_evaluated)


PLACES = [("ast", 20_000), ("ast", 20_900), ("configparser", 9_000), ("ast", 27_000)]


@pytest.mark.slow
def test_a_keystroke_evaluates_what_was_typed(make):
    completer = make()
    counts = Counts()
    for name, start in PLACES:
        type_again(completer, name, start, counts)
    assert len(counts.all) > 100
    assert len(counts.jumps) == len(PLACES)
    assert median(counts.within) <= 2
    assert max(counts.within) <= 12
    assert mean(counts.newlines or [0]) <= 4
    assert mean(counts.all) <= 12
    # Idle work is counted apart: each place was laid out to the full once.
    stats = completer.statistics()
    assert stats.totals.n_prompt_evaluated == sum(counts.all)
    assert stats.n_idle_evaluated > 1_000


@pytest.mark.slow
def test_the_plain_layout_evaluates_the_suffix_again_and_again(make):
    completer = make(fim_layout="plain")
    counts = Counts()
    type_again(completer, "ast", 20_000, counts)
    assert mean(counts.all) > 20
    assert completer.statistics().n_idle_evaluated == 0


@pytest.mark.slow
def test_what_comes_back_gives_the_text_of_a_fresh_model(make):
    texts = {name: (SOURCES[name][:9_000], "\n" + SOURCES[name][9_000:]) for name in SOURCES}
    completer = make(n_context=0)  # nothing of the other file, which is open too
    for _ in range(2):
        back = {
            name: ask(completer, *text, name, n_predict=16, origin="program")
            for name, text in texts.items()
        }
    assert all(result.stats.n_prompt_evaluated <= 2 for result in back.values())
    for name, text in texts.items():
        fresh = ask(make(n_context=0), *text, name, n_predict=16, origin="program")
        assert fresh.stats.n_prompt_evaluated > 400
        assert fresh.stats.n_prompt == back[name].stats.n_prompt
        assert fresh.generated.text == back[name].generated.text


def test_kv_state_survives_the_index_and_settings(make, tmp_path):
    completer = make()
    (tmp_path / "other.py").write_text("x = 1\n" * 50)
    prefix, suffix = SOURCES["ast"][:9_000], "\n" + SOURCES["ast"][9_000:]
    ask(completer, prefix, suffix)
    assert completer.wait_idle(WAIT_S)
    completer.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    completer.reindex()
    completer.open_document(
        document_of("y = 2\n", uri="file:///p/b.py", path="b.py", language_id="python")
    )
    completer.apply_settings(
        Settings(persist=False, threads=1, debounce_ms=0, suggestion_memory=False, mode="chain")
    )
    assert completer.wait_idle(WAIT_S)
    assert ask(completer, prefix, suffix).stats.n_prompt_evaluated <= 2


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [1, 2, 4, 8]),
        ({"batch_size": 4}, [1, 2, 4]),
        ({"mode": "tree"}, []),
        ({"speculation": False}, []),
    ],
)
def test_passes_of_a_few_tokens_are_timed_in_idle_time_where_drafts_depend_on_it(
    make, options, sizes
):
    completer = make(**options)
    prefix, suffix = SOURCES["ast"][:400], "\n" + SOURCES["ast"][400:600]
    ask(completer, prefix, suffix, n_predict=1)
    assert completer.wait_idle(WAIT_S)
    # Across a socket the statistics come a moment later.
    until(lambda: [size for size, _ms in completer.statistics().verify_ms] == sizes, within_s=20)
    events = iter(lambda: completer.next_event(0.01), None)
    assert not [event for event in events if isinstance(event, Problem)]
    # The KV cache holds what it held.
    assert ask(completer, prefix, suffix).stats.n_prompt_evaluated <= 1


class Counting(ScriptedTarget):
    """A target of small batches; somebody comes in the decode ``n_until``."""

    def __init__(self) -> None:
        super().__init__(hashing(N_TOKENS), N_TOKENS, n_ubatch=32)
        self.n_until = 0

    def decode(self, tokens, n_logits):
        self.n_until -= 1
        self.ns_native += 1_000 * len(tokens)
        return super().decode(tokens, n_logits)

    def came(self) -> bool:
        return self.n_until <= 0


def question(prefix: str, suffix: str) -> PromptQuestion:
    vocabulary = ByteVocabulary()
    return PromptQuestion(
        uri="a",
        layout=PromptLayout(
            family=family_for(vocabulary, ""), vocabulary=vocabulary, layout="anchored"
        ),
        text=FimText(repo_name="p", path="a.py", prefix=prefix, suffix=suffix),
        budget=PromptBudget(n_prompt=1_000),
        n_first=350,
        chunks=NO_CHUNK_SOURCE,
    )


def evaluate(prompts: TargetPrompts, target: Counting, asked: PromptQuestion) -> int:
    tokens = prompts.prompt(asked).tokens
    n_cached = common_head(target.cached, tokens)
    target.truncate(n_cached)
    if n_cached < len(tokens):
        ScriptedTarget.decode(target, tokens[n_cached:], 1)
    return len(tokens) - n_cached


def test_idle_work_ends_with_the_decode_in_which_somebody_comes_and_goes_on_later():
    target = Counting()
    prompts = TargetPrompts(target, 1 << 20)
    prefix, suffix = SOURCES["ast"][:9_000], "\n" + SOURCES["ast"][9_000:]
    assert 200 < evaluate(prompts, target, question(prefix, suffix)) <= 350
    assert prompts.has_plan()
    for n_decodes in (3, 5, 40):
        target.n_until = n_decodes
        is_done = prompts.settle(target.came)
        assert target.n_until >= 0
        if not is_done:
            # Who came finds what there was, and one more character evaluates little.
            prefix += "x"
            assert evaluate(prompts, target, question(prefix, suffix)) <= 2
    assert is_done
    # What was evaluated before an interruption was not evaluated again.
    assert prompts.n_idle_evaluated < 1_000
    assert not prompts.has_plan()
    assert evaluate(prompts, target, question(prefix + "y", suffix)) <= 2


def test_who_comes_waits_for_one_timed_pass_at_most():
    target = Counting()
    target.decode(list(range(20)), 1)
    weights = Weights(target=target, draft=None, description="")
    n_left = len(weights.pass_cost.untimed())
    for n_passes in (1, 5):
        target.n_until = n_passes
        assert not weights.settle(Settings(), target.came)
        n_left -= n_passes
        assert len(weights.pass_cost.untimed()) == n_left
        assert target.n_until == 0
        assert target.cached == list(range(20))
    target.n_until = n_left + 1
    assert weights.settle(Settings(), target.came)
    assert not weights.pass_cost.untimed()
