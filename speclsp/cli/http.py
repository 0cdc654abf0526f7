"""``speclsp http``: completion endpoints for editors that speak to llama-server or OpenAI's API."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from speclsp.backends.http.credentials import is_loopback, read_key
from speclsp.cli.extras import install_extra
from speclsp.cli.options import SettingsCommand, given_settings, prepare_to_serve
from speclsp.errors import SettingsError
from speclsp.seam.completer import Completer
from speclsp.seam.documents import WorkspaceFolder
from speclsp.settings import Settings

KEY_VARIABLE = "SPECLSP_HTTP_KEY"
_KEEP_ALIVE_S = 15


@click.command(cls=SettingsCommand)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", default=8012, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Draft from this folder's files, too; several may be given.",
)
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False),
    help=f"Ask clients for the API key in this file; or set {KEY_VARIABLE}.",
)
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="Give the model's own texts around a cursor. Without it they are those that editors get: "
    "to the end of the block, or to where the model stops being sure, without loops, without "
    "brackets that stand there already.",
)
@click.option("--cors-origin", "origins", multiple=True, help="Let pages of this origin ask.")
def http(
    host: str,
    port: int,
    projects: tuple[Path, ...],
    key_file: str | None,
    origins: tuple[str, ...],
    *,
    is_raw: bool,
    **options: Any,
) -> None:
    """Answer programs on llama-server's and OpenAI's completion endpoints.

    The engine is the one that editors with the same models share, unless --engine is own.
    """
    try:
        import uvicorn  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            "`speclsp http` needs Starlette and uvicorn.",
            remedy=install_extra("http"),
        ) from error
    from speclsp.cli.without_editor import write_line  # noqa: PLC0415
    from speclsp.http_server.app import Access, create_app  # noqa: PLC0415
    from speclsp.http_server.clients import Clients  # noqa: PLC0415
    from speclsp.http_server.connections import Connection  # noqa: PLC0415
    from speclsp.log import logging_by  # noqa: PLC0415

    prepare_to_serve()
    key = _key(host, key_file)
    # Whatever they say, no text of a program is kept or learned (speclsp.completer.text_job).
    settings = given_settings(options)
    prompts = _prompts(settings)
    folders = [WorkspaceFolder(root=str(path), name=path.name) for path in projects]
    app = create_app(
        lambda: Clients(*_completers(settings), folders),
        prompts,
        Access(key=key, origins=origins, hosts=(host.lower(),)),
        is_raw=is_raw,
    )
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        http=Connection,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
        server_header=False,
        lifespan="on",
    )
    listener = _listener(host, port)  # clients may connect from the line on
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"http://{shown}:{listener.getsockname()[1]} answers for {prompts.name}.")
    sys.stdout.flush()
    with logging_by(partial(write_line, settings.log_level)):
        uvicorn.Server(config).run(sockets=[listener])


def _key(host: str, key_file: str | None) -> str:
    """Return the key that clients must have; empty for none."""
    key = read_key(key_file or "", "--key-file", KEY_VARIABLE)
    if key_file and not key:
        raise SettingsError(
            f"The key file {key_file} is empty.",
            remedy=f"Write a key into it, for example {secrets.token_urlsafe()}.",
        )
    if not is_loopback(host) and not key:
        raise SettingsError(
            f"{host} is open to other machines, and no API key is set.",
            remedy=f"Set {KEY_VARIABLE}, or give --key-file.",
        )
    return key


def _listener(host: str, port: int) -> socket.socket:
    """Return a listening socket.  Raises SettingsError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_dual = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server((host, port), family=family, dualstack_ipv6=is_dual)
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise SettingsError(
            f"Port {port} of {host} cannot be listened at: {reason}.",
            remedy="Name another --port or --host, or end the program that listens there.",
        ) from error
    # Connections inherit it; asyncio sets it for sockets that name their protocol only.  Without it
    # an answer's body waits 40 ms for the client's delayed acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _completers(settings: Settings) -> tuple[Callable[[], Completer], Callable[[], None]]:
    """Return what makes a client's completer, and what ends their engine if it is this process's.

    All clients have one engine, here or in the process that editors share.
    """
    from speclsp.cli.window_completer import is_shared, make_completer  # noqa: PLC0415

    if is_shared(settings):
        return partial(make_completer, settings, gives_up=False), lambda: None
    from speclsp.completer.engine import Engine  # noqa: PLC0415
    from speclsp.completer.local import LocalCompleter  # noqa: PLC0415

    engine = Engine(settings)
    return partial(LocalCompleter, settings, engine=engine), engine.close


def _prompts(settings: Settings) -> Any:
    from speclsp.backends.llama.vocabulary import load_vocabulary  # noqa: PLC0415
    from speclsp.embedded import model_files  # noqa: PLC0415
    from speclsp.http_server.prompt_tokens import PromptTokens  # noqa: PLC0415

    if settings.engine_url:
        raise SettingsError(
            "A remote engine takes no prompts of other programs.",
            remedy="Let them ask it themselves, or name a model by --model.",
        )
    target = model_files(settings).target
    return PromptTokens(target.stem, load_vocabulary(target))
