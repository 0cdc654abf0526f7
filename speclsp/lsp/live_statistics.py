"""``speclsp/statistics``: the session's sums, for an editor that draws them while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from speclsp.lsp.server import SpecLanguageServer

STATISTICS = "speclsp/statistics"


def live_statistics(ls: SpecLanguageServer, _: Any) -> Any:
    """Return the SessionStats as plain JSON data; unlike the command, this writes no log."""
    return msgspec.to_builtins(ls.session.live_statistics())
