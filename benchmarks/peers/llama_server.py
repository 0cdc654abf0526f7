"""llama-server as a process, asked over HTTP, with each way of speculation that it has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
import msgspec

from benchmarks.askers import Answer, Asker
from benchmarks.machine import has_gpu, server_devices
from benchmarks.peers.contract import PeerOptions
from benchmarks.peers.infill import InfillAnswer, JsonObject, continued, infill_answer
from benchmarks.peers.vim_asker import VimAsker
from speclsp.errors import EngineError, EngineUnavailableError
from tests.support.serving_process import ServingProcess, serving_llama_server

_N_SHOWN: Final = 500
_NO_SPECULATION: Final = re.compile(r"failed to initialize speculative decoding context: (.+)")


class LlamaServer:
    """A server that has loaded its model."""

    def __init__(self, process: ServingProcess, client: httpx2.Client) -> None:
        self._process = process
        self._client = client

    @property
    def address(self) -> str:
        """The address that it listens on."""
        return str(self._client.base_url).rstrip("/")

    def infill(self, request: JsonObject) -> InfillAnswer:
        """Send a request and wait.

        Raises :class:`~speclsp.errors.EngineError` where it is refused, and where the server has
        ended, with its last words.
        """
        return self._answer("/infill", request)

    def completion(self, request: JsonObject) -> InfillAnswer:
        """Send a request whose prompt is laid out already; see :meth:`infill`."""
        return self._answer("/completion", request)

    def _answer(self, path: str, request: JsonObject) -> InfillAnswer:
        return infill_answer(self._post(path, request))

    def _post(self, path: str, body: JsonObject) -> JsonObject:
        try:
            try:
                response = self._client.post(path, json=body)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                # Servers close connections that rested, and after so many requests.
                response = self._client.post(path, json=body)
        except httpx2.HTTPError as error:
            self._process.check()
            said = str(error) or type(error).__name__
            raise self._process.failure(f"did not answer ({said})") from error
        if response.status_code != httpx2.codes.OK:
            said = response.text[:_N_SHOWN]
            raise EngineError(
                f"the server refuses a request with status {response.status_code}: {said}"
            )
        try:
            return msgspec.json.decode(response.content, type=JsonObject)
        except msgspec.DecodeError as error:
            raise EngineError(f"the server's answer is not JSON: {error}.") from error

    def resident_mib(self) -> float:
        """Return the server's resident memory in MiB."""
        return self._process.resident_mib()


@contextmanager
def llama_server(command: Sequence[str], log: Path) -> Iterator[LlamaServer]:
    """Start a server, wait until it is ready, and end it at the end.

    Raises :class:`~speclsp.errors.EngineUnavailableError` where it does not get ready, with its
    last words, and where it says that it does not speculate.
    """
    with serving_llama_server(command, log) as (process, client):
        _check_speculation(process)
        yield LlamaServer(process, client)


def _check_speculation(process: ServingProcess) -> None:
    """Raise EngineUnavailableError if the server reports that it does not speculate."""
    match = _NO_SPECULATION.search(process.words())
    if match is not None:
        raise EngineUnavailableError(f"it does not speculate: {match[1].strip()}.")


NAME: Final = "llama-server"
_SEED: Final = 1
_BATCH: Final = 1024
"""Of the flags that llama.vim recommends, ``--fim-qwen-1.5b-default`` and its like; they say how
many tokens of a prompt are shown, too: three quarters of it before the cursor, one behind."""
_CACHE_REUSE: Final = 256


_KINDS: Final = {
    "": "none",
    "ngram-simple": "ngram-simple",
    "ngram-map-k": "ngram-map-k",
    "ngram-map-k4v": "ngram-map-k4v",
    "ngram-mod": "ngram-mod",
    "ngram-cache": "ngram-cache",
    "draft": "draft-simple",
    "draft+ngram-mod": "draft-simple,ngram-mod",
}
"""The kinds of speculation, each with its default lengths, and what ``--spec-type`` calls them."""


@dataclass(frozen=True, slots=True)
class LlamaServerPeer:
    """One configuration of llama-server: without speculation, or with a kind of it."""

    kind: str = ""

    @property
    def name(self) -> str:
        """As tables and ``--peers`` name it."""
        return f"{NAME} {self.kind}".strip()

    @property
    def drafts_by_model(self) -> bool:
        """Whether it needs a draft model."""
        return self.kind.startswith("draft")

    def why_not(self, options: PeerOptions) -> str | None:
        """Return what is missing."""
        binary = options.llama_server
        if binary is None:
            return "there is no llama-server: tools/peers/build_llama_server.sh builds it."
        if not binary.is_file() or not os.access(binary, os.X_OK):
            return f"{binary} is no program."
        if options.n_gpu_layers and has_gpu() and server_devices(binary) == ():
            return (
                f"{binary} is built for the CPU only, and ours has layers on a GPU; CMAKE_ARGS for "
                "tools/peers/build_llama_server.sh say what it is built for."
            )
        if self.drafts_by_model:
            return _missing(options.draft_model, "draft model")
        if self.kind == "ngram-cache":
            return _missing(options.statistics_file, "statistics file")
        return None

    @contextmanager
    def open(self, options: PeerOptions) -> Iterator[LlamaServerSession]:
        """Start the server.

        Raises :class:`~speclsp.errors.EngineUnavailableError` where it does not get ready.
        """
        log = options.folder / f"{self.name.replace(' ', '-')}.log"
        with llama_server(self.command(options), log) as server:
            yield LlamaServerSession(server, options)

    def command(self, options: PeerOptions) -> list[str]:
        """Return the command line, the address left out."""
        layers = "all" if options.n_gpu_layers < 0 else str(options.n_gpu_layers)
        command = [
            str(options.llama_server),
            *("--model", str(options.model)),
            *("--ctx-size", str(options.n_context)),
            *("--batch-size", str(_BATCH)),
            *("--ubatch-size", str(_BATCH)),
            *("--cache-reuse", str(_CACHE_REUSE)),
            *("--threads", str(options.n_threads)),
            *("--n-gpu-layers", layers),
            *("--seed", str(_SEED)),
            *("--spec-type", _KINDS[self.kind]),
        ]
        if self.drafts_by_model:
            command += ["--spec-draft-model", str(options.draft_model)]
            command += ["--spec-draft-threads", str(options.n_threads), "--spec-draft-ngl", layers]
        if self.kind == "ngram-cache":
            command += ["--lookup-cache-static", str(options.statistics_file)]
        return command


class LlamaServerSession:
    """A server that runs."""

    def __init__(self, server: LlamaServer, options: PeerOptions) -> None:
        self._server = server
        self._asker = VimAsker(server.infill, n_predict=options.n_predict)

    @property
    def asker(self) -> Asker:
        """llama.vim."""
        return self._asker

    def resident_mib(self) -> float:
        """Return the server's resident memory."""
        return self._server.resident_mib()

    def host_ms_per_step(self) -> float | None:
        """Return None: the server tells the time of its steps as a whole."""
        return None

    def complete(self, prompt: Sequence[int], n_predict: int) -> Answer:
        """Continue ``prompt`` greedily by ``n_predict`` tokens or up to the model's end token.

        No other rule ends the text and nothing is cut from it.
        """
        return continued(self._server.completion, prompt, n_predict)


def llama_server_peers() -> tuple[LlamaServerPeer, ...]:
    """Return llama-server without speculation, and with each kind of it."""
    return tuple(LlamaServerPeer(kind) for kind in _KINDS)


def _missing(file: Path | None, what: str) -> str | None:
    if file is None:
        return f"no {what} is given."
    return None if file.is_file() else f"there is no {what} {file}."
