"""A text with a placeholder for each secret, updated by the lines that change."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from copy import copy
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final, NamedTuple

from speclsp.seam.documents import TextEdit, shortest_edit
from speclsp.secrets.assignments import TextKind
from speclsp.secrets.line_scan import N_BESIDE, Found, kind_of, secrets_in_lines
from speclsp.secrets.pieces import N_LETTERS
from speclsp.secrets.private_keys import BEGIN, bare_keys, key_blocks, part_without_keys
from speclsp.secrets.spans import Span, merged

PLACEHOLDER: Final = "__MASKED_SECRET__"
"""Replaces a secret.  It is a name, so that the syntax around it stays valid."""

RULES_VERSION: Final = 10
"""Changes with the rules and the placeholder: texts stored under another version are made anew."""

_LONG: Final = 16_384
"""Changed lines of up to so many characters are searched whole, longer ones near the change."""
_REACH: Final = 2_048
"""Characters on the same line that decide whether something is a secret."""

MOST_SECRETS: Final = 1_000
"""A text with more is secret as a whole, since the time per key grows with their number."""
_MOST_FOUND: Final = 4 * MOST_SECRETS
"""Several rules may each find a part of one secret."""

_NAME_STARTS: Final = re.compile(r"_(?=[A-Za-z])")
"""What joins words in files' names; in texts it does not."""

_N_REMOVED: Final = 32
"""Removed secrets that are masked where they come back."""
_IN_NAME: Final = re.compile(r"[\w.\-]*+")

_LEAST_CUT: Final = 5
"""Characters of a placeholder's beginning that differ from a name such as ``__main__``."""


def masked(text: str, path: str) -> str:
    """Return a file's text with its secrets masked, by the rules for its name."""
    return _with_placeholders(text, _all_secrets(text, kind_of(path)))


@lru_cache(maxsize=1_024)
def masked_path(path: str) -> str:
    """Return a file's path with the secrets in its names masked, as a prompt may show it."""
    for start in (0, *(found.end() for found in _NAME_STARTS.finditer(path))):
        rest = path[start:]
        shown = masked(rest, "")
        if shown != rest:
            return path[:start] + shown
    return path


def holds_secret(text: str, path: str) -> bool:
    """Whether a text holds a secret or a placeholder."""
    return PLACEHOLDER in text or bool(_all_secrets(text, kind_of(path)))


def before_secret(text: str, before: str, path: str) -> str:
    """Return a completion up to its first secret or placeholder.

    ``before`` is the cursor's line up to the cursor.  A placeholder's beginning at the end is cut
    too.
    """
    end = text.find(PLACEHOLDER)
    if end < 0:
        end = len(text)
        for n_chars in range(len(PLACEHOLDER) - 1, _LEAST_CUT - 1, -1):
            if text.endswith(PLACEHOLDER[:n_chars]):
                end = len(text) - n_chars
                break
    before = before[-_REACH:]
    spans = _all_secrets(before + text, kind_of(path))
    starts = [max(0, span.start - len(before)) for span in spans if span.end > len(before)]
    return text[: min([end, *starts])]


class Masking(NamedTuple):
    """What a version changes in the masked text."""

    edit: TextEdit
    """The edit of the masked text."""
    hidden: tuple[Span, ...] = ()
    """Where the letters of secrets that are new or changed stood in the former masked text; an
    empty span for a secret of which it shows none."""
    secrets: tuple[str, ...] = ()
    """These secrets, as they are."""

    @property
    def shows_secrets(self) -> bool:
        """Whether the former masked text shows any of their letters."""
        return any(start < end for start, end in self.hidden)


class MaskedText:
    """The newest version of one text.  Not thread-safe.

    What was masked stays masked until it changes itself, also where no rule finds it any more: its
    name is being typed anew.
    """

    def __init__(self, path: str) -> None:
        self._kind: TextKind = kind_of(path)
        self._found: list[Found] = []
        """In the order of what was read."""
        self._bare: list[Span] = []
        self._blocks: list[Span] = []
        self._spans: list[Span] = []
        """What is masked: what the rules find, and what was masked before."""
        self._removed: tuple[str, ...] = ()
        """Secrets that were removed, the latest last: undone or pasted, they are masked."""
        self.raw = ""
        """The text as it is."""
        self.text = ""
        """The text with placeholders; empty where it is secret as a whole."""
        self.is_secret = False
        """Whether it held more than ``MOST_SECRETS`` and is still at least half as long."""
        self._n_secret_chars = 0

    def copy(self) -> MaskedText:
        """Return a copy that can be kept up to date elsewhere."""
        return copy(self)  # no version's lists are ever changed

    def update(
        self, raw: str, edit: TextEdit | None = None, *, n_most: int = sys.maxsize
    ) -> Masking | None:
        """Take a new version; only changed lines and those that depend on them are searched.

        ``edit`` leads to it from the former one; without it the two are compared.
        Returns None, and takes nothing, if more than ``n_most`` characters must be searched.
        """
        n_more = len(raw) - len(self.raw)
        edit = shortest_edit(self.raw, raw, edit)
        if edit.start == edit.end and not edit.text:
            return Masking(TextEdit(0, 0, ""))
        if self.is_secret:
            if 2 * len(raw) > self._n_secret_chars:
                self.raw = raw  # its text stays empty
                return Masking(TextEdit(0, 0, ""))
            edit = TextEdit(0, 0, raw)
        scope = self._scope(edit, raw)
        searched = self._searched(raw, scope, n_most)
        bare = self._bare_keys(raw, scope, n_more, n_most)
        if searched is None or bare is None:
            return None
        above = [f for f in self._found if f.read.start < scope.start]
        below = [f for f in self._found if f.read.start + n_more > scope.end]
        former = [f for f in self._found[len(above) : len(self._found) - len(below)] if f.parts]
        here = [f for f in searched if scope.start <= f.read.start <= scope.end]
        released = self._released(edit, former, {f.read.start for f in here}) if former else []
        if len(searched) < _MOST_FOUND:
            searched = [*above, *here, *(f.moved(n_more) for f in below)]
        return self._take(raw, edit, searched, bare, released)

    def _scope(self, edit: TextEdit, new: str) -> _Scope:
        """Return what must be searched: the lines that changed, and values that were read there.

        A name some lines above may have its value there.
        """
        scope = _changed_lines(edit, new, N_BESIDE[self._kind])
        if scope.end - scope.start > _LONG:
            scope = scope.near_change()
        reads = (f.read for f in self._found)
        touched = (r.start for r in reads if r.start <= edit.end and edit.start <= r.end)
        start = min(touched, default=scope.start)
        return scope if start >= scope.start else scope.from_line_of(new, start)

    def _bare_keys(self, raw: str, scope: _Scope, shift: int, n_most: int) -> list[Span] | None:
        """Return the private keys without markers; None if too much must be searched."""
        part = part_without_keys(raw, scope.changed_start, scope.changed_end)
        if part is None or any(s + shift <= part.end and e >= part.start for s, e in self._bare):
            return merged(bare_keys(raw)) if len(raw) <= n_most else None
        return [
            *(span for span in self._bare if span.end < part.start),
            *(Span(s + shift, e + shift) for s, e in self._bare if s + shift > part.end),
        ]

    def _searched(self, raw: str, scope: _Scope, n_most: int) -> list[Found] | None:
        """Return the secrets of a scope; what is read beyond it is searched too.

        None if that is more than ``n_most`` characters.
        """
        context, seen_end = scope.context, scope.seen_end
        while seen_end - context <= n_most:
            part = raw[context:seen_end]
            found = list(islice(secrets_in_lines(part, self._kind), _MOST_FOUND))
            furthest = max(
                (f.read.end for f in found if f.read.start <= scope.end - context), default=0
            )
            if furthest < len(part) or seen_end == len(raw):
                return sorted((f.moved(context) for f in found), key=lambda f: f.read)
            # The last value may go on after the part that was searched.
            seen_end = min(2 * seen_end - context, len(raw))
        return None

    def _released(self, edit: TextEdit, former: list[Found], starts: set[int]) -> list[Span]:
        """Return the parts of former values that changed themselves: what is found now counts.

        They are those of names that are there still, untouched, and have a value that begins at one
        of ``starts``, and tokens of a known form that are typed on.
        """
        n_more = len(edit.text) - (edit.end - edit.start)
        released: list[Span] = []
        for found in former:
            name, value = found.read.start, found.parts[0].start
            if name == value:
                is_changed = value <= edit.end and edit.start <= found.parts[-1].end
            elif name >= edit.end:
                is_changed = name + n_more in starts
            else:
                is_changed = name in starts and not _IN_NAME.fullmatch(self.raw, name, edit.start)
            if is_changed:
                released += found.parts
        return merged(released)

    def _take(
        self,
        raw: str,
        edit: TextEdit,
        found: list[Found],
        bare: list[Span],
        released: list[Span],
    ) -> Masking:
        in_lines = merged(part for f in found for part in f.parts)
        n_markers = raw.count(BEGIN) if BEGIN in raw else 0
        blocks = key_blocks(raw) if 0 < n_markers <= MOST_SECRETS else []
        keys = [*_changed_keys(self._blocks, blocks, edit), *_changed_keys(self._bare, bare, edit)]
        kept = [] if self.is_secret else self._kept(edit, merged([*released, *keys]))
        n_secrets = max(len(in_lines) + len(bare), n_markers, len(kept))
        self.is_secret = n_secrets > MOST_SECRETS
        self._found, self._bare, self._blocks = found, bare, blocks
        if self.is_secret:
            masking = Masking(TextEdit(0, len(self.text), ""), (Span(0, 0),), (raw,))
            self._found, self._bare, self._blocks, self._spans = [], [], [], []
            self._removed = ()
            self.raw, self.text = raw, ""
            self._n_secret_chars = len(raw)
            return masking
        spans = merged([*in_lines, *blocks, *bare]) if blocks or bare else in_lines
        known = {*spans}
        if others := [span for span in kept if span not in known]:
            spans = merged([*spans, *others])
        masking, self.text = self._masking(raw, edit, spans, {*kept})
        self.raw, self._spans = raw, spans
        return masking

    def _kept(self, edit: TextEdit, released: list[Span]) -> list[Span]:
        """Return where the former secrets stand that the edit leaves as they are."""
        n_more = len(edit.text) - (edit.end - edit.start)
        kept: list[Span] = []
        touched: list[str] = []
        for span in self._spans:
            if edit.start <= span.start and span.end <= edit.end:
                touched.append(self.raw[span.start : span.end])
            elif released and any(s.start <= span.start and span.end <= s.end for s in released):
                continue
            elif span.end <= edit.start:
                kept.append(span)
            elif span.start >= edit.end:
                kept.append(Span(span.start + n_more, span.end + n_more))
            elif not edit.text:  # what is left of it is still its letters
                end = span.end + n_more if span.end > edit.end else edit.start
                kept.append(Span(min(span.start, edit.start), end))
        if touched:
            self._removed = tuple(dict.fromkeys([*self._removed, *touched]))[-_N_REMOVED:]
        for value in self._removed if len(edit.text) >= N_LETTERS else ():
            start = edit.text.find(value) if len(value) >= N_LETTERS else -1
            while start >= 0:
                end = start + len(value)
                kept.append(Span(edit.start + start, edit.start + end))
                start = edit.text.find(value, end)
        return kept

    def _masking(
        self, raw: str, edit: TextEdit, spans: list[Span], kept: set[Span]
    ) -> tuple[Masking, str]:
        """Return what a version changes, and its masked text."""
        former = self._spans
        n_more = len(edit.text) - (edit.end - edit.start)
        pairs = zip(former, spans, strict=False)
        alike = takewhile(lambda pair: pair[0] == pair[1] and pair[0].end <= edit.start, pairs)
        n_head = sum(1 for _ in alike)
        pairs = zip(reversed(former[n_head:]), reversed(spans[n_head:]), strict=False)
        alike = takewhile(
            lambda pair: (
                pair[0].start >= edit.end
                and pair[0].start + n_more == pair[1].start
                and pair[0].end + n_more == pair[1].end
            ),
            pairs,
        )
        n_tail = sum(1 for _ in alike)
        before, now = former[n_head : len(former) - n_tail], spans[n_head : len(spans) - n_tail]
        start = min(edit.start, *(s.start for s in (*before[:1], *now[:1])), edit.start)
        end = max(edit.end, *(s.end for s in before[-1:]), *(s.end - n_more for s in now[-1:]), 0)
        shift = _n_longer(former[:n_head])
        piece = _with_placeholders(
            raw[start : end + n_more], [Span(s.start - start, s.end - start) for s in now]
        )
        whole = TextEdit(start + shift, end + shift + _n_longer(before), piece)
        text = whole.applied_to(self.text)
        new = [span for span in now if span not in kept]
        hidden = [place for span in new for place in self._shown(span, edit, before, shift)]
        secrets = tuple(raw[span.start : span.end] for span in new)
        shortest = shortest_edit(self.text, text, whole)
        return Masking(shortest, tuple(hidden), secrets), text

    def _shown(
        self, span: Span, edit: TextEdit, masked_spans: list[Span], shift: int
    ) -> list[Span]:
        """Return where the former masked text shows letters of a secret of the new version.

        ``masked_spans`` are the former secrets near it, from where places are ``shift`` higher.
        """
        inserted_end = edit.start + len(edit.text)
        n_more = inserted_end - edit.end
        start, end = span
        if start > edit.start:
            start = start - n_more if start >= inserted_end else edit.start
        if end > edit.start:
            end = end - n_more if end >= inserted_end else edit.end
        shown: list[Span] = []
        for masked_span in masked_spans:
            if masked_span.start > start and end > start:
                shown.append(Span(start + shift, min(end, masked_span.start) + shift))
            if masked_span.start < end:
                start = max(start, masked_span.end)
            if masked_span.end <= start:
                shift += _n_longer([masked_span])
        if end > start:
            shown.append(Span(start + shift, end + shift))
        return shown or [Span(0, 0)]

    def masked_offset(self, cursor: int) -> int | None:
        """Return where a cursor in the raw text stands in the masked one.

        None if the cursor's line holds a secret, or part of one, or would if it ended there.
        """
        if self.is_secret:
            return None
        line_start = self.raw.rfind("\n", 0, cursor) + 1
        line_end = self.raw.find("\n", cursor)
        line_end = len(self.raw) if line_end < 0 else line_end
        n_before = bisect_left(self._spans, Span(line_start, line_start))
        if n_before and self._spans[n_before - 1].end > line_start:
            return None
        if n_before < len(self._spans) and self._spans[n_before].start < line_end:
            return None
        if self._is_begun(cursor):
            return None
        n_removed = sum(end - start for start, end in self._spans[:n_before])
        return cursor - n_removed + n_before * len(PLACEHOLDER)

    def raw_range(self, start: int, end: int) -> tuple[int, int] | None:
        """Return where a range of the masked text stands in the raw one.

        None if it holds a placeholder or part of one, or if the text is secret as a whole.
        """
        if self.is_secret:
            return None
        n_more = 0
        for span in self._spans:
            at = span.start + n_more
            if at >= end:
                break
            if at + len(PLACEHOLDER) > start:
                return None
            n_more += len(PLACEHOLDER) - (span.end - span.start)
        return start - n_more, end - n_more

    def _is_begun(self, cursor: int) -> bool:
        """Whether the cursor is in a secret, were the text to end there.

        Editors close quotes and brackets before there is anything between them.
        """
        start = self.raw.rfind("\n", max(0, cursor - _REACH), cursor)
        for _ in range(N_BESIDE[self._kind]):
            start = self.raw.rfind("\n", max(0, cursor - _REACH), max(0, start))
        start = max(start + 1, cursor - _REACH, 0)
        part = self.raw[start:cursor]
        return any(
            end == len(part) for f in secrets_in_lines(part, self._kind) for _, end in f.parts
        )


class _Scope(NamedTuple):
    """The part of a new version that is searched again, in its characters."""

    context: int
    """The search begins here."""
    start: int
    end: int
    """What is read from a place between ``start`` and ``end`` on is found anew."""
    seen_end: int
    """The search ends here, or later."""
    changed_start: int
    changed_end: int

    def near_change(self) -> _Scope:
        """Return the part of long lines that a change affects."""
        start = max(self.start, self.changed_start - _REACH)
        end = min(self.end, self.changed_end + _REACH)
        return self._replace(
            context=max(self.context, start - _REACH),
            start=start,
            end=end,
            seen_end=min(self.seen_end, end + _REACH),
        )

    def from_line_of(self, text: str, start: int) -> _Scope:
        """Return the scope with what a value that began earlier is read from."""
        line_start = text.rfind("\n", max(0, start - _REACH), start) + 1
        context = line_start or max(0, start - _REACH)
        return self._replace(context=min(self.context, context), start=start)


def _changed_keys(former: list[Span], now: list[Span], edit: TextEdit) -> list[Span]:
    """Return the former private keys of which each has another extent now."""
    if not former or former == now:
        return []
    n_more = len(edit.text) - (edit.end - edit.start)
    changed: list[Span] = []
    for span in former:
        start = span.start + (n_more if span.start >= edit.end else 0)
        end = span.end + (n_more if span.end >= edit.end else 0)
        idx = bisect_left(now, Span(start, start))
        near = now[max(0, idx - 1) : idx + 1]
        if any(key.start < end and start < key.end for key in near):
            changed.append(span)
    return changed


def _changed_lines(edit: TextEdit, new: str, n_beside: int) -> _Scope:
    """Return which lines must be searched: those that changed, and those beside them.

    Up to ``n_beside`` lines before the first changed one may name a secret in it.
    """
    changed_end = edit.start + len(edit.text)
    start = new.rfind("\n", 0, edit.start) + 1
    end = new.find("\n", changed_end)
    for _ in range(n_beside):
        start = new.rfind("\n", 0, max(0, start - 1)) + 1
    end = seen_end = len(new) if end < 0 else end
    for _ in range(n_beside + 1):
        found = new.find("\n", seen_end + 1)
        seen_end = len(new) if found < 0 else found
    return _Scope(start, start, end, seen_end, edit.start, changed_end)


def _all_secrets(text: str, kind: TextKind) -> list[Span]:
    in_lines = (part for found in secrets_in_lines(text, kind) for part in found.parts)
    return merged([*in_lines, *key_blocks(text), *bare_keys(text)])


def _n_longer(spans: list[Span]) -> int:
    """Return how many characters more the placeholders of secrets have."""
    return sum(len(PLACEHOLDER) - (end - start) for start, end in spans)


def _with_placeholders(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += (text[position:start], PLACEHOLDER)
        position = end
    return "".join((*parts, text[position:]))
