"""Cases of next edits from commits: what a human changed first in a file, and what followed.

A commit's hunks of a file are the edits; the first of two near ones is what the user has just done.
They *follow* each other where both put the same words in place of the same words; such a case is
``literal`` where repeating that text makes the second one, and ``changed`` where it does not.  A
second hunk that uses a name which the first brought in is a ``consequence``.  Nothing should come
where all hunks are done (``done``), and where the file's whole change was one hunk (``single``).
"""

from __future__ import annotations

import difflib
import lzma
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

import msgspec

from benchmarks.commit_places import git
from speclsp.common_ends import common_head, common_tail
from speclsp.edits.edit import Hunk, hunks
from speclsp.edits.formats import lines_of

Kind = Literal["literal", "changed", "consequence", "single"]
Verdict = Literal["right", "partly", "wrong", "missed", "noise", "quiet"]

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_NAME: Final = re.compile(r"[A-Za-z_]\w{2,}")
_N_LINES: Final = 3
"""Lines of a hunk, before and after."""
_N_HUNKS: Final = 12
_N_APART: Final = 18
"""Lines between the two hunks, at most."""
_SIZES: Final = range(400, 24_000)
"""Characters of a file."""
_EXTENSIONS: Final = {".py": "Python", ".ts": "TypeScript", ".go": "Go", ".rs": "Rust"}


class CommitCase(msgspec.Struct, frozen=True, kw_only=True):
    """A commit's change of one file."""

    project: str
    commit: str
    path: str
    kind: Kind
    half: Literal["tuning", "final"]
    text: str
    """The file before the commit."""
    parts: tuple[tuple[int, int, str], ...]
    """The commit's hunks: offsets in ``text``, and the new lines."""
    first: int
    """Which hunk the user has just done."""

    @property
    def language(self) -> str:
        """The file's language."""
        return _EXTENSIONS[Path(self.path).suffix]

    def made(self, which: Iterable[int]) -> str:
        """Return the file with some of the hunks done."""
        return _made(self.text, self.parts, set(which))

    @property
    def everything(self) -> range:
        """All hunks."""
        return range(len(self.parts))

    def place(self, *, is_done: bool) -> tuple[str, str, int]:
        """Return the text before the latest edit and after it, and the cursor behind it.

        ``is_done`` if all the other hunks were done before.
        """
        others = {one for one in self.everything if one != self.first} if is_done else set()
        before, after = self.made(others), self.made({*others, self.first})
        start, _, new = self.parts[self.first]
        above = self.parts[: self.first] if is_done else ()
        shift = sum(len(text) - (end - begin) for begin, end, text in above)
        return before, after, start + shift + len(new.removesuffix("\n"))


def verdict(text: str, changed: Sequence[Hunk], wanted: str | None) -> Verdict:
    """Judge an edit of ``text``, where ``wanted`` is the commit's text.

    None of ``wanted`` stands for a place where nothing should follow.  Right is an edit whose every
    hunk is the commit's; partly right is one of which some hunks are.
    """
    if not changed:
        return "missed" if wanted is not None else "quiet"
    if wanted is None:
        return "noise"
    want = hunks(text, wanted)
    is_good = [_is_wanted(text, hunk, want) for hunk in changed]
    return "right" if all(is_good) else "partly" if any(is_good) else "wrong"


def changed_lines(old: str, new: str) -> list[Hunk]:
    """Return the lines that differ, one by one where their number stays, else as a diff has them.

    A diff may take lines that are repeated for others.
    """
    was, now = lines_of(old), lines_of(new)
    if len(was) != len(now):
        return hunks(old, new)
    starts = accumulate(map(len, was), initial=0)
    return [
        Hunk(start, start + len(line), line, other)
        for start, line, other in zip(starts, was, now, strict=False)
        if line != other
    ]


def _is_wanted(text: str, hunk: Hunk, want: Sequence[Hunk]) -> bool:
    """Whether a hunk makes of its lines what the commit does: one of its hunks, or several."""
    within = [one for one in want if hunk.start <= one.start and one.end <= hunk.end]
    made, at = [], hunk.start
    for one in within:
        made += [text[at : one.start], one.new]
        at = one.end
    if within and "".join(made) + text[at : hunk.end] == hunk.new:
        return True
    # One of several lines that the commit changes together.
    for one in want:
        was, now = lines_of(one.old), lines_of(one.new)
        if one.start <= hunk.start and hunk.end <= one.end and len(was) == len(now):
            first = text.count("\n", one.start, hunk.start)
            n_lines = len(lines_of(hunk.old))
            return "".join(now[first : first + n_lines]) == hunk.new
    return False


def read(path: Path) -> list[CommitCase]:
    """Return the cases of a compressed file of JSON lines."""
    with lzma.open(path) as lines:
        return [msgspec.json.decode(line, type=CommitCase) for line in lines]


def make(repositories: Sequence[tuple[str, Path]], out: Path, n_each: int, since: str) -> None:
    """Draw ``n_each`` cases of each kind from each repository, by name and git directory."""
    found = [
        case
        for name, repository in repositories
        for case in _drawn(name, repository, n_each, since)
    ]
    with lzma.open(out, "wb", preset=9) as file:
        for case in found:
            file.write(msgspec.json.encode(case) + b"\n")


def _drawn(project: str, repository: Path, n_each: int, since: str) -> Iterator[CommitCase]:
    options = ("--no-merges", "--min-parents=1", f"--since={since}", "--max-count=4000")
    commits = git(repository, "log", *options, "--format=%H").split()
    random.Random(project).shuffle(commits)  # noqa: S311
    n_found: Counter[str] = Counter()
    wanted = {"literal": n_each, "changed": n_each, "consequence": n_each, "single": n_each}
    for commit in commits:
        if all(n_found[kind] >= n for kind, n in wanted.items()):
            return
        patterns = [f"*{extension}" for extension in _EXTENSIONS]
        changed = ("diff", "--name-only", "--diff-filter=M", f"{commit}^", commit)
        names = git(repository, *changed, "--", *patterns)
        for path in names.splitlines():
            case = _case(project, repository, commit, path, n_found, wanted)
            if case is not None:
                n_found[case.kind] += 1
                yield case
                break


def _case(
    project: str,
    repository: Path,
    commit: str,
    path: str,
    n_found: Counter[str],
    wanted: dict[str, int],
) -> CommitCase | None:
    before, after = (git(repository, "show", f"{one}:{path}") for one in (f"{commit}^", commit))
    if len(before) not in _SIZES or "\r" in before:
        return None
    parts = hunks(before, after)
    sizes = [(before.count("\n", one.start, one.end), one.new.count("\n")) for one in parts]
    if not all(1 <= old <= _N_LINES and 1 <= new <= _N_LINES for old, new in sizes):
        return None
    kind_and_first = _kind(before, parts)
    if kind_and_first is None or n_found[kind_and_first[0]] >= wanted[kind_and_first[0]]:
        return None
    return CommitCase(
        project=project,
        commit=commit,
        path=path,
        kind=kind_and_first[0],
        half="tuning" if int(commit[-1], 16) % 2 else "final",
        text=before,
        parts=tuple((one.start, one.end, one.new) for one in parts),
        first=kind_and_first[1],
    )


def _kind(before: str, parts: Sequence[Hunk]) -> tuple[Kind, int] | None:
    if len(parts) == 1:
        return "single", 0
    if not 2 <= len(parts) <= _N_HUNKS:
        return None
    near = [
        (first, second)
        for first in range(len(parts))
        for second in range(first + 1, min(first + 3, len(parts)))
        if before.count("\n", parts[first].end, parts[second].start) < _N_APART
    ]
    substitutions = [_substitutions(one) for one in parts]
    same = [pair for pair in near if substitutions[pair[0]] & substitutions[pair[1]]]
    if same:
        first = same[0][0]
        text = _made(before, [(one.start, one.end, one.new) for one in parts], {first})
        wanted = _made(
            before, [(one.start, one.end, one.new) for one in parts], set(range(len(parts)))
        )
        again = textual_repetition(parts[first].old, parts[first].new, text)
        is_literal = verdict(text, changed_lines(text, again), wanted) == "right"
        return ("literal" if is_literal else "changed"), first
    known = set(_NAME.findall(before))
    new_names = [set(_NAME.findall(one.new)) - known for one in parts]
    uses = [pair for pair in near if new_names[pair[0]] & new_names[pair[1]]]
    return ("consequence", uses[0][0]) if uses else None


def _substitutions(hunk: Hunk) -> frozenset[tuple[str, str]]:
    """Return the words that a hunk puts in place of which, where it does nothing else."""
    was, now = _WORD.findall(hunk.old), _WORD.findall(hunk.new)
    found = set()
    for kind, first, last, start, end in difflib.SequenceMatcher(
        None, was, now, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            continue
        if last - first > 8 or end - start > 8:
            return frozenset()
        found.add((" ".join(was[first:last]), " ".join(now[start:end])))
    return frozenset(one for one in found if re.search(r"\w{3}", "".join(one)))


_N_AROUND: Final = 24


def textual_repetition(old: str, new: str, text: str) -> str:
    """Return ``text`` with the characters replaced that the edit replaced, 24 lines around it.

    It is what an editor can do without a model.
    """
    head = common_head(old, new)
    tail = common_tail(old, new, min(len(old), len(new)) - head)
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    at = text.find(new)
    if not gone.strip() or at < 0:
        return text
    above, below = lines_of(text[:at]), lines_of(text[at + len(new) :])
    shown_above, shown_below = above[-_N_AROUND:], below[:_N_AROUND]
    return "".join(
        (
            *above[: len(above) - len(shown_above)],
            "".join(shown_above).replace(gone, come),
            new,
            "".join(shown_below).replace(gone, come),
            *below[len(shown_below) :],
        )
    )


def _made(text: str, parts: Sequence[tuple[int, int, str]], which: set[int]) -> str:
    made, at = [], 0
    for idx, (start, end, new) in enumerate(parts):
        made += [text[at:start], new if idx in which else text[start:end]]
        at = end
    return "".join((*made, text[at:]))
