"""Our own sides of a comparison: a server process over stdio, and the endpoints by HTTP."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.askers import Asker, ServerAsker, changed_settings, server_asker
from benchmarks.figures import host_ms_per_step
from benchmarks.peers.contract import Peer, PeerOptions, PeerSession
from benchmarks.peers.llama_server import LlamaServerSession, llama_server
from speclsp.cli.options import is_switch, long_option
from speclsp.settings import Settings
from tests.support.serving_process import resident_mib

OURS: Final = "speclsp"
OURS_PLAIN: Final = "speclsp (no speculation)"
OURS_BY_HTTP: Final = "speclsp http"

LONGEST_PAUSE_S: Final = 10.0
"""Between two keys; idle work that takes longer is cut short, as it is for somebody who types."""

_PLAIN: Final[Mapping[str, Any]] = {"speculation": False}


def our_peers(settings: Settings) -> tuple[Peer, ...]:
    """Return our sides, by ``settings`` except for what the comparison sets."""
    return (OwnPeer(OURS, settings), OwnPeer(OURS_PLAIN, settings, _PLAIN))


@dataclass(frozen=True, slots=True)
class OwnPeer:
    """speclsp by some settings; see :class:`~benchmarks.peers.contract.Peer`."""

    name: str
    settings: Settings
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this side alone."""

    def why_not(self, options: PeerOptions) -> str | None:  # noqa: ARG002 - it always can
        """Return None: it can run wherever this runs."""
        return None

    @contextmanager
    def open(self, options: PeerOptions) -> Iterator[PeerSession]:
        """Start a server and wait for its model."""
        settings = dataclasses.replace(own_settings(self.settings, options), **self.changes)
        with server_asker(settings, longest_rest_s=LONGEST_PAUSE_S) as asker:
            yield OwnSession(asker)


def own_settings(settings: Settings, options: PeerOptions) -> Settings:
    """Return the settings by which our sides get what all sides are given."""
    draft = options.draft_model
    statistics = [] if options.statistics_file is None else [str(options.statistics_file)]
    return dataclasses.replace(
        settings,
        model=settings.model and str(options.model),
        spec_draft_model=settings.spec_draft_model if draft is None else str(draft),
        lookup_cache_static=settings.lookup_cache_static or statistics,
        threads=options.n_threads,
        ctx_size=options.n_context,
        n_predict=options.n_predict,
    )


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A running server of ours."""

    server: ServerAsker

    @property
    def asker(self) -> Asker:
        """Asks it over stdio."""
        return self.server

    def resident_mib(self) -> float:
        """Return the resident memory of the server and what it started."""
        return resident_mib(self.server.pid)

    def host_ms_per_step(self) -> float | None:
        """Return what a step took outside llama_decode, over the session."""
        return host_ms_per_step(self.server.statistics().totals)


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """``speclsp http``, asked as llama-server is: by llama.vim, and with raw prompts."""

    settings: Settings
    name: str = OURS_BY_HTTP

    def why_not(self, options: PeerOptions) -> str | None:  # noqa: ARG002 - it always can
        """Return None: it can run wherever this runs."""
        return None

    @contextmanager
    def open(self, options: PeerOptions) -> Iterator[LlamaServerSession]:
        """Start a server with an engine of its own.

        Raises :class:`~speclsp.errors.EngineUnavailableError` where it does not get ready.
        """
        settings = dataclasses.replace(own_settings(self.settings, options), engine="own")
        command = [sys.executable, "-m", "speclsp", "http", "--raw", *command_options(settings)]
        with llama_server(command, options.folder / "speclsp-http.log") as server:
            yield LlamaServerSession(server, options)


def command_options(settings: Settings) -> list[str]:
    """Return the command line's options for the settings that differ from their defaults."""
    options: list[str] = []
    for name, value in changed_settings(settings).items():
        option = long_option(name)
        if is_switch(name):
            options.append(option if value else f"--no-{option.removeprefix('--')}")
        else:
            for one in value if isinstance(value, list) else [value]:
                options += [option, json.dumps(one) if isinstance(one, dict) else str(one)]
    return options
