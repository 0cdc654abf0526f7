"""A text with a placeholder for each secret, updated by the lines that change."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from copy import copy
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from speclsp.documents import common_head, common_tail
from speclsp.secrets.assignments import TextKind
from speclsp.secrets.line_scan import N_BESIDE, Found, kind_of, secrets_in_lines
from speclsp.secrets.private_keys import BEGIN, bare_keys, key_blocks, part_without_keys
from speclsp.secrets.spans import Span, merged

PLACEHOLDER: Final = "__MASKED_SECRET__"
"""Replaces a secret.  It is a name, so that the syntax around it stays valid."""

RULES_VERSION: Final = 9
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


class MaskedText:
    """The newest version of one text.  Not thread-safe."""

    def __init__(self, path: str) -> None:
        self._kind: TextKind = kind_of(path)
        self._found: list[Found] = []
        """In the order of what was read."""
        self._bare: list[Span] = []
        self._spans: list[Span] = []
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

    def update(self, raw: str, *, n_most: int = sys.maxsize) -> bool:
        """Take a new version; only changed lines and those that depend on them are searched.

        Returns False, and takes nothing, if that is more than ``n_most`` characters.
        """
        if raw == self.raw:
            return True
        if self.is_secret and 2 * len(raw) > self._n_secret_chars:
            self.raw = raw  # its text stays empty
            return True
        known = "" if self.is_secret else self.raw
        shift = len(raw) - len(known)
        scope = self._scope(known, raw)
        searched = self._searched(raw, scope, n_most)
        bare = self._bare_keys(raw, scope, shift, n_most)
        if searched is None or bare is None:
            return False
        found = [
            *(f for f in self._found if f.read.start < scope.start),
            *(f for f in searched if scope.start <= f.read.start <= scope.end),
            *(f.moved(shift) for f in self._found if f.read.start + shift > scope.end),
        ]
        self._take(raw, searched if len(searched) == _MOST_FOUND else found, bare)
        return True

    def _scope(self, old: str, new: str) -> _Scope:
        """Return what must be searched: the lines that changed, and values that were read there.

        A name some lines above may have its value there.
        """
        scope = _changed_lines(old, new, N_BESIDE[self._kind])
        shift = len(new) - len(old)
        if scope.end - scope.start > _LONG:
            scope = scope.near_change()
        changed = Span(scope.changed_start, scope.changed_end - shift)
        reads = (f.read for f in self._found)
        touched = (r.start for r in reads if r.start <= changed.end and changed.start <= r.end)
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

    def _take(self, raw: str, found: list[Found], bare: list[Span]) -> None:
        self.raw = raw
        in_lines = merged(part for f in found for part in f.parts)
        has_blocks = BEGIN in raw
        n_markers = raw.count(BEGIN) if has_blocks else 0
        self.is_secret = max(len(in_lines) + len(bare), n_markers) > MOST_SECRETS
        if self.is_secret:
            self._found, self._bare, self._spans = [], [], []
            self.text = ""
            self._n_secret_chars = len(raw)
            return
        self._found, self._bare = found, bare
        blocks = key_blocks(raw) if has_blocks else []
        self._spans = merged([*in_lines, *blocks, *bare])
        self.text = _with_placeholders(raw, self._spans)

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


def _changed_lines(old: str, new: str, n_beside: int) -> _Scope:
    """Return which lines must be searched: those that changed, and those beside them.

    Up to ``n_beside`` lines before the first changed one may name a secret in it.
    """
    n_head = common_head(old, new, len(new))
    n_tail = common_tail(old, new, min(len(old), len(new)) - n_head)
    changed_end = len(new) - n_tail
    start = new.rfind("\n", 0, n_head) + 1
    end = new.find("\n", changed_end)
    for _ in range(n_beside):
        start = new.rfind("\n", 0, max(0, start - 1)) + 1
    end = seen_end = len(new) if end < 0 else end
    for _ in range(n_beside + 1):
        found = new.find("\n", seen_end + 1)
        seen_end = len(new) if found < 0 else found
    return _Scope(start, start, end, seen_end, n_head, changed_end)


def _all_secrets(text: str, kind: TextKind) -> list[Span]:
    in_lines = (part for found in secrets_in_lines(text, kind) for part in found.parts)
    return merged([*in_lines, *key_blocks(text), *bare_keys(text)])


def _with_placeholders(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += (text[position:start], PLACEHOLDER)
        position = end
    return "".join((*parts, text[position:]))
