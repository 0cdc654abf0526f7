"""The language server as a process of its own, with a scripted completer.

Arguments: ``--stdio`` or ``--tcp PORT [TOKEN]``; a socket's address is printed.
What the text before the cursor ends with decides what the completer does.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import warnings
from functools import partial

from lsp_wire import numbered_ids
from scripted_completer import Asked, ScriptedCompleter

from speclsp.errors import EngineError
from speclsp.events import LogLine
from speclsp.lsp.server import SpecLanguageServer
from speclsp.lsp.sockets import serve_tcp
from speclsp.lsp.stdio import serve_stdio
from speclsp.settings import Settings


def script(asked: Asked) -> None:
    prefix = asked.request.prefix
    if prefix.endswith("wait"):
        threading.Thread(target=wait_for_cancel, args=(asked,), daemon=True).start()
    elif prefix.endswith("fail"):
        asked.future.set_exception(EngineError("llama_decode failed"))
    elif prefix.endswith("print"):
        print("a stray line", end="\n")  # noqa: T201
        sys.stdout.flush()
        os.write(1, b"a stray line of C\n")
        os.system("echo a stray line of a child")
        logging.getLogger("plugin").warning("a plugin's warning")
        warnings.warn("a library's warning", RuntimeWarning, stacklevel=1)
        asked.answer(f"read {sys.stdin.read()!r}")
    else:
        asked.answer(f" # {len(prefix)}+{len(asked.request.suffix)}")


def wait_for_cancel(asked: Asked) -> None:
    while not asked.cancel.cancelled:
        time.sleep(0.005)
    asked.answer("half", finish_reason="cancelled")


def make(settings: Settings) -> ScriptedCompleter:
    completer = ScriptedCompleter(settings, script)
    completer.emit(LogLine(level="info", message="scripted completer made"))
    return completer


def announce(host: str, port: int) -> None:
    print(f"{host}:{port}", flush=True)  # noqa: T201


def main(arguments: list[str]) -> int:
    with numbered_ids():
        return serve(arguments)


def serve(arguments: list[str]) -> int:
    # Each request is to reach the completer.
    options = {"suggestion_memory": False, "automatic_filters": False}
    make_server = partial(SpecLanguageServer, make, options)
    if arguments[0] == "--tcp":
        port, token = int(arguments[1]), (*arguments[2:], None)[0]
        return serve_tcp(make_server(), "127.0.0.1", port, token=token, on_listening=announce)
    return serve_stdio(make_server)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
