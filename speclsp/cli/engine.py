"""``speclsp engine``: shows and ends the engine processes that windows share, and their logs."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.filesize import decimal

from speclsp.cli.options import (
    SettingsCommand,
    given_settings,
    json_option,
    prepare_to_serve,
    print_json,
)
from speclsp.embedded import TITLE
from speclsp.engine_process.place import (
    EngineInfo,
    EnginePlace,
    engine_place,
    known_places,
    read_info,
)
from speclsp.engine_process.start import listen_alone, running_engines, status_of
from speclsp.engine_process.start import stop as stop_engine
from speclsp.errors import EngineProcessError, SpecLspError
from speclsp.model_title import model_title
from speclsp.printable import printable
from speclsp.project.source_text import open_regular
from speclsp.seam.events import Event, LogLine, Problem, StateChanged

if TYPE_CHECKING:
    from speclsp.completer.engine import Engine
    from speclsp.engine_process.listening import Endpoint
    from speclsp.engine_process.server import EngineServer
    from speclsp.settings import Settings

logger = logging.getLogger(__name__)

_NATIVE_DEBUG = "llama.cpp: debug:"
_FOLLOW_S = 0.2


class _EngineGroup(click.Group):
    """Takes `speclsp engine --listen …` for `speclsp engine run --listen …`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].partition("=")[0] == "--listen":
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_EngineGroup)
def engine() -> None:
    """Show or end the engine processes that windows share.

    With the setting `engine` = shared, the first window starts an engine, windows with the same
    models and engine settings use it, and it ends when the last window has been gone for
    `engine_exit_seconds`.

    `speclsp engine --listen ADDRESS` serves windows of your other machines until it is stopped.
    """


@engine.command(cls=SettingsCommand)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Serve windows of your other machines at unix:/PATH, which SSH forwards.",
)
@click.option("--listen-fd", metavar="N", type=int, help="The listening socket of a window.")
@click.option("--name", help="The engine's name, which its settings make.")
def run(
    listen: str | None,
    listen_fd: int | None,
    name: str | None,
    **options: Any,
) -> None:
    """Serve windows until the last has gone, or, with --listen, until it is stopped."""
    # Imported here, so that the other commands start fast.
    from speclsp.completer.engine import Engine  # noqa: PLC0415
    from speclsp.completer.local import LocalCompleter  # noqa: PLC0415
    from speclsp.engine_process import lifetime  # noqa: PLC0415
    from speclsp.engine_process.server import EngineServer, Watchdog  # noqa: PLC0415

    settings = given_settings(options)
    place = engine_place(settings, listen or "")
    if listen is None and (listen_fd is None or name is None):
        raise click.UsageError("Give --listen ADDRESS; windows start engines by themselves.")
    if listen is not None and settings.engine_url:
        raise click.UsageError("--listen serves models of this machine: leave out --engine-url.")
    if listen is None and place.name != name:
        raise EngineProcessError(
            "speclsp was changed while a window was open.",
            remedy="Restart the language server in that window.",
        )
    prepare_to_serve()
    endpoint = refusal = None
    if listen is None:
        listener = socket.socket(fileno=listen_fd)
        refusal = lifetime.no_room(place, settings)
    else:
        listener, endpoint = _opened(place, settings, listen)
        click.echo(f"Process {os.getpid()} listens at {endpoint.path}; `speclsp engine log -f`.")
        sys.stdout.flush()
    faulthandler.enable()
    logging.basicConfig(handlers=[lifetime.LogFile(place)])
    logging.getLogger("speclsp").setLevel(logging.DEBUG)
    gc.freeze()
    models = Engine(settings, log=_log)
    server = EngineServer(
        lambda of_window: LocalCompleter(of_window, engine=models),
        own=settings if endpoint else None,
    )
    watchdog = Watchdog(lambda: models.thread.progress)

    async def close() -> None:
        watchdog.close()
        await server.close()
        models.close()

    loop = lifetime.EngineLoop(
        place,
        listener,
        settings,
        server.serve_window,
        status=lambda: _served(server, models),
        close=close,
        refusal=refusal,
        elsewhere=endpoint,
    )
    asyncio.run(loop.run())


def _opened(place: EnginePlace, settings: Settings, listen: str) -> tuple[socket.socket, Endpoint]:
    """Listen at the engine's own place and at ``listen``, or at neither."""
    from speclsp.engine_process.lifetime import no_room  # noqa: PLC0415
    from speclsp.engine_process.listening import open_endpoint  # noqa: PLC0415

    with ExitStack() as undo:
        listener = listen_alone(place)
        undo.callback(place.socket.unlink, missing_ok=True)
        undo.callback(listener.close)
        if (refusal := no_room(place, settings)) is not None:
            raise refusal
        endpoint = open_endpoint(listen)
        undo.pop_all()
    return listener, endpoint


def _log(event: Event) -> None:
    """Write the engine's events into its log, llama.cpp's lines among them."""
    match event:
        case LogLine() if event.message.startswith(_NATIVE_DEBUG):
            return  # hundreds of lines for each load
        case LogLine():
            logger.log(logging.getLevelNamesMapping()[event.level.upper()], "%s", event.message)
        case Problem():
            logger.error("%s %s", event.message, event.remedy)
        case StateChanged():
            logger.info("%s: %s", event.state, event.message)


def _served(server: EngineServer, models: Engine) -> dict[str, Any]:
    """Return what an engine adds to its status: windows, requests, and what is loaded where."""
    windows, loaded = server.status(), models.models.statistics()
    return {
        "windows": windows,
        "n_requests": sum(int(str(window["requests"])) for window in windows),
        "state": loaded.state,
        "loaded": {"model": loaded.model, "draft_model": loaded.draft_model},
        "devices": loaded.layers,
    }


@engine.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show the running engines: models, windows, memory, requests, uptime."""
    rows = [row for place in running_engines() if (row := _status_row(place)) is not None]
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("No engine is running.")
        return
    for row in rows:
        for line in _status_lines(row):
            click.echo(printable(line, keep="\t\n"))


@engine.command()
@json_option
@click.argument("pids", metavar="[PROCESS]...", type=int, nargs=-1)
def stop(pids: tuple[int, ...], *, as_json: bool) -> None:
    """End the running engines, or those with these process numbers.

    Windows that use one start another when they need it.
    """
    rows = []
    failures = []
    for place in running_engines():
        info = read_info(place) or _told_info(place)
        if info is None or (pids and info.pid not in pids):
            continue
        row: dict[str, Any] = {"pid": info.pid, "model": info.model, "stopped": True}
        try:
            stop_engine(place)
        except TimeoutError:
            row["stopped"] = False
            failures.append(f"Process {info.pid} does not answer: end it by `kill -9 {info.pid}`.")
        rows.append(row)
    if unknown := set(pids) - {row["pid"] for row in rows}:
        raise click.UsageError(
            f"No engine has the process number {min(unknown)}; `speclsp engine status` lists them."
        )
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["stopped"]:
                click.echo(f"Ended process {row['pid']} ({_title(row['model'])}).")
        if not rows:
            click.echo("No engine is running.")
    if failures:
        raise SpecLspError(" ".join(failures))


@engine.command()
@click.option("-f", "--follow", is_flag=True, help="Go on and print new lines.")
@click.option(
    "--lines",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Lines to begin with.",
)
def log(lines: int, *, follow: bool) -> None:
    """Print the logs of the running engines, or the log of the last one.

    llama.cpp's own lines are in it.
    """
    places = running_engines()
    if not places:
        places = sorted((p for p in known_places() if p.log.exists()), key=_changed)[-1:]
    if not places:
        click.echo("No engine has run.")
        return
    read: dict[EnginePlace, tuple[int, int]] = {}
    for place in places:
        if len(places) > 1:
            click.echo(f"==> {place.log} <==")
        text, read[place] = _read_from(place, (0, 0))
        for line in deque(text.splitlines(), lines):
            click.echo(printable(line, keep="\t\n"))
    while follow:
        time.sleep(_FOLLOW_S)
        for place in places:
            text, read[place] = _read_from(place, read[place])
            click.echo(printable(text, keep="\t\n"), nl=False)
            sys.stdout.flush()


def _status_row(place: EnginePlace) -> dict[str, Any] | None:
    """Return an engine's status, its info file's where it does not answer, None where it ended."""
    try:
        return status_of(place)
    except TimeoutError:
        info = read_info(place) or EngineInfo(pid=0, version="", model="", settings={})
        return {**msgspec.to_builtins(info), "error": "does not answer"}


def _told_info(place: EnginePlace) -> EngineInfo | None:
    """Return what an engine without an info file says of itself; None where it says nothing."""
    with suppress(TimeoutError):
        if (row := status_of(place)) is not None:
            names = ("pid", "version", "model", "settings")
            return EngineInfo(**{name: row[name] for name in names})
    return None


def _status_lines(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"Process {row['pid']}: {_title(row['model'])}"
    if "error" in row:
        yield f"  {row['error']}"
        return
    layers = ", ".join(f"{n} layers on {device}" for device, n in row.get("devices", {}).items())
    yield "  " + ", ".join(filter(None, (row.get("state"), layers)))
    memory, uptime = decimal(row["memory_bytes"]), _duration(row["uptime_seconds"])
    if row.get("listens"):
        yield f"  listens at {row['listens']} for windows of other machines"
    yield f"  {row['n_windows']} windows, {row.get('n_requests', 0)} requests, {memory}, {uptime}"
    if row["settings"]:
        yield "  " + ", ".join(f"{name}={value}" for name, value in row["settings"].items())
    for window in row.get("windows", ()):
        folders = ", ".join(window["folders"]) or "no folder"
        yield f"  window: {folders}, {window['requests']} requests"


def _read_from(place: EnginePlace, mark: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    """Return the log's text after ``mark``, its inode and an offset in bytes, and the new mark.

    A log that was started anew is read from its beginning.
    """
    try:
        with open_regular(place.log) as file:
            inode = os.fstat(file.fileno()).st_ino
            file.seek(mark[1] if inode == mark[0] else 0)
            text = file.read()
            return text.decode("utf-8", "replace"), (inode, file.tell())
    except FileNotFoundError:
        return "", mark
    except OSError as error:
        raise EngineProcessError(
            f"The log cannot be read: {error}.", remedy=f"Remove {place.log}."
        ) from error


def _changed(place: EnginePlace) -> float:
    return place.log.stat().st_mtime


def _title(model: str) -> str:
    return model_title(model) if model else TITLE


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
