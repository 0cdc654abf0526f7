"""Next edits by analogy: where the latest edit may be made again, and what its words make of that.

An edit is taken as pairs of old and new lines without their indentation, line by line where it
keeps the number of lines.  A place is the lines that one pair may concern: they hold words that it
took away, or words between which it put others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate
from typing import Final

from speclsp.documents import common_head, common_tail
from speclsp.requests import Change

N_ASKED: Final = 4
"""Places that the model is asked about, at most."""
N_APART: Final = 8
"""Lines between the parts of one edit, at most: what is shown together is applied together."""
_N_LINES: Final = 24
"""Lines from an edit within which places are looked for: between 24 and 60 lines off Qwen2.5-Coder
0.5B was right at 2 % of the cases of commits more, and noisy at 3 to 5 %."""
_N_EXAMPLES: Final = 4
"""Pairs of lines that a prompt shows."""
_N_FORMER: Final = 8
"""Earlier changes among which others of the same kind are looked for."""
_LEAST_ALIKE: Final = 0.6
"""Likeness of lines from which an addition may concern them."""
_LEAST_PROBABILITY: Final = 0.5
"""Least probability of the tokens of an answer that is shown."""
_LEAST_PART: Final = 3
"""Characters of the shortest part of a word that is looked for in others."""

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Substitution:
    """Words that an edit put in the place of others; ``gone`` is empty where it added them."""

    left: tuple[str, ...]
    """The two words before them."""
    gone: tuple[str, ...]
    right: tuple[str, ...]
    """The two words after them."""
    come: str
    """The new text; with the spaces around it, where it was added."""

    @property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words that went and those that came."""
        return self.gone, tuple(words_of(self.come))


@dataclass(frozen=True)
class Pair:
    """Lines before and after an edit, without the indentation that all have in common."""

    old: str
    new: str

    @property
    def n_lines(self) -> int:
        """How many lines there were before."""
        return self.old.count("\n") + 1

    @property
    def n_new_lines(self) -> int:
        """How many lines there are after it."""
        return self.new.count("\n") + 1

    @cached_property
    def substitutions(self) -> tuple[Substitution, ...]:
        """What was replaced, in order."""
        was, now = list(_WORD.finditer(self.old)), list(_WORD.finditer(self.new))
        words = [one[0] for one in was]
        matcher = SequenceMatcher(None, words, [one[0] for one in now], autojunk=False)
        found: list[Substitution] = []
        for kind, first, last, start, end in matcher.get_opcodes():
            if kind == "equal":
                continue
            begin = now[start].start() if start < end else 0
            stop = now[end - 1].end() if start < end else 0
            if kind == "insert":
                begin = now[start - 1].end() if start else 0
                stop = now[end].start() if end < len(now) else stop
            found.append(
                Substitution(
                    tuple(words[max(0, first - 2) : first]),
                    tuple(words[first:last]),
                    tuple(words[last : last + 2]),
                    self.new[begin:stop],
                )
            )
        return tuple(found)


@dataclass(frozen=True)
class Place:
    """Whole lines of a text that an edit may concern: offsets from ``start`` to ``end``."""

    start: int
    end: int
    old: str
    """The lines, without the indentation that all have in common."""
    pair: Pair
    """The edit."""

    @cached_property
    def likeness(self) -> float:
        """Of the lines to the edit's old ones, from 0 to 1."""
        words, its_words = words_of(self.pair.old), words_of(self.old)
        return SequenceMatcher(None, words, its_words, autojunk=False).ratio()

    @cached_property
    def guess(self) -> str:
        """The lines with the edit's substitutions made where they fit."""
        return made_again(self.pair, self.old)


def words_of(text: str) -> list[str]:
    """Return words, and other characters than white space one by one."""
    return _WORD.findall(text)


def pairs_of(change: Change) -> list[Pair]:
    """Return a change as pairs, without the lines that it only inserts or deletes."""
    was, now = (text.removesuffix("\n").split("\n") for text in (change.old, change.new))
    found: list[Pair] = []
    matcher = SequenceMatcher(None, was, now, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind != "replace":
            continue
        if last - first == end - start:
            lines = zip(was[first:last], now[start:end], strict=True)
            found += [_pair([one], [other]) for one, other in lines]
        else:
            found.append(_pair(was[first:last], now[start:end]))
    return [one for one in found if one.old.split() and one.old.split() != one.new.split()]


def latest(changes: Sequence[Change]) -> Change | None:
    """Return the latest change, as one with those that it goes on with in the same lines.

    What is typed with pauses is several changes.
    """
    if not changes:
        return None
    *former, last = changes
    old = last.old
    for one in reversed(former):
        if (one.path, one.line, one.new) != (last.path, last.line, old):
            break
        old = one.old
    return Change(path=last.path, file=last.file, line=last.line, old=old, new=last.new)


def shown_pairs(changes: Sequence[Change], place: Place | None) -> list[Pair]:
    """Return the examples of a prompt, the latest edit last.

    Earlier ones come with it where they replaced the same words, too.
    """
    change = latest(changes)
    pairs = pairs_of(change)[:_N_EXAMPLES] if change is not None else []
    if place is not None and place.pair not in pairs:
        pairs = [*pairs[1:], place.pair]
    kinds = {one.words for shown in pairs for one in shown.substitutions}
    former = [
        one
        for earlier in changes[:-1][-_N_FORMER:]
        for one in pairs_of(earlier)
        if one not in pairs and kinds & {each.words for each in one.substitutions}
    ]
    n_former = _N_EXAMPLES - len(pairs)
    return [*(former[-n_former:] if n_former else ()), *pairs]


def latest_places(text: str, path: str, cursor: int, changes: Sequence[Change]) -> list[Place]:
    """Return the places of ``text`` that the latest edit may concern, the nearest first."""
    change = latest(changes)
    if change is None:
        return []
    start = end = cursor
    if change.path == path:
        new = change.new.removesuffix("\n")
        start = sum(len(line) + 1 for line in text.split("\n")[: change.line])
        end = start + len(new)
        if text[start:end] != new:
            return []
    return places(text, pairs_of(change), start, end)[: 2 * N_ASKED]


def places(text: str, pairs: Sequence[Pair], start: int, end: int) -> list[Place]:
    """Return the places that an edit may concern, the nearest first.

    ``start`` and ``end`` are offsets of the edit's new lines in ``text``.
    """
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    starts[-1] = len(text)
    first, last = text.count("\n", 0, start), text.count("\n", 0, end)
    found: dict[int, Place] = {}
    for one in pairs:
        least, most = max(0, first - _N_LINES), min(len(lines) - one.n_lines, last + _N_LINES)
        for row in range(least, most + 1):
            if row + one.n_lines > first and row <= last:
                continue
            block = lines[row : row + one.n_lines]
            place = Place(starts[row], starts[row + one.n_lines], flush(block), one)
            if not concerns(words_of(place.old), one):
                continue
            if row not in found or found[row].likeness < place.likeness:
                found[row] = place
    taken: list[Place] = []
    for row in sorted(found, key=lambda row: (max(first - row, row - last), row < first)):
        place = found[row]
        if all(place.end <= one.start or place.start >= one.end for one in taken):
            taken.append(place)
    return taken


def next_place(
    text: str, places: Sequence[tuple[int, int]], n_asked: int, shown: Sequence[int]
) -> int | None:
    """Return which place to ask about after the first ``n_asked``; None for no more.

    ``places`` are offsets of lines, and ``shown`` says which of them are parts of the edit.  Places
    far from those come after it was accepted.
    """
    if len(shown) >= N_ASKED or n_asked - len(shown) >= N_ASKED:
        return None
    for idx in range(n_asked, len(places)):
        if not shown:
            return idx
        start, end = places[idx]
        if any(
            text.count("\n", min(end, places[one][1]), max(start, places[one][0])) <= N_APART
            for one in shown
        ):
            return idx
    return None


def concerns(its_words: Sequence[str], pair: Pair) -> bool:
    """Whether an edit may concern lines with ``its_words``."""
    if not its_words:
        return False
    gone = [one for one in pair.substitutions if re.search(r"\w\w", "".join(one.gone))]
    if gone:
        return any(_has(its_words, one.gone) or _has_part(its_words, one) for one in gone)
    added = [one for one in pair.substitutions if not one.gone]
    if any(_has(its_words, words_of(one.come)) for one in added):
        return False
    for one in added:
        between = (*one.left[-1:], *one.right[:1])
        if re.search(r"\w{3}", "".join(one.left[-1:])) and _has(its_words, between):
            return True
    matcher = SequenceMatcher(None, words_of(pair.old), its_words, autojunk=False)
    return matcher.quick_ratio() > _LEAST_ALIKE and matcher.ratio() > _LEAST_ALIKE


def is_sure(place: Place, new: str, least: float) -> bool:
    """Whether a place's new lines are shown: the edit's own words in place of the same.

    ``least`` is the least probability of their tokens, NaN where that is not known.
    """
    return new.split() == place.guess.split() and not least < _LEAST_PROBABILITY


def made_again(pair: Pair, text: str) -> str:
    """Return ``text`` with the substitutions of an edit made where they fit."""
    for one in pair.substitutions:
        if one.gone:
            head, tail = (
                r"\b" if end.isidentifier() else "" for end in (one.gone[0], one.gone[-1])
            )
            pattern = head + r"\s*".join(map(re.escape, one.gone)) + tail
            text = re.sub(pattern, one.come.replace("\\", r"\\"), text)
            continue
        for n_left, n_right in ((2, 2), (2, 1), (1, 2), (1, 1)):
            left, right = one.left[-n_left:], one.right[:n_right]
            if not left or not right:
                continue
            before, after = (r"\s*".join(map(re.escape, words)) for words in (left, right))
            found = list(re.finditer(rf"({before})\s*({after})", text))
            if len(found) == 1:
                text = text[: found[0].end(1)] + one.come + text[found[0].start(2) :]
                break
    return "\n".join(line.rstrip() for line in text.split("\n"))


def indentation(lines: Sequence[str]) -> str:
    """Return the white space that all lines begin with, but for blank ones."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    least, most = min(indents, default=""), max(indents, default="")
    return least[: common_head(least, most)]


def flush(lines: Sequence[str], depth: int | None = None) -> str:
    """Return lines without their first ``depth`` characters, by default without indentation."""
    depth = len(indentation(lines)) if depth is None else depth
    return "\n".join(line[depth:] for line in lines)


def _pair(was: Sequence[str], now: Sequence[str]) -> Pair:
    depth = len(indentation([*was, *now]))
    return Pair(flush(was, depth), flush(now, depth))


def _has(words: Sequence[str], part: Sequence[str]) -> bool:
    """Whether ``part`` is among ``words``, in a row."""
    n_words = len(part)
    return bool(part) and any(
        list(words[start : start + n_words]) == list(part)
        for start in range(len(words) - n_words + 1)
    )


def _has_part(words: Sequence[str], one: Substitution) -> bool:
    """Whether a word holds what one word lost to another, and not what that got for it."""
    if len(one.gone) != 1 or not one.come.isidentifier():
        return False
    was, now = _PART.findall(one.gone[0]), _PART.findall(one.come)
    head = common_head(was, now)
    tail = common_tail(was[head:], now[head:])
    lost = "".join(was[head : len(was) - tail]).lower()
    got = "".join(now[head : len(now) - tail]).lower()
    return len(lost) >= _LEAST_PART and any(
        lost in word.lower() and not (got and got in word.lower()) for word in words
    )
