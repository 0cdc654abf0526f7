"""llama-server as a process, asked over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.peers.infill import InfillAnswer, JsonObject, infill_answer
from benchmarks.peers.json_http import JsonConnection
from benchmarks.peers.serving_process import (
    LOADS_WITHIN_S,
    ServingProcess,
    serving,
    wait_until,
)
from speclsp.errors import EngineUnavailableError

_NO_SPECULATION: Final = re.compile(r"failed to initialize speculative decoding context: (.+)")
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")


class LlamaServer:
    """A server that has loaded its model."""

    def __init__(self, process: ServingProcess, connection: JsonConnection) -> None:
        self._process = process
        self._connection = connection

    def infill(self, request: JsonObject) -> InfillAnswer:
        """Send a request and wait.

        Raises :class:`~speclsp.errors.EngineError` where it is refused, and where the server has
        ended, with its last words.
        """
        return self._answer("/infill", request)

    def completion(self, request: JsonObject) -> InfillAnswer:
        """Send a request whose prompt is laid out already; see :meth:`infill`."""
        return self._answer("/completion", request)

    def save_prompt(self, file_name: str) -> None:
        """Write what the KV cache holds to the folder of ``--slot-save-path``."""
        self._connection.post("/slots/0?action=save", {"filename": file_name})

    def restore_prompt(self, file_name: str) -> None:
        """Let the KV cache hold what was written by a server with the same model."""
        self._connection.post("/slots/0?action=restore", {"filename": file_name})

    def _answer(self, path: str, request: JsonObject) -> InfillAnswer:
        try:
            return infill_answer(self._connection.post(path, request))
        except EngineUnavailableError as error:
            self._process.check()
            why = error.message.rstrip(".")
            raise self._process.failure(f"did not answer ({why})") from error

    def resident_mib(self) -> float:
        """Return the server's resident memory in MiB."""
        return self._process.resident_mib()


@contextmanager
def llama_server(command: Sequence[str], log: Path) -> Iterator[LlamaServer]:
    """Start a server, wait until it can be asked, and end it in the end.

    It finds a port itself.  Raises :class:`~speclsp.errors.EngineUnavailableError` where it does
    not get ready, with its last words, and where it says that it does not speculate.
    """
    with serving([*command, "--host", "127.0.0.1", "--port", "0"], log) as process:
        connection = JsonConnection(_port(process))
        try:
            wait_until(lambda: connection.is_ready("/health"), process, longest_s=LOADS_WITHIN_S)
            _check_speculation(process)
            yield LlamaServer(process, connection)
        finally:
            connection.close()


def _check_speculation(process: ServingProcess) -> None:
    """Raise where it serves without the speculation that it was asked for."""
    match = _NO_SPECULATION.search(process.words())
    if match is not None:
        raise EngineUnavailableError(f"it does not speculate: {match[1].strip()}.")


def _port(process: ServingProcess) -> int:
    """Return the port that the server says it listens on, once it says so."""

    def found() -> re.Match[str] | None:
        return _ADDRESS.search(process.words())

    wait_until(lambda: found() is not None, process, longest_s=LOADS_WITHIN_S)
    match = found()
    assert match is not None
    return int(match[1])
