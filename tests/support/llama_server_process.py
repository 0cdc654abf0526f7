"""A real llama-server with the embedded model, for tests of what asks one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from built_llama_server import built_llama_server

from speclsp.embedded import model_files
from speclsp.settings import Settings
from tests.support.serving_process import serving_llama_server

KEY = "a-key-of-the-tests"


@contextmanager
def running_llama_server(folder: Path, *options: str, port: int = 0) -> Iterator[str]:
    """Yield the address of a server with two slots that wants ``KEY``."""
    program = built_llama_server()
    assert program is not None
    command = [str(program), "--model", str(model_files(Settings()).target), "--parallel", "2"]
    command += ["--ctx-size", "4096", "--threads", "1", "--api-key", KEY, "--metrics", *options]
    with serving_llama_server(command, folder / "llama-server.log", port=port) as (_, client):
        yield str(client.base_url).rstrip("/")
