"""The interface of the sides of a comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from benchmarks.askers import Answer, Asker
from speclsp.errors import SpecLspError
from speclsp.request import RequestStats


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOptions:
    """What all sides of a comparison are given."""

    model: Path
    draft_model: Path | None
    """None: peers that need a draft model cannot run."""
    statistics_file: Path | None
    """N-gram statistics in llama.cpp's layout, as ``ngram build --format llama.cpp`` writes."""
    llama_server: Path | None
    """The binary, as ``tools/peers/build_llama_server.sh`` makes it."""
    n_threads: int
    n_gpu_layers: int
    n_context: int
    n_predict: int
    with_cache: bool
    """False: no client remembers suggestions or asks ahead.  Servers keep prompts either way."""
    one_line: bool
    """True: all sides end a text with its line.  Else each does by rules of its own."""
    folder: Path
    """For scratch files and logs; it exists."""


class PeerSession(Protocol):
    """A side of the comparison that runs."""

    @property
    def asker(self) -> Asker:
        """Asks it as its users' editors do.  A request that fails raises SpecLspError."""

    def resident_mib(self) -> float:
        """Return the resident memory of all processes that serve, in MiB; before the end."""

    def host_ms_per_step(self) -> float | None:
        """Return the milliseconds of a decode step outside llama_decode, None where untold."""


@runtime_checkable
class TokenPeerSession(PeerSession, Protocol):
    """A side that continues a prompt of tokens, so that all sides have the same work to do."""

    def complete(self, prompt: Sequence[int], n_predict: int) -> Answer:
        """Continue ``prompt`` greedily by ``n_predict`` tokens or up to the model's end token.

        No other rule ends the text and nothing is cut from it.  What the server has of the prompt
        in its KV cache stays.  The answer's ``n_replaced`` is 0.
        Raises :class:`~speclsp.errors.SpecLspError` where it fails.
        """


class Peer(Protocol):
    """A side of the comparison that can be started."""

    @property
    def name(self) -> str:
        """As tables and ``--peers`` name it."""

    def why_not(self, options: PeerOptions) -> str | None:
        """Return why it cannot run here, as a sentence; None where it can."""

    def open(self, options: PeerOptions) -> AbstractContextManager[PeerSession]:
        """Start it, and end it for sure.

        Raises :class:`~speclsp.errors.SpecLspError` where it does not start, with its last words.
        """


_FOLDERS: Final = re.compile(r"(?<![\w/:.])/(?:[^\s/:'\"]+/)+(?=[^\s/:'\"])")


def reason(error: SpecLspError) -> str:
    """Return an error's first line and its remedy, as a record has it."""
    first = error.message.partition("\n")[0]
    return without_folders(f"{first} {error.remedy}".strip())


def without_folders(text: str) -> str:
    """Return ``text`` with the names of files alone, without where they lie."""
    return _FOLDERS.sub("", text)


def host_ms_per_step(stats: RequestStats) -> float | None:
    """Return a step's milliseconds outside llama_decode; None where those within are unknown.

    A step is a target pass that gave tokens: its draft, choosing and scoring its tokens, stop
    rules, rolling back.  Time inside llama_decode is the target's and that of a draft model.
    The prompt's last pass is a step on every side: ``ms_predict`` begins behind the evaluation of
    the prompt, so that its draft and the choice of its tokens count, and evaluating it does not.
    """
    if not stats.n_decode_passes or stats.ms_decode <= 0.0:
        return None
    ms_native = stats.ms_decode + sum(one.ms_decode for one in stats.drafters.values())
    return (stats.ms_predict - ms_native) / stats.n_target_passes
