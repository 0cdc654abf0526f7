"""A real llama-server as the remote engine."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from built_llama_server import WHY_NOT, built_llama_server
from llama_server_process import KEY, running_llama_server
from waiting import until

from speclsp.backends.http.engine import HttpEngine
from speclsp.backends.http.messages import RemoteParams, RemotePrompt
from speclsp.embedded import EMBEDDED, model_files
from speclsp.settings import Settings

pytestmark = [pytest.mark.real, pytest.mark.skipif(built_llama_server() is None, reason=WHY_NOT)]

PREFIX = "def add(first, second):\n    return first + second\n\n\n" * 2 + "def add(first, sec"
FIM = RemotePrompt(prefix=PREFIX, suffix="\n\nprint(add(1, 2))\n")
NAMES = ("prefix", "suffix", "middle")
LONG = "".join(f"value_{number} = {number}\n" for number in range(100))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_llama_server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def engine(address: str) -> Iterator[HttpEngine]:
    found = HttpEngine(address, key=KEY)
    found.connect()
    yield found
    found.close()


def never() -> bool:
    return False


def text_of(engine: HttpEngine, prompt: RemotePrompt, **params: object) -> str:
    given = RemoteParams(**{"n_predict": 16, **params})  # type: ignore[arg-type]
    return "".join(piece.text for piece in engine.stream(prompt, given, never, 60.0))


def metric(address: str, name: str) -> float:
    words = httpx2.get(f"{address}/metrics", headers={"Authorization": f"Bearer {KEY}"}).text
    found = re.search(rf"^llamacpp:{name} (\S+)", words, re.MULTILINE)
    return float(found[1])


def test_the_server_says_what_it_is(engine, vocabulary):
    model = engine.connect()
    assert model.kind == "llama-server"
    assert "embedded-target" in model.name
    assert (model.n_vocab, model.n_slots, model.n_ctx) == (vocabulary.n_tokens, 2, 2048)
    assert model.takes_tokens


def test_token_ids_text_and_infill_give_the_same_answer(engine, vocabulary):
    prefix, suffix, middle = (vocabulary.special(f"<|fim_{name}|>") for name in NAMES)
    before, behind = (vocabulary.tokenize(text).tolist() for text in (FIM.prefix, FIM.suffix))
    tokens = (prefix, *before, suffix, *behind, middle)
    fim = f"<|fim_prefix|>{FIM.prefix}<|fim_suffix|>{FIM.suffix}<|fim_middle|>"
    by_infill = text_of(engine, FIM)
    by_text = text_of(engine, RemotePrompt(prefix="", suffix="", text=fim))
    by_tokens = text_of(engine, RemotePrompt(prefix="", suffix="", tokens=tokens))
    assert engine.stats.n_prompt == len(tokens)
    assert by_tokens
    assert by_tokens == by_text == by_infill


def test_pieces_carry_token_ids_and_log_probabilities(engine, vocabulary):
    params = RemoteParams(n_predict=8, wants_logprobs=True)
    pieces = list(engine.stream(RemotePrompt(prefix=LONG, suffix=""), params, never, 60.0))
    assert len(pieces) == engine.stats.n_generated == 8
    for piece in pieces:
        assert b"".join(map(vocabulary.piece, piece.tokens)) == piece.text.encode()
        assert len(piece.logprobs) == 1
        assert piece.logprobs[0] <= 0.0


def test_tokens_are_those_of_the_vocabulary(engine, vocabulary):
    assert engine.tokenize(PREFIX) == vocabulary.tokenize(PREFIX).tolist()


def test_an_answer_begins_as_it_is_told(engine):
    free = text_of(engine, FIM)
    assert text_of(engine, FIM, begins_with=free[:3]) == free
    for start in ("other(", 'é"\\\n\t]'):
        assert not free.startswith(start)
        assert text_of(engine, FIM, begins_with=start).startswith(start)


def test_drafts_of_the_server_are_counted_and_change_nothing(engine, tmp_path):
    draft = model_files(Settings(spec_draft_model=EMBEDDED)).draft
    flags = ("--spec-type", "draft-simple", "--spec-draft-model", str(draft))
    with running_llama_server(tmp_path, *flags) as address:
        drafting = HttpEngine(address, key=KEY)
        prompt = RemotePrompt(prefix=LONG, suffix="")
        assert text_of(drafting, prompt, n_predict=40) == text_of(engine, prompt, n_predict=40)
        assert drafting.stats.n_drafted >= drafting.stats.n_accepted > 0
        assert drafting.stats.n_generated == engine.stats.n_generated > 8
        drafting.close()


def test_a_stream_that_is_closed_ends_on_the_server(address, engine):
    before = metric(address, "tokens_predicted_total")
    params = RemoteParams(n_predict=1500, temperature=3.0, seed=1)
    stream = engine.stream(FIM, params, never, 60.0)
    next(stream)
    stream.close()
    until(lambda: metric(address, "requests_processing") == 0)
    assert metric(address, "tokens_predicted_total") - before < 750


def test_an_interrupted_stream_ends_on_the_server(address, engine):
    before = metric(address, "tokens_predicted_total")
    params = RemoteParams(n_predict=1500, temperature=3.0, seed=2)
    pieces = []
    pieces.extend(engine.stream(FIM, params, lambda: len(pieces) >= 3, 60.0))
    assert len(pieces) == 3
    until(lambda: metric(address, "requests_processing") == 0)
    assert metric(address, "tokens_predicted_total") - before < 750


def test_a_prompt_evaluated_in_idle_time_is_cached(engine):
    prompt = RemotePrompt(prefix=LONG, suffix="")
    engine.prefill(prompt, never)
    text_of(engine, prompt)
    assert engine.stats.n_prompt - engine.stats.n_cached <= 1


def test_windows_with_slots_of_their_own_keep_their_prompts(tmp_path):
    """The server keeps no evicted prompts, and both prompts begin alike."""
    prompts = [RemotePrompt(prefix=f"{LONG}{name} = 1\n" * 2, suffix="") for name in "ab"]
    with running_llama_server(tmp_path, "--cache-ram", "0") as address:
        windows = []
        for prompt in prompts:
            windows.append(HttpEngine(address, key=KEY))
            text_of(windows[-1], prompt)
        assert {window.connect().slot for window in windows} == {0, 1}
        for _ in range(2):
            for window, prompt in zip(windows, prompts, strict=True):
                text_of(window, prompt)
                assert window.stats.n_prompt - window.stats.n_cached <= 1
        for window in windows:
            window.close()
