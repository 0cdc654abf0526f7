"""A text with a placeholder for each secret, kept up to date at the cost of what changed."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from speclsp.masking.assignments import TextKind
from speclsp.masking.key_blocks import key_blocks
from speclsp.masking.line_scan import kind_of, secrets_in_lines
from speclsp.masking.spans import Span, merged

PLACEHOLDER: Final = "__MASKED_SECRET__"
"""What stands in place of a secret: a name, so that syntax around it stays what it was."""

RULES_VERSION: Final = 1
"""Changes with what is found or put in its place: texts kept under another one are made again."""

_STEP: Final = 65_536
_LEAST_CUT: Final = 5
"""Characters of a placeholder's beginning that tell it from a name such as ``__main__``."""


def masked(text: str, path: str) -> str:
    """Return a file's text with its secrets masked; its name decides what may be one."""
    spans = _all_secrets(text, kind_of(path))
    return _with_placeholders(text, spans) if spans else text


def holds_secret(text: str, path: str) -> bool:
    """Whether a text holds a secret or what stands in place of one."""
    return PLACEHOLDER in text or bool(_all_secrets(text, kind_of(path)))


def before_secret(text: str, before: str, path: str) -> str:
    """Return a completion up to its first secret or placeholder.

    ``before`` is the cursor's line up to the cursor.  What was cut short at a placeholder's
    beginning loses that, too.
    """
    end = text.find(PLACEHOLDER)
    if end < 0:
        end = len(text)
        for n_chars in range(len(PLACEHOLDER) - 1, _LEAST_CUT - 1, -1):
            if text.endswith(PLACEHOLDER[:n_chars]):
                end = len(text) - n_chars
                break
    spans = _all_secrets(before + text, kind_of(path))
    starts = [max(0, span.start - len(before)) for span in spans if span.end > len(before)]
    return text[: min([end, *starts])]


class MaskedText:
    """The newest version of one text.  Not thread-safe."""

    def __init__(self, path: str) -> None:
        self._kind: TextKind = kind_of(path)
        self._in_lines: list[Span] = []
        self._spans: list[Span] = []
        self.raw = ""
        """The text as it is."""
        self.text = ""
        """The text with placeholders."""

    def update(self, raw: str) -> None:
        """Take a new version; only lines that changed are looked at, and those beside them."""
        if raw == self.raw:
            return
        start, end, shift = self._changed_lines(raw)
        # The line before may hold the name of what the first changed line holds.
        context = raw.rfind("\n", 0, max(0, start - 1)) + 1
        found = secrets_in_lines(raw[context:end], self._kind)
        self._in_lines = [
            *(span for span in self._in_lines if span.start < start),
            *(Span(context + s, context + e) for s, e in found if context + s >= start),
            *(Span(s + shift, e + shift) for s, e in self._in_lines if s + shift >= end),
        ]
        self._spans = merged([*self._in_lines, *key_blocks(raw)])
        self.raw = raw
        self.text = _with_placeholders(raw, self._spans) if self._spans else raw

    def split(self, cursor: int) -> tuple[str, str] | None:
        """Return the masked text before and after a cursor in the raw text.

        None where the cursor's line holds a secret, or part of one.
        """
        line_start = self.raw.rfind("\n", 0, cursor) + 1
        line_end = self.raw.find("\n", cursor)
        line_end = len(self.raw) if line_end < 0 else line_end
        n_before = bisect_left(self._spans, Span(line_start, line_start))
        if n_before and self._spans[n_before - 1].end > line_start:
            return None
        if n_before < len(self._spans) and self._spans[n_before].start < line_end:
            return None
        n_removed = sum(end - start for start, end in self._spans[:n_before])
        at = cursor - n_removed + n_before * len(PLACEHOLDER)
        return self.text[:at], self.text[at:]

    def _changed_lines(self, raw: str) -> tuple[int, int, int]:
        """Return where in ``raw`` the lines begin and end that have to be looked at again.

        The third number is by how much what follows them has moved.  The line behind those that
        changed is one of them: its name may stand on the last of them.
        """
        old = self.raw
        n_head = _common_head(old, raw)
        n_tail = _common_tail(old, raw, min(len(old), len(raw)) - n_head)
        start = raw.rfind("\n", 0, n_head) + 1
        end = raw.find("\n", len(raw) - n_tail)
        if end >= 0:
            end = raw.find("\n", end + 1)
        return start, len(raw) if end < 0 else end, len(raw) - len(old)


def _all_secrets(text: str, kind: TextKind) -> list[Span]:
    return merged([*secrets_in_lines(text, kind), *key_blocks(text)])


def _with_placeholders(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += (text[position:start], PLACEHOLDER)
        position = end
    return "".join((*parts, text[position:]))


def _common_head(old: str, new: str) -> int:
    """Return how many characters two texts begin with alike."""
    n_max = min(len(old), len(new))
    n_alike = 0
    step = _STEP
    while step and n_alike < n_max:
        if old[n_alike : n_alike + step] == new[n_alike : n_alike + step]:
            n_alike += step
            continue
        step //= 2
    return min(n_alike, n_max)


def _common_tail(old: str, new: str, n_max: int) -> int:
    """Return how many characters two texts end with alike, ``n_max`` at most."""
    n_alike = 0
    step = _STEP
    while step and n_alike < n_max:
        n_more = min(step, n_max - n_alike)
        old_end, new_end = len(old) - n_alike, len(new) - n_alike
        if old[old_end - n_more : old_end] == new[new_end - n_more : new_end]:
            n_alike += n_more
            continue
        step //= 2
    return n_alike
