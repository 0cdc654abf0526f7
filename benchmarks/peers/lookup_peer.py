"""llama-cpp-python's own ``Llama`` with LlamaPromptLookupDecoding, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from benchmarks.askers import Answer, Asker
from benchmarks.peers.contract import Peer, PeerOptions, PeerSession, host_ms_per_step
from benchmarks.peers.infill import InfillAnswer, JsonObject, continued, infill_answer
from benchmarks.peers.vim_asker import VimAsker
from speclsp.decoding.session import summed
from speclsp.errors import EngineError
from speclsp.request import RequestStats
from tests.support.serving_process import (
    ANSWERS_WITHIN_S,
    LOADS_WITHIN_S,
    ServingProcess,
    talking,
)

NAME: Final = "llama-cpp-python"
_WORKER: Final = "benchmarks.peers.lookup_worker"


class LookupPeer:
    """The package as its documentation uses it; it has no client of its own.

    So it is asked at each key, with the text and the stop rules that llama.vim would ask with, and
    nothing is remembered; it keeps what the beginnings of two prompts have in common.
    """

    name = NAME

    def why_not(self, _options: PeerOptions) -> str | None:
        """Return None: the package is what our engine is built on."""
        return None

    @contextmanager
    def open(self, options: PeerOptions) -> Iterator[PeerSession]:
        """Start the process and load the model.

        Raises :class:`~speclsp.errors.EngineUnavailableError` where it does not get ready.
        """
        argument = msgspec.json.encode(
            {
                "model": str(options.model),
                "n_threads": options.n_threads,
                "n_gpu_layers": options.n_gpu_layers,
                "n_context": options.n_context,
            }
        ).decode()
        command = [sys.executable, "-m", _WORKER, argument]
        with talking(command, NAME, options.folder / f"{NAME}.log") as process:
            ready = _object(process.exchange(b"", LOADS_WITHIN_S))
            is_on_gpu = bool(ready.get("is_on_gpu"))
            yield LookupSession(process, options, is_on_gpu=is_on_gpu)


class LookupSession:
    """The process once it has loaded its model."""

    def __init__(self, process: ServingProcess, options: PeerOptions, *, is_on_gpu: bool) -> None:
        self._process = process
        self._is_on_gpu = is_on_gpu
        self._stats = RequestStats()
        self._asker = VimAsker(
            self._infill, n_predict=options.n_predict, remembers=False, one_line=options.one_line
        )

    @property
    def asker(self) -> Asker:
        """A client that remembers nothing."""
        return self._asker

    def resident_mib(self) -> float:
        """Return the process's resident memory."""
        return self._process.resident_mib()

    def host_ms_per_step(self) -> float | None:
        """Return the mean over all steps so far; on a GPU, decoding goes on beside the host."""
        return None if self._is_on_gpu else host_ms_per_step(self._stats)

    def complete(self, prompt: Sequence[int], n_predict: int) -> Answer:
        """Continue a prompt of tokens; see :class:`~benchmarks.peers.contract`."""
        return continued(self._infill, prompt, n_predict)

    def _infill(self, request: JsonObject) -> InfillAnswer:
        line = self._process.exchange(msgspec.json.encode(request) + b"\n", ANSWERS_WITHIN_S)
        answer = infill_answer(_object(line))
        self._stats = summed(self._stats, answer.stats)
        return answer


def lookup_peer() -> Peer:
    """Return llama-cpp-python with its prompt lookup."""
    return LookupPeer()


def _object(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise EngineError(f"{NAME} answers what is not JSON: {error}.") from error
