"""From a cursor to the completer's request, and from its result to what an editor inserts.

Functions over frozen data, without LSP's types.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from speclsp.lsp.text_buffer import Cursor, TextBuffer, well_formed, with_line_feeds
from speclsp.request import CompletionResult, GeneratedText, TextEdit

_WORD_BEFORE = re.compile(r"\w+\Z")


@dataclass(frozen=True, slots=True)
class Query:
    """A cursor in one version of a buffer.

    ``offset`` is the cursor in the buffer's text, and so are ``start`` and ``end``.
    If the editor's completion popup has an item selected, ``start``..``end`` is the range that the
    item replaces, ``selected`` is its text, ``edit`` inserts that text (with LF line ends), and
    ``offset`` is behind the inserted text.
    """

    buffer: TextBuffer
    offset: int
    start: Cursor
    end: Cursor
    edit: TextEdit | None = None
    selected: str | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Text for ``start``..``end``, which lie on one line.

    ``n_foreign`` is how many characters longer ``text`` is at its front than the completer's:
    positive after a popup's selected text, negative where the user has typed some already.
    """

    completion_id: str
    text: str
    start: Cursor
    end: Cursor
    n_foreign: int = 0


def query_at(buffer: TextBuffer, cursor: Cursor) -> Query:
    """Return the query at a cursor."""
    return Query(buffer=buffer, offset=buffer.offset(cursor), start=cursor, end=cursor)


def query_selected(buffer: TextBuffer, start: Cursor, end: Cursor, text: str) -> Query | None:
    """Return the query behind the popup's selected item, as if the item had been inserted.

    The item replaces its range, which holds what was typed of it.  None if the range spans lines,
    which no suggestion can replace.
    """
    if start.line != end.line or end < start:
        return None
    text = well_formed(text)
    edit = TextEdit(buffer.offset(start), buffer.offset(end), with_line_feeds(text))
    return Query(
        buffer=buffer,
        offset=edit.start + len(edit.text),
        start=start,
        end=end,
        edit=edit,
        selected=text,
    )


def suggestions_from(
    query: Query, result: CompletionResult, buffer: TextBuffer
) -> list[Suggestion]:
    """Return the result's texts as suggestions for the buffer's current version.

    If the user has typed the beginning of a text meanwhile, the suggestion is its remainder; texts
    that no longer fit are left out.  The texts are sorted by mean log-probability, the best first,
    if all have one.
    """
    if result.finish_reason == "cancelled":
        return []
    texts = [
        GeneratedText(
            completion_id=result.completion_id,
            text=result.text,
            n_replaced=result.n_replaced,
            mean_logprob=result.mean_logprob,
        ),
        *result.alternatives,
    ]
    if all(text.mean_logprob is not None for text in texts if text.text):
        texts.sort(key=lambda text: -(text.mean_logprob or 0.0))
    found = [_suggestion_from(query, text, buffer) for text in texts]
    return [suggestion for suggestion in found if suggestion is not None]


def _suggestion_from(
    query: Query, alternative: GeneratedText, buffer: TextBuffer
) -> Suggestion | None:
    text = with_line_feeds(alternative.text)
    if not text:
        return None
    if query.selected is not None:
        return _after_selected(query, query.selected, alternative, text, buffer)
    typed = _typed_since(query, buffer)
    if typed is None or not text.startswith(typed) or len(typed) == len(text):
        return None
    start = _advanced(query.start, typed)
    n_line = len(buffer.line(start.line))
    return Suggestion(
        completion_id=alternative.completion_id,
        text=text[len(typed) :],
        start=start,
        end=Cursor(start.line, min(start.column + alternative.n_replaced, n_line)),
        n_foreign=-len(typed),
    )


def before_cursor(suggestion: Suggestion, buffer: TextBuffer) -> Suggestion:
    """Return the suggestion with a range that ends at the cursor, if its text allows that.

    Kate's popup ignores the part of the range behind the cursor, so that a closing bracket there
    would appear twice.
    """
    line, column = suggestion.start
    kept = buffer.line(line)[column : suggestion.end.column]
    text = suggestion.text.removesuffix(kept)
    if not text or text == suggestion.text:
        return suggestion
    return dataclasses.replace(suggestion, text=text, end=suggestion.start)


def with_word_before(suggestion: Suggestion, buffer: TextBuffer) -> Suggestion:
    """Return the suggestion with the word before it included in its range.

    Popups filter their items by that word.
    """
    line, column = suggestion.start
    match = _WORD_BEFORE.search(buffer.line(line)[:column])
    if match is None:
        return suggestion
    return dataclasses.replace(
        suggestion,
        text=match[0] + suggestion.text,
        start=Cursor(line, match.start()),
        n_foreign=suggestion.n_foreign + len(match[0]),
    )


def _after_selected(
    query: Query, selected: str, alternative: GeneratedText, text: str, buffer: TextBuffer
) -> Suggestion | None:
    # The range is the popup's, and it holds for one version.
    if buffer.version != query.buffer.version:
        return None
    if alternative.n_replaced:
        # What stands behind the range stays: the text leaves out what it would have replaced.
        column = query.end.column
        kept = buffer.line(query.end.line)[column : column + alternative.n_replaced]
        text = text.removesuffix(kept) if text.endswith(kept) else ""
    if not text:
        return None
    return Suggestion(
        completion_id=alternative.completion_id,
        text=selected + text,
        start=query.start,
        end=query.end,
        n_foreign=len(selected),
    )


def _typed_since(query: Query, buffer: TextBuffer) -> str | None:
    """Return the text inserted at the cursor since the query; None if anything else changed."""
    if buffer.version == query.buffer.version:
        return ""
    then, now = query.buffer.text, buffer.text
    n_typed = len(now) - len(then)
    prefix, suffix = then[: query.offset], then[query.offset :]
    if n_typed < 0 or not now.startswith(prefix) or not now.endswith(suffix):
        return None
    return now[query.offset : query.offset + n_typed]


def _advanced(cursor: Cursor, typed: str) -> Cursor:
    n_lines = typed.count("\n")
    if not n_lines:
        return Cursor(cursor.line, cursor.column + len(typed))
    return Cursor(cursor.line + n_lines, len(typed) - typed.rfind("\n") - 1)
