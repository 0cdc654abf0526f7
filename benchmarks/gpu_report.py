"""``python -m benchmarks gpu-report``: what speclsp does on the GPU of this machine, in one file.

Every part is a command of its own whose output is kept, so that a report which was interrupted goes
on where it was, and a part that fails or takes too long leaves the others alone.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.machine import machine_lines
from benchmarks.report import as_json, without_folders, write_text
from benchmarks.tables import Table
from speclsp.backends.llama.library import devices

_ROOT: Final = Path(__file__).parents[1]
_CASES: Final = "fixtures/cases/cases.jsonl"
_ANSWERS: Final = _ROOT / "fixtures/next_edit/recorded.jsonl"
_PEERS: Final = "speclsp,llama-server,llama-server ngram-simple,llama-server ngram-mod"
_PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
_PADDED_TO: Final = ("1", "4", "8", "16", "32", "64")
"""What passes are padded to, to see whether graphs that are reused pay for that."""
_LIMIT_S: Final = 480.0
_MIB_OF: Final = {"0.5b": 1_500, "1.5b": 3_000, "7b": 10_000}
"""The models, and the memory that a device must have free for one in Q8_0 and its KV cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A command of the report."""

    name: str
    """Of its files."""
    title: str
    command: Sequence[str]
    """Of this Python."""
    has_figures: bool = True
    """Whether it takes ``--json FILE``."""
    shown: int | None = None
    """How many of its last lines the report has; None for all."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRun:
    """How a part ended."""

    seconds: float
    problem: str
    """Empty where it did what it was to do."""
    output: str


def make_report(
    folder: Path,
    *,
    quick: bool,
    llama_server: Path | None,
    sizes: Sequence[str],
    files: Sequence[Path],
    only: str,
) -> None:
    """Run the parts that have not run yet, and write ``gpu-report.md`` and ``gpu-report.json``.

    ``sizes`` are those of models to make and measure, ``files`` published ones.
    ``only`` is a regular expression that the names of the parts to run match; empty for all.
    """
    sizes = sizes or ([] if files else _fitting())
    kept = folder / "models"
    kept.mkdir(parents=True, exist_ok=True)
    files = [file.absolute() for file in files]
    for part in _parts(kept, sizes, files, quick=quick, llama_server=llama_server):
        if re.search(only, part.name) and not (folder / f"{part.name}.run.json").exists():
            click.echo(f"{part.title} …", err=True)
            _run(part, folder)
        write_report(folder, llama_server)
    click.echo(folder / "gpu-report.md")


def _fitting() -> list[str]:
    """Return the models that fit the largest device, or the CPU's memory."""
    found = devices()
    free = [one.memory_free for one in found if one.kind != "cpu"] or [
        one.memory_free for one in found
    ]
    largest = max(free, default=0) / 2**20
    return [size for size, needed in _MIB_OF.items() if needed <= largest] or ["0.5b"]


def _parts(
    kept: Path,
    sizes: Sequence[str],
    files: Sequence[Path],
    *,
    quick: bool,
    llama_server: Path | None,
) -> Iterator[Part]:
    yield Part(
        name="doctor", title="Doctor", command=["-m", "speclsp", "doctor"], has_figures=False
    )
    for file in files:
        yield from _published(file, quick=quick, llama_server=llama_server)
    yield Part(
        name="lossless",
        title="Lossless tests",
        command=[*_PYTEST, "tests/lossless"],
        has_figures=False,
        shown=12,
    )
    for size in sorted(sizes, key=lambda name: -_MIB_OF[name]):
        file = kept / f"{size}.gguf"
        if not file.exists():
            yield Part(
                name=f"{size}-model",
                title=f"{size}: write the model",
                command=[
                    *("-m", "benchmarks", "make-model", str(file)),
                    *("--like", f"qwen2.5-coder-{size}", "--quantise", "q8_0"),
                ],
                has_figures=False,
            )
        yield from _measured(size, file, quick=quick, llama_server=llama_server)


def _part(model: str, file: Path, name: str, title: str, *words: str) -> Part:
    command = ["-m", "benchmarks", *words, "--model", str(file)]
    return Part(name=f"{model}-{name}", title=f"{model}: {title}", command=command)


def _measured(model: str, file: Path, *, quick: bool, llama_server: Path | None) -> Iterator[Part]:
    """Yield what is measured with every model, the shortest first."""
    part = functools.partial(_part, model, file)
    rounds, timed = ("3", "10") if quick else ("5", "30")
    yield part("passes", "T(k)", "passes", "--timed", timed)
    padded = [word for size in _PADDED_TO for word in ("--pad-to", size)]
    yield part("padded", "T(k) of padded passes", "passes", "--timed", timed, *padded)
    yield part("host", "the host's time per step", "host")
    edits = ["edits", str(_ANSWERS), "--rounds", rounds, "--ctx-size", "8192"]
    yield part("edits", "recorded next edits, said by the model", *edits, "--drafted", "32")
    if llama_server is not None:
        yield part(
            "decoding", "decoding beside llama-server", "peers", _CASES, "--n-cases", "0",
            *("--rounds", rounds, "--places", "2", "--llama-server", str(llama_server)),
            *("--peers", _PEERS),
        )  # fmt: skip
    n_cases = "3" if quick else "6"
    yield part(
        "speculation", "typing with speculation and without", "speculation", _CASES,
        *("--rounds", rounds, "--n-cases", n_cases, "--keys", "12"),
    )  # fmt: skip


def _published(file: Path, *, quick: bool, llama_server: Path | None) -> Iterator[Part]:
    """Yield what is measured with a published model."""
    part = functools.partial(_part, file.stem, file)
    yield from _measured(file.stem, file, quick=quick, llama_server=llama_server)
    server = ["--llama-server", str(llama_server)] if llama_server is not None else []
    yield part(
        "points", "points in functions", "points", "fixtures/points/points.jsonl", "--times",
        *("--points", "24" if quick else "120", *server),
    )  # fmt: skip
    yield part(
        "next-edits", "next edits by analogy", "commit-edits",
        *("fixtures/commit_edits/cases.jsonl.xz", "--half", "all", "--edit-format", "analogy"),
        *("--limit", "60" if quick else "300"),
    )  # fmt: skip
    if llama_server is not None:
        yield part(
            "typed", "typing beside llama-server", "peers", _CASES, "--places", "0", *server,
            *("--n-cases", "1", "--keys", "32", "--rounds", "3" if quick else "5"),
        )  # fmt: skip
    yield Part(
        name=f"{file.stem}-exact",
        title=f"{file.stem}: tests with the published models beside it",
        command=[*_PYTEST, "tests/published"],
        has_figures=False,
        shown=40,
        environment={"SPECLSP_REAL_MODELS": str(file.parent)},
    )


def _run(part: Part, folder: Path) -> None:
    figures = folder / f"{part.name}.json"
    words = [sys.executable, *part.command, *(["--json", str(figures)] if part.has_figures else [])]
    started = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603 - this Python, and commands of this project
            words, cwd=_ROOT, env=os.environ | part.environment,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        output, errors = done.stdout, done.stderr
        problem = f"exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as timeout:
        output, errors = (
            said.decode(errors="replace") if isinstance(said, bytes) else said or ""
            for said in (timeout.stdout, timeout.stderr)
        )
        problem = f"took longer than {_LIMIT_S:.0f} s"
    if problem:
        problem = "\n".join([problem, *errors.splitlines()[-12:]])
    if part.shown is not None:
        output = "\n".join(output.splitlines()[-part.shown :])
    ended = PartRun(seconds=time.monotonic() - started, problem=problem, output=output)
    write_text(folder / f"{part.name}.run.json", as_json({"title": part.title, "run": ended}))


def write_report(folder: Path, llama_server: Path | None) -> None:
    """Write what is there of the parts, in the order in which they ran."""
    files = sorted(folder.glob("*.run.json"), key=lambda path: path.stat().st_mtime_ns)
    table = Table("", ("", "this machine"), n_names=2)
    for name, value in machine_lines(_layers(), 0, llama_server):
        if "threads" not in value and name != "model's layers":
            table.add(name, value)
    lines = ["# What speclsp does on this machine's GPU", "", str(table)]
    everything: dict[str, Any] = {}
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        run = found["run"]
        lines += [f"## {found['title']}", "", f"Took {run['seconds']:.0f} s.", ""]
        if run["problem"]:
            lines += ["It failed:", "", "```text", without_folders(run["problem"]), "```", ""]
        output = without_folders(run["output"]).strip()
        is_table = "| ---" in output or "|---" in output or "| --" in output
        lines += [output, ""] if is_table else ["```text", output, "```", ""]
        name = file.name.removesuffix(".run.json")
        figures = folder / f"{name}.json"
        everything[name] = {
            **run,
            "figures": json.loads(figures.read_text(encoding="utf-8"))
            if figures.exists()
            else None,
        }
    write_text(folder / "gpu-report.md", "\n".join(lines))
    write_text(folder / "gpu-report.json", as_json(everything))


def _layers() -> dict[str, int]:
    """Name every device, so that all of them are described."""
    return {device.name: 1 for device in devices() if device.kind != "cpu"}
