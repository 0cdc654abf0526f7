"""``speclsp serve``: the language server.

``initialize`` is answered before most modules are imported, see ``speclsp.lsp.serving``.
"""

from __future__ import annotations

import gc
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from speclsp.cli.options import SettingsCommand, given_options, prepare_to_serve
from speclsp.lsp.serving import serve_stdio

if TYPE_CHECKING:
    from speclsp.lsp.server import SpecLanguageServer


@click.command(cls=SettingsCommand)
@click.option("--stdio", is_flag=True, help="Serve on standard input and output, as without it.")
def serve(*, stdio: bool, **options: Any) -> None:  # noqa: ARG001  many clients give --stdio
    """Run the language server for one client.

    Settings given here hold until the client sets them.
    """
    prepare_to_serve()
    given = given_options(options)
    code = serve_stdio(partial(_make_server, given), given)
    # Everything is closed.  Without this the interpreter's last collection takes up to a second,
    # and editors wait for the process's end, Emacs for 0.1 s only.
    gc.freeze()
    sys.exit(code)


def _make_server(options: dict[str, Any]) -> SpecLanguageServer:
    """Import the language server, and return one with the command line's settings."""
    # Modules stay: collections during their import find nothing and take 70 ms of 0.5 s.  Later a
    # full collection looks at 18,000 objects, not 98,000 (15 to 20 ms instead of 60 to 90).
    gc.disable()
    from speclsp.cli.window_completer import make_completer  # noqa: PLC0415
    from speclsp.lsp.server import SpecLanguageServer  # noqa: PLC0415

    server = SpecLanguageServer(make_completer, options)
    gc.freeze()
    gc.enable()
    return server
