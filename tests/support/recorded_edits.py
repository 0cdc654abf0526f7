"""What next-edit models really answered: fixtures/next_edit/recorded.jsonl.

98 prompts of cursortab.nvim's evaluation (MIT) with the answers of five models.  Its prompts for
Zeta 1 and Zeta 2 are as their models want them; those for Sweep's models take the whole file as the
block.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from speclsp.edits.formats import (
    FORMATS,
    EditFormat,
    EditPrompt,
    EditSource,
    Region,
    Sweep8,
    Zeta1,
    Zeta2,
)
from speclsp.seam.edit import Change

RECORDED: Final = Path(__file__).parents[2] / "fixtures" / "next_edit" / "recorded.jsonl"
_HUNK: Final = re.compile(r"^@@ .* @@\n((?:[-+].*\n?)+)", re.MULTILINE)
_PATH: Final = re.compile(r'(?:\+\+\+ b/|User edited ")([^"\n]+)')
_ACCEPTED: Final = "// User accepted prediction:\n"


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A prompt as it was sent, read back, and the answer to it."""

    model: str
    scenario: str
    sent: str
    answer: str
    is_whole: bool
    buffer: str
    """The file at the scenario's start; later prompts of a scenario show it changed."""
    expected: str
    is_quiet: bool
    """Whether nothing should be suggested."""
    is_first: bool
    """Whether it is the scenario's first prompt."""
    edit_format: EditFormat
    source: EditSource
    prompt: EditPrompt
    """The prompt sent, with the region and the prefill that it has."""

    @property
    def changes(self) -> Sequence[Change]:
        """The earlier changes."""
        return self.source.changes


def recorded_answers(path: Path = RECORDED) -> list[RecordedAnswer]:
    """Read all recorded answers."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_read(json.loads(line)) for line in lines]


def _read(row: dict[str, Any]) -> RecordedAnswer:
    sent = row["prompt"]
    edit_format, context, shown, rest, prefill, mark = _parts(row["model"], sent)
    old = shown.replace(mark, "")
    start = len(context)
    region = Region(start, start + len(old), 0, start + len(old) + len(rest))
    source = EditSource(
        path=row["file"],
        text=context + old + rest,
        cursor=start + shown.index(mark),
        changes=_changes(row["history"]) if row["model"].startswith("sweep") else _diffs(sent),
    )
    return RecordedAnswer(
        model=row["model"],
        scenario=row["scenario"],
        sent=sent,
        answer=row["answer"],
        is_whole=row["finish"] == "stop",
        buffer=row["buffer"],
        expected=row["expected"],
        is_quiet=row["suppress"],
        is_first=row["interaction"] == 0,
        edit_format=edit_format,
        source=source,
        prompt=EditPrompt(text=sent, region=region, old=old, prefill=prefill),
    )


def _parts(model: str, sent: str) -> tuple[EditFormat, str, str, str, str, str]:
    """Return the format, the text before the region, region, text after it, prefill, cursor."""
    if model.startswith("sweep"):
        found = re.search(
            r"<\|file_sep\|>current/[^\n]*\n(.*?)<\|file_sep\|>updated/[^\n]*\n(.*)\Z",
            sent,
            re.DOTALL,
        )
        assert found is not None
        return FORMATS[Sweep8.name], "", found[1], "", found[2], "<|cursor|>"
    if model == "zeta-2":
        found = re.search(
            r"<\[fim-suffix\]>(.*)<\[fim-prefix\]>.*<filename>[^\n]*\n(.*)"
            r"<<<<<<< CURRENT\n(.*?)=======\n<\[fim-middle\]>\Z",
            sent,
            re.DOTALL,
        )
        assert found is not None
        rest = found[1] if found[1] != "\n" else ""
        return FORMATS[Zeta2.name], found[2], found[3], rest, "", "<|user_cursor|>"
    found = re.search(
        r"<\|start_of_file\|>\n(.*?)<\|editable_region_start\|>\n(.*?)\n"
        r"<\|editable_region_end\|>(.*)```\n\n### Response",
        sent,
        re.DOTALL,
    )
    assert found is not None
    assert found[3] == "\n"
    return FORMATS[Zeta1.name], found[1], found[2] + "\n", "", "", "<|user_cursor_is_here|>"


def _changes(history: str) -> list[Change]:
    """Return the changes of a scenario's history."""
    found = re.findall(
        r"<\|file\|> (.*?)\n<\|old\|>\n(.*?)<\|new\|>\n(.*?)(?=<\|file\|>|\Z)", history, re.DOTALL
    )
    return [
        Change(path=path, line=0, old=old.rstrip("\n") + "\n", new=new.rstrip("\n") + "\n")
        for path, old, new in found
    ]


def _diffs(sent: str) -> list[Change]:
    """Return the changes of a prompt's diffs."""
    changes: list[Change] = []
    for found in _HUNK.finditer(sent):
        lines = found[1].splitlines()
        paths = _PATH.findall(sent, 0, found.start())
        before = sent[: found.start()].rpartition("--- a/")[0]
        changes.append(
            Change(
                path=paths[-1],
                line=0,
                old="".join(f"{line[1:]}\n" for line in lines if line.startswith("-")),
                new="".join(f"{line[1:]}\n" for line in lines if line.startswith("+")),
                is_accepted=before.endswith(_ACCEPTED),
            )
        )
    return changes
