"""``workspace/didChangeConfiguration``: pushed settings are taken, pulled ones asked for anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from speclsp.lsp.server import SpecLanguageServer


def did_change_configuration(
    ls: SpecLanguageServer, params: types.DidChangeConfigurationParams
) -> None:
    """Put changed settings into effect."""
    session = ls.session
    session.settings.set_pushed(params.settings)
    # Pulling puts both into effect, at once where the client cannot be asked.
    session.spawn(session.pull_settings())
