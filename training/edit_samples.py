"""Samples of next edits in the format ``sweep-21``: changes that were made, and what follows them.

Some are real: two releases of a file replace the same words at several places.  The others are
made: a name, an annotated type or a function's parameters change at one place, and the uses follow.
In a third of them nothing follows.
"""

from __future__ import annotations

import keyword
import random
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate
from typing import Final

from speclsp.edits.edit import Hunk, hunks, repeated
from speclsp.edits.formats import FORMATS, EditSource, Region, lines_of
from speclsp.errors import EditRefusedError
from speclsp.seam.edit import Change
from training.corpus import SourceFile
from training.layouts import Encode, Sample, SpecialTokens
from training.samples import CHARS_PER_TOKEN, Mix, SampleStream

FORMAT: Final = FORMATS["sweep-21"]
_KINDS: Final = {"released": 0.15, "name": 0.55, "type": 0.1, "parameter": 0.2}
"""Kinds of changes, and how often they are tried."""
_QUIET: Final = 1 / 3
"""Share of the examples in which nothing follows."""
_N_LINES: Final = 10
"""Of the region, above the cursor's line and below it."""
_LEAST_LINES: Final = 2
_N_CHANGES: Final = 3
_N_NEAR: Final = 12
"""Hunks between two that are compared."""
_PROMPT_WEIGHT: Final = 0.02
_MOST_BYTES: Final = 1.02
"""Per character of a file."""
_N_FILES: Final = 4
_WITH_FILES: Final = 0.4
_N_LINE_CHARS: Final = 40
"""Of a line, on average."""

_NAME: Final = re.compile(r"\b[A-Za-z_]\w{2,}\b")
_TYPED: Final = re.compile(r"\b(?!type\b)([a-z_]\w+): ([A-Za-z_][\w.]*)\b")
_FUNCTION: Final = re.compile(
    r"^[ \t]*(?:async |export |local |static )*(?:def|function) +([A-Za-z_]\w+)\(([^()\n]*)\)",
    re.MULTILINE,
)
_WORDS: Final = frozenset(keyword.kwlist) | set(
    re.findall(
        r"\w+",
        """self this const let var function end then local elseif new static void int char struct
        typedef export extends implements interface public private null true false undefined switch
        case default throw catch typeof instanceof nil the that are can will its""",
    )
)
"""Words that are not renamed: those of the languages, and what comments are full of."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text with changes made, the region around the cursor, and how it is to be rewritten."""

    source: EditSource
    region: Region
    new: str
    kind: str = ""

    @property
    def old(self) -> str:
        """The region as it is."""
        return self.source.text[self.region.start : self.region.end]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing follows."""
        return self.old == self.new


@dataclass(frozen=True, slots=True)
class _Release:
    """What changed between two releases of a file, and which hunks repeat an earlier one's words.

    Offsets of ``hunks`` are those of ``earlier``; ``pairs`` has indices of hunks.
    """

    earlier: str
    hunks: list[Hunk]
    pairs: list[tuple[int, int]]


@lru_cache(maxsize=4096)
def _changed(earlier: str, text: str) -> _Release:
    changed = hunks(earlier, text)
    pairs = [
        (first, later)
        for later, hunk in enumerate(changed)
        for first in range(max(0, later - _N_NEAR), later)
        if repeated(hunk.old, _change("", earlier, 0, changed[first])) == hunk.new
    ]
    return _Release(earlier, changed, pairs)


def repeats_words(earlier: str, text: str) -> bool:
    """Whether a release replaces the same words in two places at least."""
    return bool(_changed(earlier, text).pairs)


def _change(path: str, text: str, start: int, hunk: Hunk) -> Change:
    """Return a hunk that begins at an offset of ``text``, where it has been made."""
    above, below = text[:start], text[start + len(hunk.new) :]
    return Change(
        path=path,
        line=above.count("\n"),
        old=hunk.old,
        new=hunk.new,
        before="".join(lines_of(above[-600:])[-3:]),
        after="".join(lines_of(below[:600])[:3]),
    )


def edit_sample(example: Example, special: SpecialTokens, encode: Encode, end: float) -> Sample:
    """Lay out one sample; tokens that change, and the end, count ``end``.

    Raises EditRefusedError where a text holds one of the format's marks.
    """
    prompt = FORMAT.prompt(example.source, example.region)
    sample = Sample()
    for part in prompt.text.split(FORMAT.control[0])[1:]:
        sample.add([special.separator], 0.0)
        sample.add(encode(part), _PROMPT_WEIGHT)
    answer = encode(example.new)
    changed: set[int] = set()
    matcher = SequenceMatcher(None, encode(example.old), answer, autojunk=False)
    for kind, _, _, start, stop in matcher.get_opcodes():
        if kind != "equal":
            # Where tokens are deleted, going on behind them is what is to be learned.
            changed.update(range(start, max(stop, start + 1)))
    for idx, token in enumerate(answer):
        sample.add([token], end if idx in changed else 1.0)
    sample.add([special.end], end)
    sample.close()
    return sample


class Examples:
    """Draws examples from files, and from their earlier releases where there are any."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        earlier: Mapping[tuple[str, str], str],
        *,
        rng: random.Random,
    ) -> None:
        """``earlier`` has texts by package and path.

        Files with much text beyond ASCII are left out: the tokenizer spells it in bytes.
        """
        files = [one for one in files if len(one.text.encode()) < _MOST_BYTES * len(one.text)]
        self._files = files
        self._earlier = earlier
        self._rng = rng
        self._released = [one for one in files if (one.package, one.path) in earlier]
        self._ends = [0]
        for file in files:
            self._ends.append(self._ends[-1] + len(file.text))

    def draw(self, n_lines: int = _N_LINES, *, is_quiet: bool | None = None) -> Example:
        """Draw one example with ``n_lines`` of region above and below the cursor's line."""
        if is_quiet is None:
            is_quiet = self._rng.random() < _QUIET
        while True:
            (kind,) = self._rng.choices(list(_KINDS), list(_KINDS.values()))
            if kind == "released" and not self._released:
                continue
            found = self._one(kind, n_lines, is_quiet=is_quiet)
            if found is not None and found.is_quiet == is_quiet:
                return replace(found, kind=kind)

    def _one(self, kind: str, n_lines: int, *, is_quiet: bool) -> Example | None:
        if kind == "released":
            return self._release(n_lines, is_quiet=is_quiet)
        if kind == "parameter":
            return self._parameter(n_lines, is_quiet=is_quiet)
        file = self._file()
        lines = lines_of(file.text)
        at = self._rng.randrange(len(lines))
        window = "".join(lines[max(0, at - n_lines) : at + n_lines + 1])
        find = self._new_name if kind == "name" else self._new_type
        replaced = find(file.text, window)
        if replaced is None:
            return None
        pattern, new = replaced
        return self._substituted(
            file, lines, at, n_lines, lambda line: pattern.sub(new, line), is_quiet=is_quiet
        )

    def _file(self) -> SourceFile:
        position = self._rng.randrange(self._ends[-1])
        return self._files[bisect_right(self._ends, position) - 1]

    def _release(self, n_lines: int, *, is_quiet: bool) -> Example | None:
        """Make the hunks of a release up to one; those that repeat its words follow."""
        file = self._rng.choice(self._released)
        release = _changed(self._earlier[file.package, file.path], file.text)
        done, near = self._rng.choice(release.pairs)
        if is_quiet:
            done = near = self._rng.randrange(len(release.hunks))
        parts, text = [], ""
        for idx, hunk in enumerate(release.hunks):
            text += release.earlier[release.hunks[idx - 1].end if idx else 0 : hunk.start]
            parts.append((len(text), hunk))
            text += hunk.new if idx <= done else hunk.old
        text += release.earlier[release.hunks[-1].end :]
        changes = [
            _change(file.path, text, start, hunk)
            for start, hunk in parts[max(0, done - _N_CHANGES + 1) : done + 1]
        ]
        start, hunk = parts[done]
        cursor = start + len(hunk.new)
        if near != done and text.count("\n", cursor, parts[near][0]) > n_lines // 2:
            cursor = parts[near][0]
        follows = [
            (start, hunk) for idx, (start, hunk) in enumerate(parts) if (done, idx) in release.pairs
        ]
        return self._example(file, text, changes, cursor, n_lines, follows)

    def _new_name(self, text: str, window: str) -> tuple[re.Pattern[str], str] | None:
        """Return a name that two lines of the window have, and another for it."""
        names = Counter(
            name for line in window.splitlines() for name in set(_NAME.findall(line)) - _WORDS
        )
        several = sorted(name for name, n_lines in names.items() if n_lines > 1)
        if not several:
            return None
        name = self._rng.choice(several)
        other = self._other_name(name)
        if other is None or re.search(rf"\b{re.escape(other)}\b", text):
            return None
        return re.compile(rf"\b{re.escape(name)}\b"), other

    def _new_type(self, text: str, window: str) -> tuple[re.Pattern[str], str] | None:
        """Return a name with its type that the window has twice, and the name with another type."""
        found = _TYPED.findall(window)
        several = [pair for pair in dict.fromkeys(found) if found.count(pair) > 1]
        if not several:
            return None
        name, kind = self._rng.choice(several)
        types = [kind for _, kind in _TYPED.findall(text)]
        other = self._rng.choice([*types, "str", "int", "float", "bytes", "Path", f"list[{kind}]"])
        if other == kind:
            return None
        return re.compile(rf"\b{name}: {re.escape(kind)}\b"), f"{name}: {other}"

    def _parameter(self, n_lines: int, *, is_quiet: bool) -> Example | None:
        """A function gets a parameter; its calls get an argument of the same name."""
        file = self._file()
        functions = list(_FUNCTION.finditer(file.text))
        if not functions:
            return None
        function = self._rng.choice(functions)
        added = self._other_name("")
        if added is None or re.search(rf"\b{re.escape(added)}\b", file.text):
            return None
        call = re.compile(rf"\b{re.escape(function[1])}\(([^()\n]*)\)")

        def substitute(line: str) -> str:
            return call.sub(
                lambda found: f"{function[1]}({', '.join(filter(None, (found[1], added)))})", line
            )

        lines = lines_of(file.text)
        defined = file.text.count("\n", 0, function.end())
        uses = [
            idx for idx, line in enumerate(lines) if idx != defined and substitute(line) != line
        ]
        if not uses:
            return None
        at = defined if is_quiet else self._rng.choice(uses)
        return self._substituted(
            file, lines, at, n_lines, substitute, is_quiet=is_quiet, first=defined
        )

    def _substituted(
        self,
        file: SourceFile,
        lines: list[str],
        at: int,
        n_lines: int,
        substitute: Callable[[str], str],
        *,
        is_quiet: bool,
        first: int | None = None,
    ) -> Example | None:
        """Make a substitution at some of the lines around ``at``, or first at line ``first``."""
        rng = self._rng
        around = range(max(0, at - n_lines), min(len(lines), at + n_lines + 1))
        uses = [idx for idx in around if substitute(lines[idx]) != lines[idx]]
        if first is not None:
            uses = [first, *(idx for idx in uses if idx != first)]
        if not uses:
            return None
        n_done = len(uses) if is_quiet else min(len(uses) - 1, rng.choice((1, 1, 1, 2, 3)))
        if n_done < 1:
            return None
        done = uses[:n_done]
        new = {idx: substitute(lines[idx]) for idx in done}
        now = [new.get(idx, line) for idx, line in enumerate(lines)]
        near = at if first is not None and not is_quiet else done[-1]
        cursor_line = min(len(lines) - 1, near + rng.choice((0, 1, 1, 2)))
        starts = [0, *accumulate(map(len, now))]
        follows = [
            (starts[idx], Hunk(0, 0, line, substitute(line)))
            for idx, line in enumerate(now)
            if idx not in new and substitute(line) != line
        ]
        text = "".join(now)
        changes = [
            _change(file.path, text, starts[idx], Hunk(0, 0, lines[idx], new[idx]))
            for idx in done[-_N_CHANGES:]
        ]
        return self._example(file, text, changes, starts[cursor_line], n_lines, follows)

    def _example(
        self,
        file: SourceFile,
        text: str,
        changes: Sequence[Change],
        cursor: int,
        n_lines: int,
        follows: Sequence[tuple[int, Hunk]],
    ) -> Example | None:
        """Return an example whose region has those of ``follows`` replaced that lie in it.

        None where the region cuts one of them.
        """
        starts = [0, *accumulate(map(len, lines_of(text)))]
        line = min(bisect_right(starts, cursor) - 1, len(starts) - 2)
        region_start = starts[max(0, line - n_lines)]
        region_end = starts[min(len(starts) - 1, line + n_lines + 1)]
        new, at = "", region_start
        for start, hunk in follows:
            end = start + len(hunk.old)
            if end <= region_start or start >= region_end:
                continue
            if start < region_start or end > region_end:
                return None
            new += text[at:start] + hunk.new
            at = end
        new += text[at:region_end]
        source = EditSource(path=file.path, text=text, cursor=starts[line], changes=changes)
        return Example(source, Region(region_start, region_end, region_start, region_end), new)

    def with_files(self, example: Example, n_lines: int) -> Example:
        """Return an example that shows up to ``n_lines`` lines of other files."""
        files: list[tuple[str, str]] = []
        while n_lines >= _LEAST_LINES and len(files) < _N_FILES:
            other = self._file()
            lines = lines_of(other.text)
            at, n_shown = self._rng.randrange(len(lines)), self._rng.randint(1, n_lines)
            n_lines -= n_shown
            if other.path != example.source.path:
                files.append((other.path, "".join(lines[at : at + n_shown])))
        return replace(example, source=replace(example.source, files=files))

    def _other_name(self, name: str) -> str | None:
        """Return a name for another, or any where it is empty: one of another file, or made."""
        rng = self._rng
        others = [one for one in set(_NAME.findall(self._file().text[:4000])) if one.islower()]
        others = sorted(set(others) - _WORDS)
        if not others:
            return None
        other: str = rng.choice(others)
        if not name or rng.random() < 0.5:
            return other
        prefix = name.rstrip("_")
        return rng.choice((f"{prefix}_{other}", f"{other}_{name}", f"{name}s", f"{name}2"))


class EditStream(SampleStream):
    """Draws samples of next edits; the same seed gives the same samples."""

    n_least = 320

    def __init__(
        self,
        files: Sequence[SourceFile],
        earlier: Mapping[tuple[str, str], str],
        *,
        special: SpecialTokens,
        encode: Encode,
        mix: Mix,
        seed: int,
    ) -> None:
        super().__init__(files, special=special, encode=encode, mix=mix, seed=seed)
        self._examples = Examples(files, earlier, rng=self._rng)

    def sample(self, n_tokens_max: int) -> Sample:
        """Draw one sample that is not longer than ``n_tokens_max``."""
        # Short regions show more edits, long ones what a whole prompt looks like.
        n_all = int(n_tokens_max * CHARS_PER_TOKEN / _N_LINE_CHARS)
        n_most = max(_LEAST_LINES, min(_N_LINES, n_all // 6))
        rng = self._rng
        while True:
            n_lines = n_most if rng.random() < 0.5 else rng.randint(1, n_most)
            example = self._examples.draw(n_lines)
            if rng.random() < _WITH_FILES:
                example = self._examples.with_files(example, n_all - 6 * n_lines - 10)
            try:
                sample = edit_sample(example, self._special, self._encode, self._mix.weights.middle)
            except EditRefusedError:
                continue
            if len(sample.tokens) <= n_tokens_max:
                return sample
            n_most = max(_LEAST_LINES, n_most - 1)
