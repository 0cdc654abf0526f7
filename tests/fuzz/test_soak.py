"""Hours of typing into a real server: memory, threads, open files and latency have no trend.

``make soak MINUTES=30 ENGINE=shared`` types at full speed, prints a table by minute, and writes a
plot.  ``ENGINE=own`` measures a server that loads the models itself.  ``FILES=256`` types in as
many files as the caches have room for, and takes hours to fill them.
"""

import itertools
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import psutil
import pytest
from fuzzing_client import FuzzingClient

MINUTES = float(os.environ.get("SPECLSP_SOAK_MINUTES", "0"))
PLOT = Path(os.environ.get("SPECLSP_SOAK_PLOT", "soak.svg"))
SOURCES = Path(__file__).parents[2] / "fixtures" / "cases"
ENGINE = os.environ.get("SPECLSP_SOAK_ENGINE", "shared")
OPTIONS = {"debounce_ms": 0, "n_predict": 24, "cache_ram": 32, "engine": ENGINE}
N_FILES = int(os.environ.get("SPECLSP_SOAK_FILES", "24"))
"""A small cache of KV states, and the windows of a few files' prompts, are full after minutes, and
then stay as they are."""
ACCEPTED = 0.1
"""Share of the fitting suggestions that is accepted; what is learned of them is to grow."""
MOST_GROWTH = {"memory": 0.05, "threads": 0.02, "files": 0.02, "p99": 1.0}
"""Growth over the second half of the time, as a share; the caches are full by then.

Memory may follow what is learned.  Of threads and files less than one may be added.  Latency
follows what else the machine does: only where it doubles within the run, something grows.
"""

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not MINUTES, reason="`make soak MINUTES=30` types for so long"),
]


@dataclass
class Minute:
    """What was measured in one interval."""

    latencies_ms: list[float] = field(default_factory=list)
    n_items: int = 0
    mebibytes: float = 0.0
    n_threads: int = 0
    n_files: int = 0

    def percentile(self, percent: int) -> float:
        return statistics.quantiles(self.latencies_ms, n=100)[percent - 1]


class Typist:
    """Opens files one after the other, and types some of their lines again, key by key."""

    def __init__(self, client: FuzzingClient) -> None:
        self.client = client
        self.dice = random.Random(1)
        paths = [path for path in sorted(SOURCES.rglob("*.py")) if path.stat().st_size < 60_000]
        chosen = self.dice.sample(paths, min(N_FILES, len(paths)))
        self.texts = {path.relative_to(SOURCES): path.read_text() for path in chosen}
        for path, text in self.texts.items():
            file = client.folder / "project" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def session(self) -> Iterator[tuple[float, int]]:
        """Type in one file; yield milliseconds and number of items of each request."""
        path = self.dice.choice(list(self.texts))
        uri = (self.client.folder / "project" / path).as_uri()
        lines = self.texts[path].splitlines()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": "\n".join(lines)}
        self.client.notify("textDocument/didOpen", {"textDocument": document})
        version = 1
        for _ in range(self.dice.randrange(5, 15)):
            row = self.dice.randrange(len(lines))
            line = lines[row]
            start = len(line) - len(line.lstrip())
            version = self._replace(uri, version, row, (start, len(line)), "")
            column = start
            while column < len(line):
                version = self._replace(uri, version, row, (column, column), line[column])
                column += 1
                before = time.perf_counter()
                answer = self._ghost_text(uri, row, column)
                yield (time.perf_counter() - before) * 1e3, len(answer)
                text = answer[0]["insertText"] if answer else ""
                # What stands in the line is accepted; the rest of it is typed.
                if text and line.startswith(text, column) and self.dice.random() < ACCEPTED:
                    self._accept(answer[0])
                    version = self._replace(uri, version, row, (column, column), text)
                    column += len(text)
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        self.client.wait_all()

    def _replace(
        self, uri: str, version: int, row: int, columns: tuple[int, int], text: str
    ) -> int:
        span = {
            name: {"line": row, "character": column}
            for name, column in zip(("start", "end"), columns, strict=True)
        }
        params = {
            "textDocument": {"uri": uri, "version": version + 1},
            "contentChanges": [{"range": span, "text": text}],
        }
        self.client.notify("textDocument/didChange", params)
        return version + 1

    def _ghost_text(self, uri: str, row: int, column: int) -> list[dict]:
        params = {
            "textDocument": {"uri": uri},
            "position": {"line": row, "character": column},
            "context": {"triggerKind": 2},
        }
        return (self.client.ask("textDocument/inlineCompletion", params) or {"items": []})["items"]

    def _accept(self, item: dict) -> None:
        self.client.notify("textDocument/didShowCompletion", {"item": item})
        command = item["command"]
        arguments = {"command": command["command"], "arguments": command["arguments"]}
        self.client.request("workspace/executeCommand", arguments)


def processes(folder: Path) -> list[psutil.Process]:
    """Return the server and the engine that it started, which have the test's folders."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("XDG_STATE_HOME") == str(folder / "XDG_STATE_HOME"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def trend(values: Sequence[float]) -> float:
    """Return how much values grow over their time, as a share of their median.

    The slope is Theil and Sen's, the median of the slopes between all pairs: a few minutes in which
    the machine was busy do not move it.
    """
    pairs = itertools.combinations(enumerate(values), 2)
    slope = statistics.median((later - now) / (j - i) for (i, now), (j, later) in pairs)
    return slope * (len(values) - 1) / statistics.median(values)


def measure(minute: Minute, folder: Path) -> None:
    for process in processes(folder):
        minute.mebibytes += process.memory_info().rss / 2**20
        minute.n_threads += process.num_threads()
        minute.n_files += process.num_fds()


def plot(minutes: list[Minute], seconds: float) -> None:
    mpl.use("svg")
    from matplotlib import pyplot as plt

    times = [(number + 1) * seconds / 60 for number in range(len(minutes))]
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(8, 9))
    for axis, name, values in (
        (axes[0], "MiB", [minute.mebibytes for minute in minutes]),
        (axes[1], "threads", [minute.n_threads for minute in minutes]),
        (axes[2], "open files", [minute.n_files for minute in minutes]),
        (axes[3], "p99, ms", [minute.percentile(99) for minute in minutes]),
    ):
        axis.plot(times, values, marker=".")
        axis.set_ylabel(name)
        axis.set_ylim(bottom=0)
    axes[3].plot(times, [minute.percentile(50) for minute in minutes], marker=".", label="p50")
    axes[3].legend()
    axes[3].set_xlabel("minutes")
    figure.savefig(PLOT)


@pytest.mark.timeout(MINUTES * 60 + 600)
def test_nothing_grows(tmp_path):
    client = FuzzingClient(tmp_path, OPTIONS, "utf-16")
    typist = Typist(client)
    seconds = min(60.0, MINUTES * 60 / 15)
    minutes = [Minute()]
    start = time.monotonic()
    while len(minutes) <= MINUTES * 60 / seconds:
        for latency_ms, n_items in typist.session():
            minutes[-1].latencies_ms.append(latency_ms)
            minutes[-1].n_items += n_items
            if time.monotonic() - start >= len(minutes) * seconds:
                client.check()
                measure(minutes[-1], tmp_path)
                row = minutes[-1]
                print(  # noqa: T201 - figures
                    f"{len(minutes) * seconds / 60:6.1f} min: {len(row.latencies_ms):6} requests, "
                    f"{row.n_items} items, {row.mebibytes:.0f} MiB, {row.n_threads} threads, "
                    f"{row.n_files} files, p50 {row.percentile(50):.1f} ms, "
                    f"p99 {row.percentile(99):.1f} ms",
                    flush=True,
                )
                minutes.append(Minute())
    assert client.close() == 0
    measured = [minute for minute in minutes if minute.mebibytes]
    plot(measured, seconds)
    settled = measured[len(measured) // 2 :]
    growth = {
        "memory": trend([minute.mebibytes for minute in settled]),
        "threads": trend([minute.n_threads for minute in settled]),
        "files": trend([minute.n_files for minute in settled]),
        "p99": trend([minute.percentile(99) for minute in settled]),
    }
    print(", ".join(f"{name} {share:+.1%}" for name, share in growth.items()))  # noqa: T201 - figures
    assert sum(minute.n_items for minute in measured)
    assert {name: share for name, share in growth.items() if share > MOST_GROWTH[name]} == {}
