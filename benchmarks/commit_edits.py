"""``python -m benchmarks commit-edits``: next edits against commits, and repetition.

Every case is asked through a window as an editor asks: the file as it was, then the edit.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from benchmarks.commit_cases import (
    CommitCase,
    Verdict,
    changed_lines,
    read,
    textual_repetition,
    verdict,
)
from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.completer.local import LocalCompleter
from speclsp.edits.edit import Hunk
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.documents import Document
from speclsp.seam.edit import EditRequest, EditResult
from speclsp.settings import Settings
from speclsp.window.window import Window

_VERDICTS: tuple[Verdict, ...] = ("right", "partly", "wrong", "missed", "noise", "quiet")


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one case."""

    idx: int
    is_done: bool
    """Whether all of the commit's other hunks were done before."""
    kind: str
    language: str
    verdict: Verdict
    textual: Verdict
    """Of textual repetition, which asks no model."""
    withheld: str
    n_predicted: int
    n_passes: int
    ms: float


def run(
    settings: Settings, *, cases_path: Path, half: str, answers_path: Path | None, n_cases: int
) -> Report:
    """Ask for each case's next edit; those that ``answers_path`` has are kept."""
    records = _known(answers_path)
    asked = {(one.idx, one.is_done) for one in records}
    places = [
        (idx, case, is_done)
        for idx, case in enumerate(read(cases_path))
        for is_done in ((False, True) if case.kind in ("literal", "changed") else (False,))
        if half in ("all", case.half)
    ]
    random.Random(0).shuffle(places)  # noqa: S311 - some of them are to be of all languages
    left = [one for one in places if (one[0], one[2]) not in asked][: n_cases or None]
    with _window(settings) as window, RunProgress() as progress:
        task = progress.add_task("Cases", total=len(left))
        for idx, case, is_done in left:
            record = _asked(window, idx, case, is_done=is_done)
            records.append(record)
            if answers_path is not None:
                with answers_path.open("ab") as file:
                    file.write(msgspec.json.encode(record) + b"\n")
            progress.update(task, advance=1)
    return Report([_table(records, "kind"), _table(records, "language")], records)


@contextmanager
def _window(settings: Settings) -> Iterator[Window]:
    settings = replace(settings, persist=False, idle_work="never")
    completer = LocalCompleter(settings)
    window = Window(completer, settings)
    completer.start()
    try:
        yield window
    finally:
        window.close()


def _asked(window: Window, idx: int, case: CommitCase, *, is_done: bool) -> CaseRecord:
    before, text, cursor = case.place(is_done=is_done)
    nothing_follows = is_done or case.kind == "single"
    wanted = None if nothing_follows else case.made(case.everything)
    start, end, new = case.parts[case.first]
    started = time.perf_counter()
    uri = f"file:///{idx}/{case.path}"
    language = case.language.lower()
    window.open_document(
        Document(uri=uri, path=case.path, language_id=language, version=1, text=before)
    )
    window.change_document(uri, 2, text)
    request = EditRequest(uri=uri, version=2, offset=cursor, wait_for_model=True)
    result: EditResult = asyncio.run(window.next_edits.next_edit(request, CancellationToken()))
    window.close_document(uri)
    changed = [
        Hunk(one.start, one.end, text[one.start : one.end], one.text) for one in result.hunks
    ]
    again = changed_lines(text, textual_repetition(case.text[start:end], new, text))
    return CaseRecord(
        idx=idx,
        is_done=is_done,
        kind=f"{case.kind}, all done" if is_done else case.kind,
        language=case.language,
        verdict=verdict(text, changed, wanted),
        textual=verdict(text, again, wanted),
        withheld=result.withheld,
        n_predicted=result.stats.n_predicted,
        n_passes=result.stats.n_target_passes,
        ms=1000 * (time.perf_counter() - started),
    )


def _known(path: Path | None) -> list[CaseRecord]:
    if path is None or not path.exists():
        return []
    return [msgspec.json.decode(line, type=CaseRecord) for line in path.read_bytes().splitlines()]


def _table(records: Sequence[CaseRecord], by: str) -> Table:
    """Return shares of verdicts in per cent, those of textual repetition behind a slash."""
    table = Table(
        f"next edits, by {by}: % of the cases / of textual repetition",
        [by, "n", *_VERDICTS, "asks no model, %", "tokens a pass", "ms, p50"],
    )
    groups: defaultdict[str, list[CaseRecord]] = defaultdict(list)
    for one in records:
        quiet = ", quiet" if one.is_done or one.kind == "single" else ""
        groups[one.kind if by == "kind" else one.language + quiet].append(one)
    for name, ones in sorted(groups.items()):
        ours, textual = Counter(one.verdict for one in ones), Counter(one.textual for one in ones)
        n_passes = sum(one.n_passes for one in ones)
        n_silent = sum(not one.n_passes for one in ones)
        table.add(
            name,
            str(len(ones)),
            *(
                f"{100 * ours[each] / len(ones):.0f} / {100 * textual[each] / len(ones):.0f}"
                for each in _VERDICTS
            ),
            f"{100 * n_silent / len(ones):.0f}",
            f"{sum(one.n_predicted for one in ones) / max(1, n_passes):.1f}",
            f"{sorted(one.ms for one in ones)[len(ones) // 2]:.0f}",
        )
    return table
