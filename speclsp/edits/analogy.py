"""Next edits by analogy: where the latest edit may be made again, and what its words make of that.

An edit is taken as pairs of old and new lines without their indentation, line by line where it
keeps the number of lines.  A place is lines that one pair can be carried over to: they are aligned
with its old lines, word by word, and what it replaced there is replaced here; or it only gave names
others, and they hold such a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate, islice
from typing import Final

from speclsp.common_ends import common_head
from speclsp.seam.documents import edit_between
from speclsp.seam.edit import Change
from speclsp.text.code_reader import OUTSIDE, CodeState, CursorScope, read_code
from speclsp.text.languages import language_of
from speclsp.text.rules import state_at

N_ASKED: Final = 4
"""Places that the model is asked about, at most."""
N_APART: Final = 8
"""Lines between the parts of one edit, at most: what is shown together is applied together."""
_N_LINES: Final = 18
"""Lines from an edit within which places are looked for: more bring noise alone
(docs/decisions/analogy.md)."""
_N_EXAMPLES: Final = 4
"""Pairs of lines that a prompt shows."""
_N_CARRIED: Final = 8
"""Pairs of lines of one edit that places are looked for with."""
_N_CHARS: Final = 1000
"""Characters of lines that are aligned, at most: that takes longer by their square."""
_N_FORMER: Final = 8
"""Earlier changes among which others of the same kind are looked for."""
_LEAST_ALIKE: Final = 0.9
"""Likeness of lines from which an addition may concern them (docs/decisions/analogy.md)."""
_LEAST_ALIKE_KNOWN: Final = 0.8
"""The same, for a name that the file had before."""
LEAST_KEPT: Final = 0.7
"""Least probability of the tokens of an answer that is not the edit: a less sure one withholds
nothing (docs/decisions/analogy.md)."""
_LEAST_AGAIN: Final = 0.9
"""Least probability of the tokens of an answer that is the edit, where one of its kind was
declined."""

_N_USES: Final = 200
"""Uses of a name in another file that are known, at most."""
_N_LOOKED: Final = 4
"""Those around which places are looked for."""
_KEYWORD: Final = (
    r"(?:class|const|def|enum|fn|func|function|interface|let|macro_rules!|mod|namespace|static"
    r"|struct|trait|type|union|var)\s+(?:mut\s+)?"
)
_DECLARATION: Final = (
    r"(?:(?:abstract|async|declare|default|export|pub(?:\([^)]*\))?|unsafe)\s+)*"
    rf"{_KEYWORD}{{0}}\b|{{0}}\s*(?::[^=]+)?=(?!=)"
)
"""How lines declare a name for other files, but for methods: others may have the name, too
(docs/decisions/analogy.md)."""
_OWN: Final = (
    rf"\b{_KEYWORD}(?:\([^)]*\)\s*)?{{0}}\b|^\s*{{0}}(?:\s*:(?!:)|\s+\*?[\w.\[\]]+\s*(?:`.*)?$)"
    r"|^\s*(?:\w+\s*,\s*)*{0}(?:\s*,\s*\w+)*\s*:?=(?!=)|\${0}\b"
)
"""How lines declare a name, or have a field, a key or a variable of it."""

_WORD: Final = re.compile(r"\w+|[^\w\s]|\n")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_LAST_WORD: Final = re.compile(r"[ \t]*[^\w\s]*\w*\Z")
"""What may be tokenised otherwise where a text goes on."""

_Substitution = tuple[int, int, int, int]
"""Words that went, from the first to behind the last, and words that came for them."""


@dataclass(frozen=True)
class Pair:
    """Lines before and after an edit, without the indentation that all have in common."""

    old: str
    new: str
    row: int = field(default=0, compare=False)
    """Which of the edit's new lines it begins with."""

    @property
    def n_lines(self) -> int:
        """How many lines there were before."""
        return self.old.count("\n") + 1

    @cached_property
    def substitutions(self) -> tuple[_Substitution, ...]:
        """What was replaced, in order, by numbers of words."""
        codes = _matcher(words_of(self.old), words_of(self.new)).get_opcodes()
        return tuple(code[1:] for code in codes if code[0] != "equal")

    @cached_property
    def kinds(self) -> frozenset[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The words that went, and those that came for them."""
        was, now = words_of(self.old), words_of(self.new)
        return frozenset(
            (tuple(was[first:last]), tuple(now[start:end]))
            for first, last, start, end in self.substitutions
        )

    @cached_property
    def taken(self) -> frozenset[str]:
        """The words that went."""
        return frozenset(word for was, _ in self.kinds for word in was)

    @cached_property
    def names(self) -> frozenset[tuple[str, str]]:
        """Names that went, each with the one that came for it."""
        return frozenset(
            (was[0], now[0])
            for was, now in self.kinds
            if len(was) == len(now) == 1 and all(map(_NAME.fullmatch, (*was, *now)))
        )

    @cached_property
    def renamed(self) -> dict[str, str]:
        """New names by old ones; empty where the edit did anything else, or left one as it was."""
        found = dict(self.names)
        if len(found) < len(self.kinds) or found.keys() & {*words_of(self.new)}:
            return {}
        return found


@dataclass(frozen=True)
class Place:
    """Whole lines of a text that an edit may concern: offsets from ``start`` to ``end``."""

    start: int
    end: int
    old: str
    """The lines, without the indentation that all have in common."""
    pair: Pair
    """The edit."""
    guess: str
    """What it makes of the lines."""

    @cached_property
    def likeness(self) -> float:
        """Of the lines to the edit's old ones, from 0 to 1."""
        return _matcher(words_of(self.pair.old), words_of(self.old)).ratio()

    @cached_property
    def given(self) -> str:
        """The guess up to where it leaves the lines, without the word there."""
        head = self.guess[: common_head(self.old, self.guess)]
        return _LAST_WORD.sub("", head)

    @cached_property
    def n_needed(self) -> int:
        """How much of the guess tells whether the model makes it: all but the lines' own end."""
        edit = edit_between(self.old, self.guess)
        return edit.start + len(edit.text)


def words_of(text: str) -> list[str]:
    """Return words, and other characters than white space one by one."""
    return _WORD.findall(text)


def _matcher(was: Sequence[str], now: Sequence[str]) -> SequenceMatcher[str]:
    return SequenceMatcher(None, was, now, autojunk=False)


def pairs_of(change: Change) -> list[Pair]:
    """Return a change as pairs, without the lines that it only inserts or deletes.

    Nor are there any of fewer old lines than new ones.
    """
    was, now = (text.removesuffix("\n").split("\n") for text in (change.old, change.new))
    found: list[Pair] = []
    for kind, first, last, start, end in _matcher(was, now).get_opcodes():
        if kind != "replace":
            continue
        if last - first == end - start:
            lines = enumerate(zip(was[first:last], now[start:end], strict=True), start)
            found += [_pair([one], [other], row) for row, (one, other) in lines]
        elif last - first > end - start:
            found.append(_pair(was[first:last], now[start:end], start))
    return [one for one in found if max(len(one.old), len(one.new)) <= _N_CHARS and one.old.split()]


def joined(changes: Sequence[Change]) -> list[Change]:
    """Return the changes, each as one with those that go on with it in the same lines.

    What is typed with pauses is several changes.
    """
    found: list[Change] = []
    for one in changes:
        last = found[-1] if found else None
        if last is not None and (last.path, last.line, last.new) == (one.path, one.line, one.old):
            found[-1] = replace(last, new=one.new)
        else:
            found.append(
                Change(path=one.path, file=one.file, line=one.line, old=one.old, new=one.new)
            )
    return found


def latest(changes: Sequence[Change]) -> Change | None:
    """Return the latest change, as :func:`joined` has it."""
    return joined(changes)[-1] if changes else None


def shown_pairs(changes: Sequence[Change], place: Place | None) -> list[Pair]:
    """Return the examples of a prompt, the latest edit last.

    Earlier ones come with it where they replaced the same words, too.
    """
    change = latest(changes)
    pairs = pairs_of(change)[:_N_EXAMPLES] if change is not None else []
    if place is not None and place.pair not in pairs:
        pairs = [*pairs[1:], place.pair]
    kinds = {kind for shown in pairs for kind in shown.kinds}
    former = [
        one
        for earlier in changes[:-1][-_N_FORMER:]
        for one in pairs_of(earlier)
        if one not in pairs and kinds & one.kinds
    ]
    n_former = _N_EXAMPLES - len(pairs)
    return [*(former[-n_former:] if n_former else ()), *pairs]


def latest_places(text: str, path: str, cursor: int, changes: Sequence[Change]) -> list[Place]:
    """Return the places of ``text`` that the latest edit may concern, the nearest first.

    What it changed in comments has none.
    """
    change = latest(changes)
    pairs = pairs_of(change) if change is not None else []
    if change is None or not pairs:
        return []
    start = end = cursor
    new, state, language = change.new.removesuffix("\n"), OUTSIDE, language_of("", change.path)
    if change.path == path:
        start = sum(len(line) + 1 for line in text.split("\n")[: change.line])
        end = start + len(new)
        if text[start:end] != new:
            return []
        state = state_at(language, text, start)
    states = _states(language, new.split("\n"), state)
    scopes = [_scope(language, states[one.row], one.old, one.new) for one in pairs]
    carried = [one for one in zip(pairs, scopes, strict=True) if one[1] != "comment"][:_N_CARRIED]
    names: set[str] = set()
    if any(one.renamed for one, _ in carried):
        made = {line for one in changes for line in one.new.split("\n")}
        names.update(*(_NAME.findall(line) for line in text.split("\n") if line not in made))
    is_its_file = change.path == path
    return places(text, path, carried, start, end, names, is_its_file)[: 2 * N_ASKED]


@dataclass(frozen=True)
class Renaming:
    """A name that got another one where it is declared."""

    change: Change
    """That of the declaration."""
    old: str
    new: str

    def is_done(self, text: str) -> bool:
        """Whether a text has the old name nowhere."""
        return next(_uses(self.old, text), None) is None

    def is_in(self, old: str, new: str) -> bool:
        """Whether lines that become others have the old name, and the new one then."""
        return not self.is_done(old) and any(True for _ in _uses(self.new, new))

    def place(self, text: str, path: str, changes: Sequence[Change]) -> int | None:
        """Return where another file uses the name; None where it does not.

        Nor does it where it declares one of its own so, or has the new name but for what
        ``changes``, the latest ones, brought.  Lines too long for places may declare it, too, and
        matching them takes time by their square.
        """
        uses = [*islice(_uses(self.old, text), _N_USES)]
        lines = {_line_at(text, at) for at in uses}
        own = re.compile(_OWN.format(self.old))
        if any(len(line) > _N_CHARS or own.search(line) for line in lines):
            return None
        made = {line for one in changes for line in one.new.split("\n")} if uses else set()
        if uses and any(_line_at(text, at) not in made for at in _uses(self.new, text)):
            return None
        seen, n_left = None, _N_LOOKED
        for at in uses:
            if seen is not None and text.count("\n", seen, at) <= _N_LINES:
                continue
            if not n_left:
                break
            if latest_places(text, path, at, [*changes, self.change]):
                return at
            seen, n_left = at, n_left - 1
        return None


def renaming_of(changes: Sequence[Change]) -> Renaming | None:
    """Return the renaming of a declared name that the latest edit makes or goes on with."""
    every = joined(changes)
    pairs = pairs_of(every[-1])[:_N_CARRIED] if every else []
    # A use may leave the old name elsewhere in its line, such as in a string.
    goes_on = sorted({name for pair in pairs for name in pair.names})
    for change in every if goes_on else ():
        for old, new in goes_on:
            declares = re.compile(_DECLARATION.format(old))
            is_declared = any(map(declares.match, change.old.split("\n")))
            # Words are aligned last: in long lines that takes up to a second.
            if is_declared and _renamed(change).get(old) == new:
                return Renaming(change, old, new)
    return None


def _renamed(change: Change) -> dict[str, str]:
    pairs = pairs_of(change)[:_N_CARRIED]
    return {old: new for pair in pairs for old, new in pair.renamed.items()}


def _uses(name: str, text: str) -> Iterator[int]:
    """Return where a name stands as a word of its own."""
    # A pattern that begins with letters is found five times as fast as one that begins with \b.
    for found in re.finditer(rf"{name}\b", text):
        at = found.start()
        if not (text[at - 1 : at].isalnum() or text[at - 1 : at] == "_"):
            yield at


def _line_at(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)]


def places(
    text: str,
    path: str,
    pairs: Sequence[tuple[Pair, CursorScope]],
    start: int,
    end: int,
    names: Set[str],
    is_its_file: bool,
) -> list[Place]:
    """Return the places that an edit may concern, the nearest first.

    ``pairs`` are the edit's, each with where it begins to change, ``start`` and ``end`` are offsets
    of its new lines in ``text`` or, if that is another file, of the cursor, and ``names`` are those
    that ``text`` had before.
    """
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    starts[-1] = len(text)
    first, last = text.count("\n", 0, start), text.count("\n", 0, end)
    least, most = max(0, first - _N_LINES), last + _N_LINES
    language = language_of("", path)
    states = _states(language, lines[least:most], state_at(language, text, starts[least]))
    found: dict[int, Place] = {}
    for one, scope in pairs:
        is_new = not all(set(_NAME.findall(name)) <= names for name in one.renamed.values())
        for row in range(least, min(len(lines) - one.n_lines, most) + 1):
            begin, stop = starts[row], starts[row + one.n_lines]
            is_edit = is_its_file and row + one.n_lines > first and row <= last
            if is_edit or stop - begin > _N_CHARS:
                continue
            block = lines[row : row + one.n_lines]
            old, state = flush(block), states[row - least]
            own = text[begin:stop].removesuffix("\n")
            guess = flush(with_new_names(one, own, scope, language, state).split("\n"))
            if guess.split() == old.split():
                guess = carried_over(one, old) or old
                if guess.split() == old.split():
                    continue
            place = Place(begin, stop, old, one, guess)
            if one.renamed and not is_new and place.likeness < _LEAST_ALIKE_KNOWN:
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


def least_probability(old: str, new: str, declined: Iterable[tuple[str, str]]) -> float:
    """Return how probable the tokens of an edit must be for it to be shown.

    ``declined`` are old and new lines of edits that the user did not want.
    """
    kinds = Pair(old, new).kinds
    is_declined = any(kinds & Pair(*one).kinds for one in declined)
    return _LEAST_AGAIN if is_declined else 0.0


def carried_over(pair: Pair, text: str) -> str | None:
    """Return ``text`` with all substitutions of an edit; None where one has no place in it.

    The edit's old lines and the text are aligned by words.  Words that went must be there in a row,
    with those on both sides, or with one where there are several or lines are alike; words that
    only came need those beside them and lines that are alike.  Of the words in a row that both
    have, one is a name.
    """
    old, new, own = (list(_WORD.finditer(each)) for each in (pair.old, pair.new, text))
    was, words = ([word[0] for word in each] for each in (old, own))
    matcher = _matcher(was, words)
    is_alike = matcher.quick_ratio() >= _LEAST_ALIKE and matcher.ratio() >= _LEAST_ALIKE
    if not (is_alike or pair.taken):
        return None
    at = {-1: -1, len(was): len(words)}
    for one, other, n_words in matcher.get_matching_blocks():
        at |= {one + n: other + n for n in range(n_words)}
    made, done = [], 0
    for first, last, start, end in pair.substitutions:
        left, right = at.get(first - 1), at.get(last)
        span = [at.get(idx) for idx in range(first, last)]
        begin = span[0] if span else (left + 1 if left is not None else right)
        if begin is None or span != list(range(begin, begin + len(span))):
            return None
        stop = begin + len(span)
        n_beside = (left == begin - 1) + (right == stop)
        row = (*_row(at, first - 1, -1), *range(first, last), *_row(at, last, 1))
        has_name = any(was[idx].isidentifier() for idx in row if 0 <= idx < len(was))
        if n_beside < (1 if len(span) > 1 or (span and is_alike) else 2) or not has_name:
            return None
        gap = pair.old[_end(old, first - 1) : _start(old, last, pair.old)]
        here, there = _end(own, begin - 1), _start(own, stop, text)
        put = pair.new[_end(new, start - 1) : _start(new, end, pair.new)]
        if span and text[here:there] != gap and start < end:
            here, there = own[begin].start(), own[stop - 1].end()
            put = pair.new[new[start].start() : new[end - 1].end()]
        if here < done:
            return None
        made += [text[done:here], put]
        done = there
    made.append(text[done:])
    return _stripped("".join(made))


def with_new_names(
    pair: Pair, lines: str, scope: CursorScope, language: str, state: CodeState
) -> str:
    """Return lines with other names where an edit did nothing but give such.

    Names are left alone but in ``scope``, which is the edit's; ``state`` is that before the lines.
    """
    renamed = pair.renamed
    if renamed.keys().isdisjoint(words_of(lines)):
        return lines

    def name(word: re.Match[str]) -> str:
        if word[0] not in renamed:
            return word[0]
        there = read_code(language, lines[: word.start()], state=state).scope
        return renamed[word[0]] if there == scope else word[0]

    return _WORD.sub(name, lines)


def indentation(lines: Sequence[str]) -> str:
    """Return the white space that all lines begin with, but for blank ones."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    least, most = min(indents, default=""), max(indents, default="")
    return least[: common_head(least, most)]


def flush(lines: Sequence[str], depth: int | None = None) -> str:
    """Return lines without their first ``depth`` characters, by default without indentation."""
    depth = len(indentation(lines)) if depth is None else depth
    return "\n".join(line[depth:] for line in lines)


def _pair(was: Sequence[str], now: Sequence[str], row: int) -> Pair:
    depth = len(indentation([*was, *now]))
    return Pair(flush(was, depth), flush(now, depth), row)


def _states(language: str, lines: Iterable[str], state: CodeState) -> list[CodeState]:
    """Return the state before each of some lines, and behind the last."""

    def behind(state: CodeState, line: str) -> CodeState:
        return read_code(language, f"{line}\n", state=state)

    return list(accumulate(lines, behind, initial=state))


def _scope(language: str, state: CodeState, old: str, new: str) -> CursorScope:
    """Return where lines begin to differ; ``state`` is that before them."""
    return read_code(language, old[: common_head(old, new)], state=state).scope


def _row(at: Mapping[int, int], idx: int, step: int) -> Iterator[int]:
    """Return the words from one on, in a direction, that follow each other in both texts."""
    while idx in at:
        yield idx
        if at.get(idx + step) != at[idx] + step:
            return
        idx += step


def _start(words: Sequence[re.Match[str]], idx: int, text: str) -> int:
    """Return where a word of ``text`` begins; its end behind the last one."""
    return words[idx].start() if idx < len(words) else len(text)


def _end(words: Sequence[re.Match[str]], idx: int) -> int:
    """Return where a word ends; 0 before the first one."""
    return words[idx].end() if idx >= 0 else 0


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))
