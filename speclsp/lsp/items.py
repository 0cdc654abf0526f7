"""Items: texts and ranges that an editor inserts, made from a cursor and a completer's result.

Functions over frozen data, without LSP's types.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Final

from speclsp.lsp.text_buffer import Cursor, TextBuffer, with_line_feeds
from speclsp.seam.completion import CompletionResult, GeneratedText
from speclsp.seam.documents import TextEdit

_WORD_BEFORE: Final = re.compile(r"\w+\Z")


@dataclass(frozen=True, slots=True)
class Query:
    """A cursor in one version of a buffer.

    ``offset`` is the cursor in the buffer's text, and so are ``start`` and ``end``.
    If the editor's completion popup has an item selected, ``start``..``end`` is the range that the
    item replaces, ``selected`` is its text, ``edit`` inserts that text (with LF line ends), and
    ``offset`` is after the inserted text.
    """

    buffer: TextBuffer
    offset: int
    start: Cursor
    end: Cursor
    edit: TextEdit | None = None
    selected: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A text that replaces ``start``..``end``, which lie on one line.

    ``n_foreign`` is how many characters ``text`` has before the completer's text (a word, or the
    popup's selected text); it is negative where the user has typed some of the completer's text.
    """

    completion_id: str
    text: str
    start: Cursor
    end: Cursor
    n_foreign: int = 0


def query_selected(buffer: TextBuffer, start: Cursor, end: Cursor, text: str) -> Query | None:
    """Return the query at the end of the popup's selected item, as if it had been inserted.

    The item replaces its range, which holds what was typed of it.  None if the range spans lines,
    which no item can replace.
    """
    if start.line != end.line or end < start:
        return None
    edit = TextEdit(buffer.offset(start), buffer.offset(end), with_line_feeds(text))
    return Query(
        buffer=buffer,
        offset=edit.start + len(edit.text),
        start=start,
        end=end,
        edit=edit,
        selected=text,
    )


def items_from(query: Query, result: CompletionResult, buffer: TextBuffer) -> list[Item]:
    """Return the result's texts as items for the buffer's current version.

    If the user has typed the beginning of a text meanwhile, the item holds the rest; texts that no
    longer fit are left out.  The texts are sorted by mean log-probability, the best first, if all
    have one.
    """
    if result.generated.finish_reason == "cancelled":
        return []
    texts = [result.generated, *result.alternatives]
    if all(text.mean_logprob is not None for text in texts if text.text):
        texts.sort(key=lambda text: -(text.mean_logprob or 0.0))
    found = [_item_from(query, text, buffer) for text in texts]
    return [item for item in found if item is not None]


def _item_from(query: Query, generated: GeneratedText, buffer: TextBuffer) -> Item | None:
    text = with_line_feeds(generated.text)
    if not text:
        return None
    if query.selected is not None:
        return _after_selected(query, query.selected, generated, text, buffer)
    typed = _typed_since(query, buffer)
    if typed is None or not text.startswith(typed) or len(typed) == len(text):
        return None
    start = _advanced(query.start, typed)
    n_line = len(buffer.line(start.line))
    return Item(
        completion_id=generated.completion_id,
        text=text[len(typed) :],
        start=start,
        end=Cursor(start.line, min(start.column + generated.n_replaced, n_line)),
        n_foreign=-len(typed),
    )


def before_cursor(item: Item, buffer: TextBuffer) -> Item:
    """Return the item with a range that ends at the cursor, if its text allows that.

    Kate's popup ignores the part of the range after the cursor, so that a closing bracket there
    would appear twice.
    """
    line, column = item.start
    kept = buffer.line(line)[column : item.end.column]
    text = item.text.removesuffix(kept)
    if not text or text == item.text:
        return item
    return dataclasses.replace(item, text=text, end=item.start)


def with_word_before(item: Item, buffer: TextBuffer) -> Item:
    """Return the item with the word before it included in its range.

    Popups filter their items by that word.
    """
    line, column = item.start
    match = _WORD_BEFORE.search(buffer.line(line)[:column])
    if match is None:
        return item
    return dataclasses.replace(
        item,
        text=match[0] + item.text,
        start=Cursor(line, match.start()),
        n_foreign=item.n_foreign + len(match[0]),
    )


def _after_selected(
    query: Query, selected: str, generated: GeneratedText, text: str, buffer: TextBuffer
) -> Item | None:
    # The popup's range is valid in one version only.
    if buffer.version != query.buffer.version:
        return None
    if generated.n_replaced:
        # The text after the range stays, so the item leaves out what it would have replaced.
        column = query.end.column
        kept = buffer.line(query.end.line)[column : column + generated.n_replaced]
        text = text.removesuffix(kept) if text.endswith(kept) else ""
    if not text:
        return None
    return Item(
        completion_id=generated.completion_id,
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
