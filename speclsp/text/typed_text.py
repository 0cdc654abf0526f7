"""Compare typed text with suggested text.

A :class:`CursorContext` is a cursor with the text near it.  Texts are compared within ``N_CHARS``
of the cursor, and by their lengths beyond: a distant edit of the same length is not noticed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from speclsp.seam.completion import GeneratedText, PlacedCompletion, ranges_from
from speclsp.seam.request import AnyPlaced
from speclsp.settings import Settings
from speclsp.text.code_reader import AUTO_CLOSERS, MAX_AUTO_CLOSERS, read_code
from speclsp.text.fitting import Trimmed, apart_from, n_closers_replaced
from speclsp.text.languages import language_of

N_CHARS: Final = 4096
"""Characters before and after the cursor that are kept and compared."""
_TRIPLE_QUOTES: Final = ('"""', "'''", "```")
_LINE_BREAK: Final = re.compile(r"\r?\n\s*")


class Moved(NamedTuple):
    """The difference between a cursor and a later one."""

    typed: str
    """The text between the two."""
    closers: str
    """New closing brackets and quotes after the cursor, with the white space between them."""
    n_passed: int
    """Characters after the earlier cursor that are no longer after the later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorContext:
    """A cursor in a document, and the text near it."""

    before: str
    n_before: int
    """All characters before the cursor."""
    after: str
    n_after: int

    def moved_to(self, request: AnyPlaced) -> Moved | None:
        """Return how typing moved the cursor from here to the request's; None if it did not."""
        text, cursor = request.text, request.cursor
        n_typed = cursor - self.n_before
        if n_typed < 0 or not text.startswith(self.before, self.n_before - len(self.before)):
            return None
        typed = text[self.n_before : cursor]
        n_new = len(text) - cursor - self.n_after
        if n_new <= 0:
            if not text.startswith(self.after[-n_new:], cursor):
                return None
            return Moved(typed, "", -n_new)
        closers = text[cursor : cursor + n_new] if n_new <= MAX_AUTO_CLOSERS else ""
        if not closers or set(closers) - AUTO_CLOSERS - {"\r", "\n"} or not typed:
            return None
        return Moved(typed, closers, 0) if text.startswith(self.after, cursor + n_new) else None


def cursor_context(request: AnyPlaced) -> CursorContext:
    """Return the context of a request's cursor."""
    text, cursor = request.text, request.cursor
    return CursorContext(
        before=text[max(0, cursor - N_CHARS) : cursor],
        n_before=cursor,
        after=text[cursor : cursor + N_CHARS],
        n_after=len(text) - cursor,
    )


def may_share_text(settings: Settings, request: PlacedCompletion) -> bool:
    """Whether a request may get the rest of an earlier request's text.

    Requests that supersede none, that want several texts, or that ask by hand for another draw
    may not.  ``settings`` are those of the request.
    """
    wants_another_draw = request.plain.trigger == "invoked" and settings.temperature > 0
    return (
        request.is_editors
        and settings.suggestion_memory
        and request.plain.n_candidates == 1
        and not wants_another_draw
    )


def rules_of(request: AnyPlaced) -> tuple[object, ...]:
    """Return everything but the text that a request's answer depends on, to compare requests."""
    return (
        request.path,
        request.repo_name,
        request.language_id,
        request.file,
        request.plain.settings,
        request.plain.overrides,
    )


def typed_between(older: AnyPlaced, newer: AnyPlaced, so_far: str) -> str | None:
    """Return what was typed between two requests.

    None if the newer one cannot get the rest of the older one's text, which begins with ``so_far``.
    """
    if newer.uri != older.uri or rules_of(newer) != rules_of(older):
        return None
    place = cursor_context(older)
    moved = place.moved_to(newer)
    if moved is None:
        return None
    # Text that was typed over is among the typed; other text was deleted, and the completion
    # without it is another.
    rest_typed = iter(moved.typed)
    if not all(char in rest_typed for char in place.after[: moved.n_passed]):
        return None
    return None if contradicts(so_far, moved.typed) else moved.typed


def typed_length(text: str, typed: str) -> int | None:
    """Return how many characters of ``text`` the user typed with ``typed``; None if it differs.

    Lines of white space count as equal: an editor indents a blank line, and a suggestion does
    not.
    """
    if text.startswith(typed):
        return len(typed)
    *whole, last = typed.split("\n")
    offset = 0
    for line in whole:
        end = text.find("\n", offset)
        if end < 0:
            return None
        line_of_text = text[offset:end]
        if line_of_text != line and (line_of_text.strip() or line.strip()):
            return None
        offset = end + 1
    return offset + len(last) if text.startswith(last, offset) else None


def rest_of(
    place: CursorContext, whole: GeneratedText, request: AnyPlaced
) -> tuple[int, GeneratedText] | None:
    """Return the rest of a text for a later request of the same document, with the request's id.

    Before it comes the number of characters of the whole text that are before the cursor now.
    None if the request's cursor is elsewhere, if other text was typed, or if all of it was typed.
    An empty text has an empty rest at the same cursor only.
    """
    moved = place.moved_to(request)
    if moved is None or moved.n_passed > whole.n_replaced:
        return None
    n = typed_length(whole.text, moved.typed)
    if n is None or (n == len(whole.text) and whole.text):
        return None
    left = whole.text[n:]
    n_replaced = whole.n_replaced - moved.n_passed
    if moved.closers:
        fitted = _with_closers(left, moved.closers, request, moved.typed)
        if fitted is None or not fitted.text:
            return None
        left, n_replaced = fitted.text, n_replaced + fitted.n_replaced
    drafted, own_id = ranges_from(whole.drafted, n), request.completion_id
    return n, replace(
        whole, completion_id=own_id, text=left, n_replaced=n_replaced, drafted=drafted
    )


def contradicts(so_far: str, typed: str) -> bool:
    """Whether a text that grows from ``so_far`` can no longer begin with ``typed``.

    Indentation is not compared: editors indent new lines themselves.
    """
    if so_far.startswith(typed) or typed.startswith(so_far):
        return False
    left, right = _without_indentation(so_far), _without_indentation(typed)
    return not (left.startswith(right) or right.startswith(left))


def _without_indentation(text: str) -> str:
    return _LINE_BREAK.sub("\n", text.lstrip(" \t"))


def _with_closers(text: str, closers: str, request: AnyPlaced, typed: str) -> Trimmed | None:
    """Fit the rest of a text to what the editor closed for ``typed``; None where it contradicts.

    A rest that closes nothing was cut before that, and goes before the closers.
    """
    language_id = language_of(request.language_id, request.path)
    if "\n" in closers:
        head, _, last = text.rstrip().rpartition("\n")
        if last.strip() == closers.strip():
            return Trimmed(head.rstrip())
    elif closers.strip() in _TRIPLE_QUOTES:
        return Trimmed(text, len(closers)) if closers.strip() in text else None
    elif n_closers_replaced(text, typed.rpartition("\n")[2], closers) == len(closers):
        return Trimmed(text, len(closers))
    if not closers.strip() or read_code(language_id, text).closers:
        return None
    line_before = request.prefix[-N_CHARS:].rpartition("\n")[2]
    return Trimmed(apart_from(closers, text, line_before))
