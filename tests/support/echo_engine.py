"""An engine process that echoes what a window sends, on the product's own main loop.

Run as ``python echo_engine.py engine run --listen-fd=N --name=NAME --engine-exit-seconds=N``.
Each start adds the process's id to the file that ``ECHO_ENGINE_STARTS`` names.
With ``ECHO_ENGINE_FAILS`` it dies first, as a broken installation would.
With ``ECHO_ENGINE_PATIENCE`` it waits that many seconds for its first window, and with
``ECHO_ENGINE_FREE`` so many bytes of memory are free.  With ``ECHO_ENGINE_WITHOUT_THREADS`` it
cannot start its first so many threads.  A window that sends ``log N`` makes it log N lines.
"""

import asyncio
import itertools
import logging
import os
import socket
import sys
import threading
from pathlib import Path

from speclsp.engine_process import lifetime
from speclsp.engine_process.lifetime import EngineLoop, LogFile, no_room
from speclsp.engine_process.place import EnginePlace, user_folder
from speclsp.engine_process.transport import Streams
from speclsp.settings import Settings
from speclsp.settings_resolution import canonical_name, convert


class Echo:
    """Serves windows until they have gone, or until it is closed."""

    def __init__(self) -> None:
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, streams: Streams) -> None:
        reader, writer = streams
        self._writers.add(writer)
        while received := await reader.read(4096):
            if received.startswith(b"log "):
                for number in range(int(received[4:])):
                    logging.getLogger("echo").info("line %d %s", number, "x" * 100)
            writer.write(received)
            await writer.drain()

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()


def refuse_threads(n_threads: int) -> None:
    start, numbers = threading.Thread.start, itertools.count()

    def start_later(thread: threading.Thread) -> None:
        if next(numbers) < n_threads:
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = start_later  # type: ignore[method-assign]


def main() -> None:
    refuse_threads(int(os.environ.get("ECHO_ENGINE_WITHOUT_THREADS", "0")))
    options = dict(arg.removeprefix("--").split("=", 1) for arg in sys.argv[3:] if "=" in arg)
    with Path(os.environ["ECHO_ENGINE_STARTS"]).open("a", encoding="ascii") as starts:
        starts.write(f"{os.getpid()}\n")
    if "ECHO_ENGINE_FAILS" in os.environ:
        sys.exit("llama.cpp is broken")
    lifetime.START_TIMEOUT_S = float(os.environ.get("ECHO_ENGINE_PATIENCE", "30"))  # type: ignore[misc]
    place = EnginePlace(user_folder(), options.pop("name"))
    listener = socket.socket(fileno=int(options.pop("listen-fd")))
    values = {canonical_name(name) or name: value for name, value in options.items()}
    settings = Settings(**{n: convert(n, v, from_text=True) for n, v in values.items()})
    logging.basicConfig(level=logging.DEBUG, handlers=[LogFile(place)])
    if "ECHO_ENGINE_FREE" in os.environ:
        lifetime.free_bytes = lambda _: int(os.environ["ECHO_ENGINE_FREE"])  # type: ignore[assignment]
    refusal = no_room(place, settings)
    status = {"models": ["echo"]}
    echo = Echo()
    loop = EngineLoop(
        place,
        listener,
        settings,
        echo.serve,
        status=lambda: status,
        close=echo.close,
        refusal=refusal,
    )
    asyncio.run(loop.run())


if __name__ == "__main__":
    main()
