"""llama-cpp-python's own prompt lookup, with the embedded model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import llama_cpp
import pytest

from benchmarks.cases import EditCase
from benchmarks.peers.contract import PeerOptions, TokenPeerSession, host_ms_per_step
from benchmarks.peers.infill import infill_answer
from benchmarks.peers.lookup_peer import lookup_peer
from benchmarks.peers.lookup_worker import (
    N_DRAFT_ON_CPU,
    Counts,
    LookupModel,
    WorkerOptions,
)
from speclsp.embedded import embedded_target
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.errors import EngineUnavailableError

pytestmark = pytest.mark.real

CASE = EditCase(
    id="case",
    project=None,
    path="names.py",
    language_id="python",
    prefix="names = ['one', 'two', 'three', 'four', 'five']\nnames = ['one', 'two', ",
    typed="'three', 'four', 'five']\n",
    suffix="\n",
)


@pytest.fixture
def options(tmp_path: Path) -> PeerOptions:
    return PeerOptions(
        model=embedded_target(),
        draft_model=None,
        statistics_file=None,
        llama_server=None,
        n_threads=1,
        n_gpu_layers=0,
        n_context=512,
        n_predict=16,
        with_cache=True,
        one_line=False,
        folder=tmp_path,
    )


@pytest.mark.parametrize("n_gpu_layers", [0, -1])
def test_a_prompt_is_continued_and_counted_from_outside(
    options: PeerOptions, n_gpu_layers: int
) -> None:
    if n_gpu_layers and llama_cpp.llama_supports_gpu_offload():
        pytest.skip("layers on a GPU are drafted for in another way")
    options = replace(options, n_gpu_layers=n_gpu_layers)
    peer = lookup_peer()
    assert peer.why_not(options) is None
    prompt = list(range(500, 520)) * 2
    with peer.open(options) as session:
        assert isinstance(session, TokenPeerSession)
        first, again = session.complete(prompt, 16), session.complete(prompt, 16)
        assert session.resident_mib() > 20
        host_ms = session.host_ms_per_step()
    assert first.text == again.text != ""
    # The prompt says everything twice: drafts of two tokens are found in it.
    assert first.stats.n_predicted == 16
    assert 0 < first.stats.n_drafted <= N_DRAFT_ON_CPU * first.stats.n_decode_passes
    assert first.stats.n_target_passes == 16 - first.stats.n_accepted
    assert first.stats.n_prompt_evaluated == first.stats.n_prompt == 40
    assert (again.stats.n_prompt, again.stats.n_prompt_evaluated) == (40, 1)
    assert first.stats.ms_predict > first.stats.ms_decode > 0
    assert host_ms is not None
    assert host_ms > 0


class CountedLlama:
    """A model that takes no time but what its clock is told it does."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock
        self._ctx = self

    def eval(self, tokens: list[int]) -> None:
        self._clock[0] += 0.5
        self._ctx.decode(tokens)

    def decode(self, _batch: object) -> None:
        self._clock[0] += 10.0

    def sample(self) -> int:
        self._clock[0] += 1.0
        return 7


def test_choosing_the_first_token_is_a_steps_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    llama = CountedLlama(now)
    counts = Counts(llama)
    counts.begin()
    llama.eval([1, 2, 3])
    for _ in range(3):
        llama.sample()
        llama.eval([7])
    llama.sample()
    stats = infill_answer(counts.timings(3)).stats
    assert (stats.ms_prompt, stats.ms_predict, stats.ms_decode) == (10500, 35500, 30000)
    assert (stats.n_target_passes, stats.n_decode_passes) == (4, 3)
    # Four choices, three batches that were filled.
    assert host_ms_per_step(stats) == 1375


def test_a_prompt_may_be_longer_than_a_batch(options: PeerOptions) -> None:
    with lookup_peer().open(replace(options, n_context=2048)) as session:
        assert isinstance(session, TokenPeerSession)
        answer = session.complete(list(range(500, 1640)), 2)
    assert (answer.stats.n_prompt_evaluated, answer.stats.n_predicted) == (1140, 2)


def test_asked_as_an_editor_nothing_is_remembered(options: PeerOptions) -> None:
    with lookup_peer().open(options) as session:
        answers = [session.asker.ask(CASE, n) for n in (0, 1, 0)]
        session.asker.rest()
        statistics = session.asker.statistics()
    assert [answer.source for answer in answers] == ["model"] * 3
    assert (statistics.n_requests, statistics.n_memory, statistics.n_prefetches) == (3, 0, 0)
    # One more character: what stands before the line is kept.
    assert 0 < answers[1].stats.n_prompt_evaluated < answers[0].stats.n_prompt_evaluated


def test_a_text_ends_before_what_shall_stop_it(options: PeerOptions) -> None:
    text = "a = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf ="
    prompt = load_vocabulary(options.model).tokenize(text).tolist()
    given = WorkerOptions(model=str(options.model), n_threads=1, n_gpu_layers=0, n_context=512)
    model = LookupModel(given)
    request = {"prompt": prompt, "n_predict": 16, "temperature": 0.0}
    several = model.answer(request)["content"]
    assert "\n" in several.strip("\n")
    assert model.answer({**request, "stop": ["\n"]})["content"] == several.partition("\n")[0]


def test_a_model_that_cannot_be_loaded_is_told_with_the_last_words(
    options: PeerOptions, tmp_path: Path
) -> None:
    model = tmp_path / "none.gguf"
    model.write_bytes(b"no model")
    with (
        pytest.raises(EngineUnavailableError, match=r"It said last:\n(.|\n)*Error"),
        lookup_peer().open(replace(options, model=model)),
    ):
        pass
