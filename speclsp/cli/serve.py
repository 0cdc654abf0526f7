"""``speclsp serve``: the language server."""

from __future__ import annotations

import gc
import sys
from typing import Any

import click

from speclsp.cli.options import SettingsCommand, given_options
from speclsp.errors import SettingsError
from speclsp.lsp.server import create_server
from speclsp.lsp.sockets import parse_address, serve_tcp, serve_websocket
from speclsp.lsp.stdio import serve_stdio
from speclsp.seam import Completer
from speclsp.settings import Settings

SWITCH_INTERVAL_S = 0.0005
"""Seconds that the engine's thread may run Python code while the event loop waits.

With the interpreter's default of 5 ms, an answer from memory, which takes 0.1 ms, often waited as
long.
"""


@click.command(cls=SettingsCommand)
@click.option("--stdio", is_flag=True, help="Serve on standard input and output (the default).")
@click.option("--tcp", metavar="HOST:PORT", help="Serve one client on a TCP port.")
@click.option("--ws", metavar="HOST:PORT", help="Serve one client on a WebSocket.")
def serve(stdio: bool, tcp: str | None, ws: str | None, **options: Any) -> None:
    """Run the language server for one client.

    Settings given here hold until the client sets them.
    Without a HOST the address is the loopback one; port 0 takes a free one.
    """
    if stdio + (tcp is not None) + (ws is not None) > 1:
        raise click.UsageError("Give one of --stdio, --tcp and --ws.")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = create_server(_completer, given_options(options))
    if tcp is not None:
        host, port = _address("--tcp", tcp)
        code = serve_tcp(server, host, port, on_listening=_announce)
    elif ws is not None:
        host, port = _address("--ws", ws)
        code = serve_websocket(server, host, port, on_listening=_announce)
    else:
        code = serve_stdio(server.protocol, server.session.editor.log)
    # Everything is closed.  Without this the interpreter's last collection takes up to a second,
    # and editors wait for the process's end, Emacs for 0.1 s only.
    gc.freeze()
    sys.exit(code)


def _completer(settings: Settings) -> Completer:
    # Imported when the client has been answered: NumPy and llama.cpp take their time.
    from speclsp.completer.local import LocalCompleter  # noqa: PLC0415

    # Modules stay: without them a full collection looks at 18,000 objects, not 98,000 (15 to 20 ms
    # instead of 60 to 90), and 350 completion requests cause none.
    gc.freeze()
    return LocalCompleter(settings)


def _address(option: str, text: str) -> tuple[str, int]:
    try:
        return parse_address(text)
    except SettingsError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _announce(host: str, port: int) -> None:
    click.echo(f"speclsp listens on {host}:{port}", err=True)
