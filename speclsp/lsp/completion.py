"""``textDocument/completion``, for clients that have no inline completion: one item."""

from __future__ import annotations

from lsprotocol import types

from speclsp.lsp.ask import accept_command, ask, buffer_and_cursor, sent, wire_range
from speclsp.lsp.session import Session
from speclsp.lsp.suggestion import before_cursor, query_at, with_word_before

OPTIONS = types.CompletionOptions(trigger_characters=list(".([{,=: "), resolve_provider=False)


async def completion(session: Session, params: types.CompletionParams) -> types.CompletionList:
    """Return one item, or none; the client asks again as the user types on."""
    nothing = types.CompletionList(is_incomplete=True, items=[])
    found = buffer_and_cursor(session, params.text_document.uri, params.position)
    if found is None:
        return nothing
    buffer, cursor = found
    query = query_at(buffer, cursor)
    # Popups ask by the kind "invoked" for every letter, so that does not tell who asked.
    buffer, suggestions = await ask(session, query, types.TEXT_DOCUMENT_COMPLETION, "automatic")
    if not suggestions:
        return nothing
    suggestion = with_word_before(before_cursor(suggestions[0], buffer), buffer)
    sent(session, [suggestion])
    session.offered.offer(buffer.uri, suggestion)
    first_line = next((s.strip() for s in suggestion.text.splitlines() if s.strip()), "…")
    item = types.CompletionItem(
        label=first_line,
        kind=types.CompletionItemKind.Text,
        detail="speclsp",
        documentation=_shown(suggestion.text, buffer.language_id),
        preselect=True,
        # Before every other server's items, which sort by their labels.
        sort_text="\x20",
        filter_text=suggestion.text.partition("\n")[0],
        insert_text_format=types.InsertTextFormat.PlainText,
        # The text has its indentation already.
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(
            range=wire_range(session, buffer, suggestion),
            # Some editors insert a popup's text as it is.  All that show ghost text have LF inside.
            new_text=suggestion.text.replace("\n", buffer.newline),
        ),
        command=accept_command(suggestion),
    )
    return types.CompletionList(is_incomplete=True, items=[item])


def _shown(text: str, language_id: str) -> types.MarkupContent | None:
    """Return a text of several lines as the popup's documentation shows it."""
    if "\n" not in text.strip("\n"):
        return None
    fence = "```"
    while fence in text:
        fence += "`"
    value = f"{fence}{language_id}\n{text}\n{fence}"
    return types.MarkupContent(kind=types.MarkupKind.Markdown, value=value)
