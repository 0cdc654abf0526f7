"""An engine process with a scripted model that crashes as it is told, on the product's own command.

Run as ``python crashing_engine.py engine run …``.  A prompt that holds one of the words of
``CRASHES`` ends the process or lets it hang; with ``CRASHING_ENGINE_LOAD`` loading does.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from scripted_models import GatedTarget, ScriptedLoader

from speclsp.cli.main import main
from speclsp.completer import engine
from speclsp.engine_process import server

CRASHES = {
    "please_abort": os.abort,
    "please_fault": lambda: ctypes.string_at(0),
    "please_kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "please_exit": lambda: os._exit(3),
    "please_hang": lambda: time.sleep(600),
}


class CrashingTarget(GatedTarget):
    def decode(self, tokens, n_logits):
        text = bytes(t for t in [*self.cached, *tokens] if t < 256).decode("utf-8", "replace")
        for word, crash in CRASHES.items():
            if word in text:
                os.write(2, f"ggml.c:1: {word}\n".encode())
                crash()
        return super().decode(tokens, n_logits)


class CrashingLoader(ScriptedLoader):
    def weights(self, settings, *more):
        if word := os.environ.get("CRASHING_ENGINE_LOAD"):
            os.write(2, f"ggml.c:1: {word}\n".encode())
            CRASHES[word]()
        weights = super().weights(settings, *more)
        weights.target.__class__ = CrashingTarget
        return weights


if __name__ == "__main__":
    engine.LlamaLoader = lambda _log: CrashingLoader()  # type: ignore[assignment,misc]
    server.Watchdog.__init__.__kwdefaults__.update(still_s=3.0, tick_s=0.1)  # type: ignore[attr-defined]
    sys.exit(main())
