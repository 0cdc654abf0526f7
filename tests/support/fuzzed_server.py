"""``speclsp serve`` as ever, with one more request: ``fuzz/documents``.

It answers, for each open document, its version, its text as the server has it, and whether the
window's masked text is what masking that text whole gives.
"""

from __future__ import annotations

import sys
from typing import Any

from speclsp.cli.main import main
from speclsp.lsp import server as server_module
from speclsp.lsp.server import SpecLanguageServer
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
            path = known.path
            is_right = known.text == ("" if is_secret_path(path) else masked(buffer.text, path))
        answer[buffer.uri] = [buffer.version, "".join(buffer._lines), is_right]
    return answer


class FuzzedServer(SpecLanguageServer):
    """The server with the request."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.feature("fuzz/documents")(lambda _: documents(self))


server_module.SpecLanguageServer = FuzzedServer
sys.exit(main())
