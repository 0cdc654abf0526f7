"""The prompts of next-edit models, and what their answers mean.

A prompt shows recent changes and a region around the cursor; the answer is the region as it should
be.  All text has LF as its line end.

Sources, read in November 2026: Zed's ``crates/zeta_prompt`` and ``sweep_prompt.rs`` (formats Zeta
1, Zeta 2, Zeta 2.1 and Sweep's first one), and PyPI's sweep-autocomplete 0.1.1 (Sweep's second
one).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from speclsp.edits.analogy import Place, flush, indentation, latest_places, shown_pairs
from speclsp.errors import EditRefusedError
from speclsp.seam.documents import edit_between
from speclsp.seam.edit import Change

_CURSOR: Final = "<|cursor|>"
_USER_CURSOR: Final = "<|user_cursor|>"
_NO_EDIT: Final = frozenset(("", "NO_EDITS", "KEEP_PREVIOUS"))
"""Answers that stand for no edit."""
_BYTES_OF_TOKEN: Final = 3
"""Characters that Zed counts as a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSource:
    """What a prompt is made of."""

    path: str
    text: str
    cursor: int
    changes: Sequence[Change] = ()
    """The oldest first."""
    files: Sequence[tuple[str, str]] = ()
    """Paths and texts from other files."""


@dataclass(frozen=True, slots=True)
class Region:
    """Offsets of the lines that the answer rewrites, and of the context that is shown."""

    start: int
    end: int
    context_start: int
    context_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPrompt:
    """A prompt, and what reading its answer needs."""

    text: str
    region: Region
    old: str
    """The region's text."""
    prefill: str = ""
    """The beginning of the region, which the prompt ends with and the answer continues."""
    again: str = ""
    """The region as it is with the latest change made again; empty where that is not known."""
    expected: str = ""
    """How the answer begins that makes the region ``again``, as far as it tells so; empty where
    the answer is read whole."""


class EditFormat(ABC):
    """A prompt format."""

    is_plain = False
    """Whether it is for models that were not trained for next edits: a prompt begins as their texts
    do, and their tokens of other prompts end an answer."""

    name: str
    control: tuple[str, ...]
    """Names of special tokens that must be single tokens of the vocabulary."""
    marks: tuple[str, ...]
    """Further texts that the format's prompts give a meaning."""
    stops: tuple[str, ...]
    """Texts that end an answer."""
    shows_files = True
    """Whether prompts have a place for other files."""
    shown: re.Pattern[str]
    """Finds the region in a prompt: its group ``old``, and ``prefill`` where the format has one."""

    def mark_in(self, *texts: str) -> str:
        """Return a name in the texts that the format gives a meaning; "" for none."""
        names = (*self.control, *self.marks)
        return next((name for text in texts for name in names if name in text), "")

    @abstractmethod
    def region(self, text: str, cursor: int) -> Region:
        """Return the region around a cursor."""

    def prompts(self, source: EditSource) -> list[EditPrompt]:
        """Return the prompts of all regions that are asked about, in turn; most formats have one.

        Raises what :meth:`prompt` does.
        """
        return [self.prompt(source)]

    def prompt(self, source: EditSource, region: Region | None = None) -> EditPrompt:
        """Write the prompt.

        Raises :class:`~speclsp.errors.EditRefusedError` where a text holds a name that the format
        gives a meaning: the model could not tell it from the prompt's own.
        """
        region = region or self.region(source.text, source.cursor)
        self._check(source)
        return self._prompt(source, region)

    def _check(self, source: EditSource) -> None:
        if mark := self.mark_in(*_texts(source)):
            raise EditRefusedError(
                f"no next edit: the text holds {mark!r}, which has a meaning in the model's "
                "prompts.",
                remedy="Edit this place by hand.",
            )

    @abstractmethod
    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        """Write the prompt of a source that was checked."""

    def answer(self, prompt: EditPrompt, new: str) -> str:
        """Return the answer that makes the region ``new``: what drafts are taken from."""
        return new.removeprefix(prompt.prefill)

    def unchanged(self, prompt: str) -> str | None:
        """Return the answer that changes nothing, for a prompt that another program wrote.

        None where the prompt is not of this format.
        """
        found = self.shown.match(prompt)
        if found is None:
            return None
        old = found["old"].replace(_CURSOR, "").replace(_USER_CURSOR, "")
        return old.removeprefix(found.groupdict().get("prefill", ""))

    def rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        """Return the region's new text by an answer; None if it is no edit."""
        return self._rewritten(prompt, answer) if answer.strip() not in _NO_EDIT else None

    @abstractmethod
    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None: ...


# Sweep


class _Sweep(EditFormat):
    control = ("<|file_sep|>",)
    marks = (_CURSOR, "<|endoftext|>")
    stops = ("<|file_sep|>", "</s>", "<|endoftext|>")
    shown = re.compile(
        r".*<\|file_sep\|>current/[^\n]*\n(?P<old>(?:(?!<\|file_sep\|>).)*)"
        r"<\|file_sep\|>updated/[^\n]*\n(?P<prefill>(?:(?!<\|file_sep\|>).)*)\Z",
        re.DOTALL,
    )
    n_above: int
    n_below: int

    def region(self, text: str, cursor: int) -> Region:
        """Return a number of lines above and below the cursor's."""
        starts = _line_starts(text)
        line = _line_of(starts, cursor)
        start = starts[max(0, line - self.n_above)]
        end = [*starts, len(text)][min(line + self.n_below + 1, len(starts))]
        return Region(start, end, start, end)

    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        # Trailing line ends differ from the region's in many answers.
        new = (prompt.prefill + answer).replace(_CURSOR, "").rstrip("\n")
        return new + prompt.old[len(prompt.old.rstrip("\n")) :]


class Sweep21(_Sweep):
    """Windows of 21 lines, as in Zed.  Untested against real prompts."""

    name = "sweep-21"
    n_above = n_below = 10
    _N_CHANGES: Final = 3
    _N_LINES: Final = 40

    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        path, old = source.path, source.text[region.start : region.end]
        parts = [f"{file_path}\n{_ended(text)}" for file_path, text in source.files]
        parts += [
            f"{change.path}.diff\noriginal:\n{self._cut(change.old)}updated:\n"
            f"{self._cut(change.new)}"
            for change in source.changes[-self._N_CHANGES :]
        ]
        earlier = _taken_back(old, [one for one in source.changes if one.path == path][-1:])
        parts += [f"original/{path}\n{_ended(earlier)}", f"current/{path}\n{_ended(old)}"]
        text = "".join(f"<|file_sep|>{part}" for part in [*parts, f"updated/{path}\n"])
        return EditPrompt(text=text, region=region, old=old)

    def _cut(self, text: str) -> str:
        return _ended("".join(lines_of(text)[: self._N_LINES]))


class Sweep8(_Sweep):
    """Blocks of eight lines behind the whole file, as in sweep-autocomplete."""

    name = "sweep-8"
    n_above, n_below = 2, 5
    _N_WHOLE: Final = 800
    _N_SHOWN: Final = 300
    _STRIDE: Final = 150
    _N_CHANGES: Final = 6
    _N_FILE_CHARS: Final = 2048 * 7 // 2
    """2,048 tokens of other files, 3.5 characters each."""

    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        path, text = source.path, source.text
        old = text[region.start : region.end]
        parts = [f"{path}\n{_ended(self._shown(text, source.cursor))}"]
        n_left = self._N_FILE_CHARS
        for file_path, file_text in source.files:
            n_left -= len(file_text)
            if n_left < 0:
                break
            parts.append(f"{file_path}\n{_ended(file_text)}")
        changes = [one for one in source.changes if one.old.split() != one.new.split()]
        for change in changes[-self._N_CHANGES :]:
            above = "".join(lines_of(change.before)[-1:])
            below = "".join(lines_of(change.after)[:1])
            was, now = (
                _ended((above + lines + below).strip("\n")) for lines in (change.old, change.new)
            )
            first = change.line - bool(above)
            where = f"{change.path}:{first + 1}:{first + now.count(chr(10))}"
            parts.append(f"{where}\noriginal:\n{was}updated:\n{now}")
        of_file = [one for one in source.changes if one.path == path]
        first_line = text.count("\n", 0, region.start) + 1
        where = f"{path}:{first_line}:{first_line + len(old.splitlines()) - 1}"
        at = source.cursor - region.start
        parts += [
            f"original/{where}\n{_ended(_taken_back(old, of_file))}",
            f"current/{where}\n{_ended(old[:at] + _CURSOR + old[at:])}",
        ]
        prefill = self._prefill(old, at, source.changes)
        parts.append(f"updated/{where}\n{prefill}")
        prompt = "".join(f"<|file_sep|>{part}" for part in parts)
        return EditPrompt(text=prompt, region=region, old=old, prefill=prefill)

    def _shown(self, text: str, cursor: int) -> str:
        """Return the whole text, or lines around the cursor that seldom change as it moves."""
        lines = lines_of(text)
        if len(lines) <= self._N_WHOLE:
            return text
        line = _line_of(_line_starts(text), cursor)
        first = max(0, (line // self._STRIDE - 1) * self._STRIDE)
        return "".join(lines[first : first + self._N_SHOWN + self._STRIDE])

    @staticmethod
    def _prefill(old: str, cursor: int, changes: Sequence[Change]) -> str:
        """Return the block's first line and the blank ones after it, above the cursor's."""
        above = lines_of(old[:cursor])
        if not changes or len(above) < 2:
            return ""
        prefill = above[0]
        rest = old[len(prefill) : cursor]
        return prefill + rest[: len(rest) - len(rest.lstrip("\n"))]


# Zeta


class _Zeta(EditFormat):
    n_region: int
    """Tokens of the region."""
    n_context: int
    """Tokens of the text around it."""
    n_changes = 6
    n_change_bytes = 6144

    def region(self, text: str, cursor: int) -> Region:
        """Return whole lines around the cursor, the same number of tokens above and below."""
        starts = [*_line_starts(text), len(text)]
        line = _line_of(starts[:-1], cursor)
        inner = _grown(starts, line, line + 1, self.n_region)
        outer = _grown(starts, *inner, self.n_context)
        start, end, context_start, context_end = (starts[place] for place in (*inner, *outer))
        return Region(start, end, context_start, context_end)

    def _events(self, changes: Sequence[Change], write: Callable[[Change], str]) -> list[str]:
        """Return the latest changes that are not too large, the oldest first."""
        events = [write(change) for change in changes]
        return [one for one in events if len(one.encode()) <= self.n_change_bytes][
            -self.n_changes :
        ]


class Zeta1(_Zeta):
    """An instruction, the changes and an excerpt."""

    name = "zeta-1"
    shows_files = False
    control = ()
    marks = (
        "<|start_of_file|>",
        "<|editable_region_start|>",
        "<|editable_region_end|>",
        "<|user_cursor_is_here|>",
    )
    stops = ("<|editable_region_end|>",)
    shown = re.compile(
        r".*(?P<old><\|editable_region_start\|>\n.*?)\n<\|editable_region_end\|>"
        r".*### Response:\n\Z",
        re.DOTALL,
    )
    n_region, n_context = 150, 350
    _START: Final = "<|editable_region_start|>\n"
    _CURSOR_HERE: Final = "<|user_cursor_is_here|>"
    _INSTRUCTION: Final = (
        "### Instruction:\nYou are a code completion assistant and your task is to analyze user "
        "edits and then rewrite an excerpt that the user provides, suggesting the appropriate "
        "edits within the excerpt, taking into account the cursor location.\n\n### User Edits:\n\n"
    )

    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        text, cursor = source.text, source.cursor
        events = "\n\n".join(self._events(source.changes, self._event))
        old = text[region.start : region.end]
        shown = old.removesuffix("\n")
        at = min(cursor - region.start, len(shown))
        after = _ended(text[region.end - len(old) + len(shown) : region.context_end]) or "\n"
        first = "<|start_of_file|>\n" if region.context_start == 0 else ""
        excerpt = (
            f"```{source.path}\n{first}{text[region.context_start : region.start]}{self._START}"
            f"{shown[:at]}{self._CURSOR_HERE}{shown[at:]}\n<|editable_region_end|>"
            f"{after}```"
        )
        prompt = f"{self._INSTRUCTION}{events}\n\n### User Excerpt:\n\n{excerpt}\n\n### Response:\n"
        return EditPrompt(text=prompt, region=region, old=old)

    @staticmethod
    def _event(change: Change) -> str:
        return f'User edited "{change.path}":\n```diff\n{_hunk(change)}```'

    def answer(self, prompt: EditPrompt, new: str) -> str:
        """Return the region behind its mark."""
        return self._START + super().answer(prompt, new).removesuffix("\n")

    def unchanged(self, prompt: str) -> str | None:
        """Return the region behind its mark, as another program's prompt shows it."""
        found = super().unchanged(prompt)
        return found.replace(self._CURSOR_HERE, "") if found is not None else None

    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        new = answer.replace(self._CURSOR_HERE, "")
        new = new.partition(self._START)[2] if self._START in new else new
        return new.removesuffix("\n") + ("\n" if prompt.old.endswith("\n") else "")


class _Seed(_Zeta):
    control = ("<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>")
    n_region, n_context = 350, 150

    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        text, old = source.text, source.text[region.start : region.end]
        at = source.cursor - region.start
        files = "".join(f"<filename>{path}\n{_ended(shown)}" for path, shown in source.files)
        events = self._events(source.changes, self._event)
        history = f"<filename>edit_history\n{chr(10).join(events)}\n" if events else ""
        after = _ended(text[region.end : region.context_end]) or "\n"
        prompt = (
            f"<[fim-suffix]>{after}"
            f"<[fim-prefix]>{files and files + chr(10)}{history}"
            f"<filename>{source.path}\n{text[region.context_start : region.start]}"
            f"{self._shown(old, at)}<[fim-middle]>"
        )
        return EditPrompt(text=prompt, region=region, old=old)

    @staticmethod
    def _event(change: Change) -> str:
        said = "// User accepted prediction:\n" if change.is_accepted else ""
        return f"{said}--- a/{change.path}\n+++ b/{change.path}\n{_hunk(change)}"

    @abstractmethod
    def _shown(self, old: str, cursor: int) -> str:
        """Return the region as prompts show it."""


class Zeta2(_Seed):
    """The region between the marks of a merge conflict (``V0211SeedCoder``)."""

    name = "zeta-2"
    marks = ("<filename>", "<<<<<<< CURRENT", ">>>>>>> UPDATED", _USER_CURSOR)
    stops = (">>>>>>> UPDATED",)
    shown = re.compile(r".*<<<<<<< CURRENT\n(?P<old>.*)=======\n<\[fim-middle\]>\Z", re.DOTALL)

    def _shown(self, old: str, cursor: int) -> str:
        region = _ended(f"{old[:cursor]}{_USER_CURSOR}{old[cursor:]}")
        return f"<<<<<<< CURRENT\n{region}=======\n"

    def answer(self, prompt: EditPrompt, new: str) -> str:
        """Return the region; the mark after it ends the answer."""
        return _ended(super().answer(prompt, new))

    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        new = answer.replace(_USER_CURSOR, "")
        return new if prompt.old.endswith("\n") else new.removesuffix("\n")


class Zeta21(_Seed):
    """Numbered blocks, of which the answer is one span (``V0318SeedMultiRegions``).

    Untested against real prompts.
    """

    name = "zeta-2.1"
    marks = ("<filename>", "<|marker_", _USER_CURSOR)
    stops = ("<[end\u2581of\u2581sentence]>",)
    shown = re.compile(
        r".*(?P<old><\|marker_1\|>.*<\|marker_\d+\|>)\n?<\[fim-middle\]>\Z", re.DOTALL
    )
    _MARK: Final = re.compile(r"<\|marker_(\d+)\|>")
    _LEAST: Final = 6
    _MOST: Final = 16
    _AHEAD: Final = 5

    def _shown(self, old: str, cursor: int) -> str:
        places = self._blocks(old)
        shown: list[str] = []
        is_shown = False
        for number, (start, end) in enumerate(pairwise(places), 1):
            block = old[start:end]
            if not is_shown and start <= cursor <= end:
                is_shown = True
                block = f"{block[: cursor - start]}{_USER_CURSOR}{block[cursor - start :]}"
            shown.append(f"<|marker_{number}|>{block}")
        return _ended("".join(shown) + f"<|marker_{len(places)}|>")

    def answer(self, prompt: EditPrompt, new: str) -> str:
        """Return the blocks that differ, between their marks."""
        old = prompt.old
        places = self._blocks(old)
        edit = edit_between(old, new)
        first = max(number for number, place in enumerate(places) if place <= edit.start)
        first = min(first, len(places) - 2)
        last = next(n for n, place in enumerate(places) if place >= edit.end and n > first)
        texts = [
            *(old[start:end] for start, end in pairwise(places[first:last])),
            new[places[last - 1] : len(new) - (len(old) - places[last])],
        ]
        marked = (f"<|marker_{number}|>{text}" for number, text in enumerate(texts, first + 1))
        return "".join(marked) + f"<|marker_{last + 1}|>"

    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        found = list(self._MARK.finditer(answer))
        if len(found) < 2:
            return None
        places = self._blocks(prompt.old)
        first, last = int(found[0][1]) - 1, int(found[-1][1]) - 1
        if not 0 <= first < last < len(places):
            return None
        texts = [answer[mark.end() : following.start()] for mark, following in pairwise(found)]
        if any(text.startswith("\n") for text in texts[:1]) and not prompt.old[
            places[first] :
        ].startswith("\n"):
            # A line end behind the marks, which prompts of earlier versions have.
            texts = [text.removeprefix("\n") for text in texts]
        new = "".join(texts).replace(_USER_CURSOR, "")
        return prompt.old[: places[first]] + new + prompt.old[places[last] :]

    def _blocks(self, text: str) -> list[int]:
        """Return where the blocks begin, and the text's end.

        A block has at least six lines, and as a rule at most sixteen; it ends before a line after
        blank ones if it can, and does not begin with a closing bracket or a lone jump.
        """
        lines = lines_of(text)
        starts = _line_starts(text)
        places, last, line = [0], 0, 0
        while line < len(lines):
            n_lines = line - last
            after_blank = line > 0 and lines[line].strip() and not lines[line - 1].strip()
            is_full = n_lines >= self._MOST
            if is_full or (n_lines >= self._LEAST and after_blank):
                ahead = range(line, min(len(lines), line + self._AHEAD))
                place = next((one for one in ahead if _begins_block(lines[one])), line)
                if is_full or len(lines) - place >= self._LEAST:
                    places.append(starts[place])
                    last = line = place
            line += 1
        return [*places, len(text)]


# Models that were not trained for next edits


class Analogy(EditFormat):
    """The latest edit as an example, and one place that it may concern.

    The prompts of an edit's places have their beginnings in common, and lines are shown without
    their indentation.
    """

    name = "analogy"
    is_plain = True
    shows_files = False
    control = ()
    marks = ("--- before\n", "+++ after\n")
    stops = ("--- before",)
    shown = re.compile(
        r".*--- before\n(?P<old>(?:(?!\+\+\+ after\n).)*)\+\+\+ after\n\Z", re.DOTALL
    )

    def region(self, text: str, cursor: int) -> Region:
        """Return the cursor's line."""
        start = text.rfind("\n", 0, cursor) + 1
        end = text.find("\n", cursor) + 1 or len(text)
        return Region(start, end, start, end)

    def prompts(self, source: EditSource) -> list[EditPrompt]:
        """Return a prompt for each place that the latest edit may concern, the nearest first."""
        found = latest_places(source.text, source.path, source.cursor, source.changes)
        if found:
            self._check(source)
        return [
            self._of(source, Region(one.start, one.end, one.start, one.end), one) for one in found
        ]

    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        return self._of(source, region, None)

    def _of(self, source: EditSource, region: Region, place: Place | None) -> EditPrompt:
        old = source.text[region.start : region.end]
        pairs = shown_pairs(source.changes, place)
        parts = [f"{source.path}\n"]
        parts += [f"--- before\n{one.old}\n+++ after\n{one.new}\n" for one in pairs]
        shown = _ended(flush(old.split("\n")))
        parts.append(f"--- before\n{shown}+++ after\n")
        if place is None:
            return EditPrompt(text="".join(parts), region=region, old=old)
        parts.append(place.given)
        return EditPrompt(
            text="".join(parts),
            region=region,
            old=old,
            prefill=place.given,
            again=_indented(place.guess, old),
            expected=_ended(place.guess)[len(place.given) : place.n_needed + 1],
        )

    def answer(self, prompt: EditPrompt, new: str) -> str:
        """Return the lines without the place's indentation."""
        depth = len(indentation(prompt.old.split("\n")))
        return _ended(flush(new.split("\n"), depth)).removeprefix(prompt.prefill)

    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        if prompt.expected:
            return prompt.again if answer.startswith(prompt.expected) else prompt.old
        lines = answer.rstrip("\n")
        return _indented(lines, prompt.old) if lines.strip() else None


def _indented(text: str, old: str) -> str:
    """Return lines in the place of ``old`` ones: indented as these are, and ended if they are."""
    indent = indentation(old.split("\n"))
    lines = (indent + line if line else line for line in text.split("\n"))
    return "\n".join(lines) + ("\n" if old.endswith("\n") else "")


FORMATS: Final[dict[str, EditFormat]] = {
    one.name: one for one in (Sweep8(), Sweep21(), Zeta1(), Zeta2(), Zeta21(), Analogy())
}


def format_of(name: str, find_token: Callable[[str], int | None]) -> EditFormat | None:
    """Return the format of a model by its name or path and its vocabulary; None if it has none.

    ``find_token`` returns the id of a special token by its name, or None.
    """
    lowered = name.lower()
    wanted = ""
    if "sweep" in lowered and "edit" in lowered:
        wanted = Sweep8.name
    elif "embedded-edit" in lowered:
        wanted = Sweep21.name
    elif "zeta" in lowered:
        wanted = Zeta1.name
        if re.search(r"zeta[-_ ]?2", lowered):
            wanted = Zeta21.name if re.search(r"zeta[-_ ]?2[._]1", lowered) else Zeta2.name
    found = FORMATS.get(wanted)
    return found if found is not None and not missing_tokens(found, find_token) else None


def missing_tokens(one: EditFormat, find_token: Callable[[str], int | None]) -> list[str]:
    """Return the names of a format's special tokens that are no single tokens."""
    return [name for name in one.control if find_token(name) is None]


# Texts


def _hunk(change: Change) -> str:
    """Return a unified diff's hunk."""
    before, old, new, after = (
        text.splitlines() for text in (change.before, change.old, change.new, change.after)
    )
    first = change.line - len(before) + 1
    n_same = len(before) + len(after)
    lines = [
        f"@@ -{first},{len(old) + n_same} +{first},{len(new) + n_same} @@",
        *(f" {line}" for line in before),
        *(f"-{line}" for line in old),
        *(f"+{line}" for line in new),
        *(f" {line}" for line in after),
    ]
    return "".join(f"{line}\n" for line in lines)


def _taken_back(text: str, changes: Sequence[Change]) -> str:
    """Return the text before the changes, as far back as they are found in it."""
    for change in reversed(changes):
        if not change.new.strip() or change.new not in text:
            break
        text = text.replace(change.new, change.old, 1)
    return text


def _texts(source: EditSource) -> list[str]:
    texts = [source.path, source.text]
    for change in source.changes:
        texts += change.texts
    for path, text in source.files:
        texts += (path, text)
    return texts


def _begins_block(line: str) -> bool:
    stripped = line.strip()
    jumps = ("break", "continue", "return", "throw", "end")
    return bool(stripped) and stripped[0] not in "}])" and stripped.rstrip(";") not in jumps


def _grown(starts: Sequence[int], first: int, last: int, n_tokens: int) -> tuple[int, int]:
    """Return lines around ``first`` to ``last``, up to ``n_tokens`` more, in equal parts.

    ``starts`` are the lines' offsets and the text's length.
    """
    left = n_tokens * _BYTES_OF_TOKEN
    above, below = first, last
    while True:
        up = starts[above] - starts[above - 1] if above > 0 else left + 1
        down = starts[below + 1] - starts[below] if below + 1 < len(starts) else left + 1
        is_up = up <= left and (down > left or first - above <= below - last)
        if not is_up and down > left:
            return above, below
        if is_up:
            above -= 1
            left -= up
        else:
            below += 1
            left -= down


def _line_starts(text: str) -> list[int]:
    """Return the offset of each line; a text that ends with a line end has no line behind it."""
    starts = list(accumulate(map(len, lines_of(text)), initial=0))
    return starts[:-1] or starts


def _line_of(starts: Sequence[int], offset: int) -> int:
    return bisect_right(starts, offset) - 1


def _ended(text: str) -> str:
    """Return the text with a line end, if it lacks one."""
    return text if not text or text.endswith("\n") else text + "\n"


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends; only LF ends one."""
    return [line for line in re.split("(?<=\n)", text) if line]
