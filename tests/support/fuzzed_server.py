"""``speclsp serve`` as ever, with one more request: ``fuzz/documents``.

It answers, for each open document, its version, its text as the server has it, and whether the
window's masked text is what masking that text whole gives.
"""

import sys
from typing import Any

from masked_by_rules import by_rules

from speclsp.cli.main import main
from speclsp.lsp import server as server_module
from speclsp.lsp.server import SpecLanguageServer
from speclsp.seam.documents import Document
from speclsp.secrets.masked_text import masked
from speclsp.secrets.paths import is_secret_path


def documents(server: SpecLanguageServer) -> dict[str, list[Any]]:
    """Return version, text, and whether the masked text is right, by URI."""
    window = server.session.window
    answer: dict[str, list[Any]] = {}
    for buffer in server.session.documents:
        known = None if window is None else window._documents.get(buffer.uri)
        is_right = True
        if known is not None and known.version == buffer.version:
            is_right = _is_masked(window, known, buffer.text)
        answer[buffer.uri] = [buffer.version, "".join(buffer._lines), is_right]
    return answer


def _is_masked(window: Any, known: Document, text: str) -> bool:
    """Whether the completer has a document as it is masked: by the rules, and as it was before."""
    if is_secret_path(known.path):
        return known.text == ""
    (_, newest) = window._documents._masked[known.uri][-1]
    is_by_rules = newest.is_secret or by_rules(newest) == masked(text, known.path)
    return is_by_rules and (newest.raw, newest.text) == (text, known.text)


class FuzzedServer(SpecLanguageServer):
    """The server with the request."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.feature("fuzz/documents")(lambda _: documents(self))


server_module.SpecLanguageServer = FuzzedServer
sys.exit(main())
