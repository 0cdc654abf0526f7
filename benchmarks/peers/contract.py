"""The interface of the sides of a comparison."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.askers import Asker


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
