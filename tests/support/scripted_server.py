"""The language server as a process of its own, with a scripted completer.

What the text before the cursor ends with decides what the completer does.
"""

import logging
import os
import sys
import threading
import warnings
from functools import partial

from lsp_wire import numbered_ids
from scripted_completer import Asked, ScriptedCompleter
from waiting import until

from speclsp.errors import EngineError
from speclsp.lsp.server import SpecLanguageServer
from speclsp.lsp.serving import serve_stdio
from speclsp.seam.events import LogLine
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
    until(lambda: asked.cancel.cancelled)
    asked.answer("half", finish_reason="cancelled")


def make(settings: Settings) -> ScriptedCompleter:
    completer = ScriptedCompleter(settings, script)
    completer.emit(LogLine(level="info", message="scripted completer made"))
    return completer


def main() -> int:
    # Each request is to reach the completer.
    options = {"suggestion_memory": False, "automatic_filters": False}
    with numbered_ids():
        return serve_stdio(partial(SpecLanguageServer, make, options), {})


if __name__ == "__main__":
    sys.exit(main())
