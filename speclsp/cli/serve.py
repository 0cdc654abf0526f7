"""``speclsp serve``: the language server."""

from __future__ import annotations

import gc
import logging
import secrets
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from speclsp.cli.options import SWITCH_INTERVAL_S, SettingsCommand, given_options
from speclsp.engine_process.client import EngineLink, SharedCompleter
from speclsp.engine_process.place import engine_place
from speclsp.engine_process.start import connect
from speclsp.errors import EngineProcessError, SettingsError, StoreError
from speclsp.lsp.server import create_server
from speclsp.lsp.sockets import parse_address, serve_tcp, serve_websocket
from speclsp.lsp.stdio import serve_stdio
from speclsp.seam import Completer
from speclsp.settings import Settings
from speclsp.storage.locations import make_private_file

logger = logging.getLogger(__name__)


@click.command(cls=SettingsCommand)
@click.option("--stdio", is_flag=True, help="Serve on standard input and output (the default).")
@click.option("--tcp", metavar="HOST:PORT", help="Serve one client on a TCP port.")
@click.option("--ws", metavar="HOST:PORT", help="Serve one client on a WebSocket.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take the token of --tcp or --ws from this file; a new one is written to an empty file.",
)
@click.option("--no-token", is_flag=True, help="Admit a client of --tcp or --ws without a token.")
def serve(
    stdio: bool,
    tcp: str | None,
    ws: str | None,
    token_file: Path | None,
    no_token: bool,
    **options: Any,
) -> None:
    """Run the language server for one client.

    Settings given here hold until the client sets them.
    Without a HOST the address is the loopback one; port 0 takes a free one.
    A client of --tcp or --ws must give a token, which is written to standard error.
    """
    if stdio + (tcp is not None) + (ws is not None) > 1:
        raise click.UsageError("Give one of --stdio, --tcp and --ws.")
    if (token_file is not None or no_token) and tcp is None and ws is None:
        raise click.UsageError("--token-file and --no-token belong to --tcp and --ws.")
    if token_file is not None and no_token:
        raise click.UsageError("Give one of --token-file and --no-token.")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = create_server(_completer, given_options(options))
    if tcp is not None or ws is not None:
        host, port = _address("--tcp", tcp) if tcp is not None else _address("--ws", ws or "")
        token = None if no_token else _token(token_file)
        announce = partial(_announce, token=token if token_file is None else None)
        serve_port = serve_websocket if tcp is None else serve_tcp
        code = serve_port(server, host, port, token=token, on_listening=announce)
    else:
        code = serve_stdio(server.protocol, server.session.editor.log)
    # Everything is closed.  Without this the interpreter's last collection takes up to a second,
    # and editors wait for the process's end, Emacs for 0.1 s only.
    gc.freeze()
    sys.exit(code)


def _completer(settings: Settings) -> Completer:
    if settings.engine == "shared" and not settings.engine_url and _can_share(settings):
        gc.freeze()
        return SharedCompleter(settings, _link)
    # Imported when the client has been answered: NumPy and llama.cpp take their time.
    from speclsp.completer.local import LocalCompleter  # noqa: PLC0415

    # Modules stay: without them a full collection looks at 18,000 objects, not 98,000 (15 to 20 ms
    # instead of 60 to 90), and 350 completion requests cause none.
    gc.freeze()
    return LocalCompleter(settings)


def _can_share(settings: Settings) -> bool:
    """Return whether there is a place for a shared engine; where there is none, log why."""
    reason = "Windows cannot share an engine yet."
    if sys.platform != "win32":
        try:
            engine_place(settings)
        except EngineProcessError as error:
            reason = error.message
        else:
            return True
    logger.warning("%s This window loads the models itself, as with `engine` = own.", reason)
    return False


def _link(settings: Settings) -> EngineLink:
    connection = connect(settings)
    return EngineLink(connection.socket, connection.place.log)


def _address(option: str, text: str) -> tuple[str, int]:
    try:
        return parse_address(text)
    except SettingsError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _token(file: Path | None) -> str:
    """Return the token in a file, or a new one, which is written to the file.

    Raises StoreError.
    """
    token = secrets.token_urlsafe()
    if file is None:
        return token
    try:
        make_private_file(file)
        if kept := file.read_text(encoding="ascii").strip():
            return kept
        file.write_text(f"{token}\n", encoding="ascii")
    except (OSError, ValueError) as error:
        raise StoreError(f"The token file {file} cannot be used: {error}.") from error
    return token


def _announce(host: str, port: int, *, token: str | None) -> None:
    click.echo(f"speclsp listens on {host}:{port}", err=True)
    if token is not None:
        click.echo(f"token: {token}", err=True)
