"""``python -m benchmarks engine``: what a shared engine costs beside an engine of one's own.

Both sides answer the same keys in turn, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from benchmarks.askers import changed_settings
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.completer.local import LocalCompleter
from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.start import connect, running_engines, status_of
from speclsp.errors import EngineUnavailableError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import Document, TextEdit
from speclsp.settings import Settings
from tests.support.server_process import ServerProcess

_LINE: Final = "    total_of_items = first_item + second_item\n"
_TYPED: Final = "return total_of_items + "
_URI: Final = "file:///project/typed.py"
_N_LARGE_CHARS: Final = 1_000_000
_WAIT_S: Final = 120.0
_MIB: Final = 1 << 20
_KINDS: Final = ("own", "shared")
_N_WINDOWS: Final = (1, 4)


class TypedFile:
    """A document in which keys are typed at the end of its middle line."""

    def __init__(self, completer: Completer, n_chars: int) -> None:
        half = _LINE * (n_chars // 2 // len(_LINE))
        self._completer = completer
        self._offset = len(half)
        self._n_typed = 0
        self._document = Document(
            uri=_URI,
            path="typed.py",
            language_id="python",
            version=1,
            text=f"{half}\n{half}",
        )
        completer.open_document(self._document)

    def key(self) -> float:
        """Type a key and ask; return the seconds until the answer."""
        character = _TYPED[self._n_typed % len(_TYPED)]
        started = time.perf_counter()
        at = self._offset + self._n_typed
        self._n_typed += 1
        edit = TextEdit(at, at, character)
        self._document = self._document.edited(self._document.version + 1, edit)
        self._completer.change_document(self._document, edit)
        request = CompletionRequest(uri=_URI, version=self._document.version, offset=at + 1)
        self._completer.submit(request, CancellationToken()).result(_WAIT_S)
        return time.perf_counter() - started


def keystrokes(settings: Settings, n_keys: int, n_chars: int) -> tuple[list[list[float]], float]:
    """Return the milliseconds of each key by kind, and the bytes that a key sends."""
    shared = SharedCompleter(settings, connect)
    completers: Sequence[Completer] = (LocalCompleter(settings), shared)
    try:
        for completer in completers:
            completer.start()
        files = [TypedFile(completer, n_chars) for completer in completers]
        for file in files:
            _until_it_answers(file)
        n_before = shared.n_sent
        times: list[list[float]] = [[], []]
        for n_key in range(n_keys):
            for kind in (0, 1) if n_key % 2 else (1, 0):
                times[kind].append(1000 * files[kind].key())
        return times, (shared.n_sent - n_before) / n_keys
    finally:
        for completer in completers:
            completer.close()


def _until_it_answers(file: TypedFile) -> None:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        with contextlib.suppress(EngineUnavailableError):
            file.key()
            return
        time.sleep(0.05)
    raise TimeoutError


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Memory of servers and their engine, in bytes, and how fast the servers began."""

    servers: list[int]
    """Resident."""
    engine: int
    together: int
    """With pages that processes share counted once."""
    initialize_ms: list[float]


async def opened(kind: str, n_windows: int, options: dict[str, Any]) -> Opened:
    """Open windows that each show a suggestion, and measure their processes."""
    servers = [ServerProcess() for _ in range(n_windows)]
    initialize_ms: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for server in servers:
                started = time.perf_counter()
                argv = [sys.executable, "-m", "speclsp", "serve"]
                # The trial model is sure of nothing here, and every window is to show a text.
                shown = {"engine": kind, "min_probability": 0.0}
                await server.start(argv, Path(folder), options={**options, **shown})
                initialize_ms.append(1000 * (time.perf_counter() - started))
                server.open(Path(folder) / "typed.py", f"def total(items):\n{_LINE}    return ")
                async with asyncio.timeout(_WAIT_S):
                    while not await server.inline_completion(2, 11):
                        await asyncio.sleep(0.05)
            pids = await asyncio.to_thread(_engine_pids) if kind == "shared" else []
            processes = [psutil.Process(server.pid) for server in servers]
            engines = [psutil.Process(pid) for pid in pids]
            return Opened(
                servers=[process.memory_info().rss for process in processes],
                engine=sum(process.memory_info().rss for process in engines),
                together=sum(map(_own_bytes, (*processes, *engines))),
                initialize_ms=initialize_ms,
            )
        finally:
            for server in servers:
                await server.shutdown()


def _engine_pids() -> list[int]:
    found = (status_of(place) for place in running_engines())
    return [status["pid"] for status in found if status is not None]


def _own_bytes(process: psutil.Process) -> int:
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.uss))


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Let engines be found, and stores lie, in folders of this run."""
    names = "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory(prefix="speclsp-", ignore_cleanup_errors=True) as folder:
        os.environ.update({name: f"{folder}/{idx}" for idx, name in enumerate(names)})
        try:
            yield
            until = time.monotonic() + _WAIT_S
            while running_engines() and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value


def run(settings: Settings, *, n_keys: int) -> Report:
    """Compare a shared engine with one's own."""
    patient = replace(settings, persist=False, deadline_ms=60_000)
    with _apart():
        typed = {
            name: keystrokes(patient, n_keys, n_chars)
            for name, n_chars in (("4 kB", 4_000), ("1 MB", _N_LARGE_CHARS))
        }
        windows = [
            (n, kind, asyncio.run(opened(kind, n, changed_settings(settings))))
            for n in _N_WINDOWS
            for kind in _KINDS
        ]
    return Report([_keys_table(typed), _windows_table(windows)], {"ms": typed, "windows": windows})


def _keys_table(typed: Mapping[str, tuple[list[list[float]], float]]) -> Table:
    table = Table(
        "Milliseconds from a key to its answer, the document's change included",
        ("document", "engine", "p50", "p99", "mean", "bytes/key"),
        caption="Each key is typed on both sides, which take turns in going first.",
        n_names=2,
    )
    for name, (times, n_bytes) in typed.items():
        quantiles = [[*np.percentile(of_kind, [50, 99]), np.mean(of_kind)] for of_kind in times]
        for kind, values, sent in zip(_KINDS, quantiles, ("", f"{n_bytes:.0f}"), strict=True):
            table.add(name, kind, *(f"{value:.2f}" for value in values), sent)
        added = np.subtract(quantiles[1], quantiles[0])
        table.add(name, "shared - own", *(f"{value:+.2f}" for value in added), "")
    return table


def _windows_table(windows: Sequence[tuple[int, str, Opened]]) -> Table:
    table = Table(
        "Memory of windows that each have shown a suggestion",
        ("windows", "engine", "a server, MiB", "engine, MiB", "together, MiB", "initialize, ms"),
        caption="*Together* counts pages that processes share once.  *initialize* includes the "
        "start of the server's process.",
        n_names=2,
    )
    for n_windows, kind, found in windows:
        table.add(
            str(n_windows),
            kind,
            f"{max(found.servers) / _MIB:.0f}",
            f"{found.engine / _MIB:.0f}" if found.engine else "",
            f"{found.together / _MIB:.0f}",
            f"{np.median(found.initialize_ms):.0f}",
        )
    return table
