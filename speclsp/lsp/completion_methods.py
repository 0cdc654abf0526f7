"""``textDocument/inlineCompletion`` (ghost text) and ``textDocument/completion``.

Clients without inline completion get one item in their popup.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from speclsp.lsp.capabilities import Command
from speclsp.lsp.items import (
    Item,
    Query,
    before_cursor,
    items_from,
    query_selected,
    with_word_before,
)
from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import TextBuffer
from speclsp.seam.completion import CompletionRequest, CompletionResult, Trigger
from speclsp.seam.documents import TextEdit


async def inline_completion(
    session: Session, params: types.InlineCompletionParams
) -> types.InlineCompletionList:
    """Return items, the best first; several if the user asked for them.

    Without items the answer is an empty list: null leaves old ghost text on screen.
    """
    nothing = types.InlineCompletionList(items=[])
    query = _query(session, params, params.context.selected_completion_info)
    if query is None:
        return nothing
    trigger = session.trigger_kinds.trigger(int(params.context.trigger_kind))
    method = types.TEXT_DOCUMENT_INLINE_COMPLETION
    buffer, items = await _ask(session, query, method, trigger)
    if not items:
        return nothing
    _note_sent(session, items)
    return types.InlineCompletionList(
        items=[
            types.InlineCompletionItem(
                insert_text=item.text,
                range=session.wire_range(buffer, item.start, item.end),
                command=_accept_command(item),
            )
            for item in items
        ]
    )


async def completion(session: Session, params: types.CompletionParams) -> types.CompletionList:
    """Return one item, or none; the list is incomplete, so the client asks again at each key."""
    nothing = types.CompletionList(is_incomplete=True, items=[])
    query = _query(session, params)
    if query is None:
        return nothing
    # Popups send the kind "invoked" for every letter, so the kind does not tell who asked.
    method = types.TEXT_DOCUMENT_COMPLETION
    buffer, items = await _ask(session, query, method, "automatic")
    if not items:
        return nothing
    item = with_word_before(before_cursor(items[0], buffer), buffer)
    _note_sent(session, [item])
    if session.window is not None:
        edit = TextEdit(buffer.offset(item.start), buffer.offset(item.end), item.text)
        session.window.offered(item.completion_id, buffer.uri, buffer.text, edit)
    first_line = next((s.strip() for s in item.text.splitlines() if s.strip()), "…")
    popup_item = types.CompletionItem(
        label=first_line,
        kind=types.CompletionItemKind.Text,
        detail="speclsp",
        documentation=_documentation(item.text, buffer.language_id),
        preselect=True,
        # Sorts before all other servers' items, which sort by their labels.
        sort_text="\x20",
        filter_text=item.text.partition("\n")[0],
        insert_text_format=types.InsertTextFormat.PlainText,
        # The text has its indentation already.
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(
            range=session.wire_range(buffer, item.start, item.end),
            # Some editors insert a popup's text unchanged; those with ghost text convert line ends.
            new_text=item.text.replace("\n", buffer.newline),
        ),
        command=_accept_command(item),
    )
    return types.CompletionList(is_incomplete=True, items=[popup_item])


def _query(
    session: Session,
    params: types.InlineCompletionParams | types.CompletionParams,
    selected: types.SelectedCompletionInfo | None = None,
) -> Query | None:
    """Return the cursor in the document as of the request's arrival.

    None where the document is not open, or too large, or nothing can replace the selected item.
    """
    buffer = session.asked_in(params.text_document.uri)
    if buffer is None:
        return None
    if selected is None:
        at = session.cursor(buffer, params.position)
        return Query(buffer=buffer, offset=buffer.offset(at), start=at, end=at)
    start = session.cursor(buffer, selected.range.start)
    end = session.cursor(buffer, selected.range.end)
    return query_selected(buffer, start, end, selected.text)


async def _ask(
    session: Session, query: Query, method: str, trigger: Trigger
) -> tuple[TextBuffer, list[Item]]:
    """Ask the completer; return the buffer's current version and items for it, the best first.

    A newer call for the same document and method cancels this one; one at the same cursor gets its
    answer, too.
    """
    buffer, window = query.buffer, session.window
    here = session.settings_in(buffer)
    if window is None or here is None or (session.is_snoozing and trigger == "automatic"):
        return buffer, []
    settings, overrides = here
    above, below = session.documents.around_cell(buffer.uri)
    request = CompletionRequest(
        uri=buffer.uri,
        version=buffer.version,
        offset=query.offset,
        edit=query.edit,
        above=above,
        below=below,
        overrides=overrides,
        trigger=trigger,
        n_candidates=settings.n_candidates if trigger == "invoked" else 1,
    )

    async def ask() -> CompletionResult | None:
        result = await session.answer("completion", window.complete, request)
        if result is not None:
            session.count(result)
            session.tell_if_late(request, result)
        return result

    with session.requests.newest(method, buffer.uri):
        result = await session.shared.answer(request, ask)
    now = session.documents.get(buffer.uri)
    if result is None or now is None or now.opening is not buffer.opening:
        return buffer, []
    return now, items_from(query, result, now)


def _note_sent(session: Session, items: Sequence[Item]) -> None:
    """Note that items are sent; for clients that do not report it, the first is shown now."""
    window = session.window
    if window is None:
        return
    for item in items:
        window.sent(item.completion_id, item.text, item.n_foreign)
    if not session.client_reports_shown:
        session.tell(window.shown, items[0].completion_id)


def _accept_command(item: Item) -> types.Command:
    """Return the command by which a client reports that it inserted an item."""
    return types.Command(title="Accepted", command=Command.ACCEPTED, arguments=[item.completion_id])


def _documentation(text: str, language_id: str) -> types.MarkupContent | None:
    """Return a text of several lines as the popup's documentation, None for a single line."""
    if "\n" not in text.strip("\n"):
        return None
    fence = "```"
    while fence in text:
        fence += "`"
    value = f"{fence}{language_id}\n{text}\n{fence}"
    return types.MarkupContent(kind=types.MarkupKind.Markdown, value=value)
