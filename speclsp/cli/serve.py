"""``speclsp serve``: the language server.

An editor's ``initialize`` is answered before most modules are imported; see ``speclsp.lsp.stdio``.
"""

from __future__ import annotations

import gc
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speclsp.cli.options import SettingsCommand, given_options, prepare_to_serve
from speclsp.errors import SettingsError, StoreError
from speclsp.lsp.stdio import serve_stdio

if TYPE_CHECKING:
    from speclsp.lsp.server import SpecLanguageServer


@click.command(cls=SettingsCommand)
@click.option("--stdio", is_flag=True, help="Serve on standard input and output (the default).")
@click.option("--tcp", metavar="HOST:PORT", help="Serve one client on a TCP port.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take the token of --tcp from this file; a new one is written to an empty file.",
)
@click.option("--no-token", is_flag=True, help="Admit a client of --tcp without a token.")
def serve(
    stdio: bool,
    tcp: str | None,
    token_file: Path | None,
    no_token: bool,
    **options: Any,
) -> None:
    """Run the language server for one client.

    Settings given here hold until the client sets them.
    Without a HOST the address is the loopback one; port 0 takes a free one.
    A client of --tcp must give a token, which is written to standard error.
    """
    if stdio and tcp is not None:
        raise click.UsageError("Give one of --stdio and --tcp.")
    if (token_file is not None or no_token) and tcp is None:
        raise click.UsageError("--token-file and --no-token belong to --tcp.")
    if token_file is not None and no_token:
        raise click.UsageError("Give one of --token-file and --no-token.")
    prepare_to_serve()
    make_server = partial(_make_server, given_options(options))
    if tcp is not None:
        code = _serve_port(make_server, tcp, token_file, no_token=no_token)
    else:
        code = serve_stdio(make_server)
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


def _serve_port(
    make_server: Callable[[], SpecLanguageServer],
    tcp: str,
    token_file: Path | None,
    *,
    no_token: bool,
) -> int:
    from speclsp.lsp.sockets import parse_address, serve_tcp  # noqa: PLC0415

    try:
        host, port = parse_address(tcp)
    except SettingsError as error:
        raise click.BadParameter(str(error), param_hint="--tcp") from error
    token = None if no_token else _token(token_file)
    announce = partial(_announce, token=token if token_file is None else None)
    return serve_tcp(make_server(), host, port, token=token, on_listening=announce)


def _token(file: Path | None) -> str:
    """Return the token in a file, or a new one, which is written to the file.

    Raises StoreError.
    """
    from speclsp.storage.locations import make_private_file  # noqa: PLC0415

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
