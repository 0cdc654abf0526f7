"""llama-cpp-python's own server as a remote engine with OpenAI's API."""

import socket
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import httpx2
import pytest

from speclsp.backends.http.engine import HttpEngine
from speclsp.backends.http.messages import RemoteParams, RemotePrompt
from speclsp.embedded import model_files
from speclsp.errors import RemoteError
from speclsp.settings import Settings
from tests.support.serving_process import responds, serving, wait_until

needed = ("fastapi", "uvicorn", "sse_starlette", "starlette_context", "pydantic_settings")
missing = [name for name in needed if find_spec(name) is None]
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        bool(missing), reason=f"pip install 'llama-cpp-python[server]': no {', '.join(missing)}"
    ),
]

PREFIX, SUFFIX = "def add(first, second):\n    ret", "\n\nprint(add(1, 2))\n"
FIM = f"<|fim_prefix|>{PREFIX}<|fim_suffix|>{SUFFIX}<|fim_middle|>"
PROMPT = RemotePrompt(prefix=PREFIX, suffix=SUFFIX, text=FIM)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--port", str(port)]
    command += ["--model", str(model_files(Settings()).target), "--n_threads", "1"]
    command += ["--model_alias", "embedded", "--api_key", "a-key"]
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(command, log) as process, httpx2.Client() as client:
        wait_until(lambda: responds(client, f"http://127.0.0.1:{port}/docs"), process)
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture
def engine(address: str) -> Iterator[HttpEngine]:
    found = HttpEngine(address, key="a-key")
    yield found
    found.close()


def ask(engine: HttpEngine, prompt: RemotePrompt = PROMPT, **params: object) -> str:
    given = RemoteParams(**{"n_predict": 12, **params})  # type: ignore[arg-type]
    return "".join(piece.text for piece in engine.stream(prompt, given, lambda: False, 60.0))


def test_the_server_says_what_it_is(address, engine):
    model = engine.connect()
    assert (model.kind, model.name) == ("openai", "embedded")
    assert not model.takes_tokens
    stranger = HttpEngine(address, key="no-key")
    with pytest.raises(RemoteError, match="refuses the key"):
        stranger.connect()
    stranger.close()


def test_an_answer_is_streamed(engine):
    answer = ask(engine)
    assert answer
    assert engine.stats.n_generated > 0
    assert ask(engine) == answer
    assert ask(engine, temperature=0.8, seed=1, top_p=0.9, stop=("\n",)).count("\n") == 0
