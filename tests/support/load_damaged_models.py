"""Loads and asks damaged models, each in a forked process, and prints what became of each.

``load_damaged_models.py MODEL FOLDER STEP FIRST`` takes every STEP-th variant from FIRST on.
Prints a JSON line for each: name, outcome (``answered``, ``refused``, ``ended``, ``hung`` or
``raised``), details, and MiB.
"""

import itertools
import json
import os
import resource
import select
import sys
import traceback
from pathlib import Path

from damaged_models import read_model, variants
from typed_requests import request_at, typed_completer

# Loads llama.cpp once, before the processes are forked.
from speclsp.backends.llama import loading  # noqa: F401
from speclsp.errors import SpecLspError
from speclsp.seam.cancellation import CancellationToken
from speclsp.settings import Settings

PATIENCE_S = 120.0
"""An intact model answers in a tenth of a second; the machine may be busy."""


def outcome(path: Path) -> tuple[str, str]:
    """Load a model as the engine does, and ask it."""
    settings = Settings(model=str(path), threads=1, persist=False, index_project=False, n_predict=8)
    try:
        completer = typed_completer(settings)
        completer.start()
        while completer.state() == "loading":
            completer.next_event(0.01)
        request = request_at("def f(x):\n    return ¦\n")
        result = completer.complete(request, CancellationToken()).result(PATIENCE_S)
        return "answered", result.generated.text
    except SpecLspError as error:
        return "refused", str(error)
    except BaseException:  # noqa: BLE001 - that is the finding
        return "raised", traceback.format_exc()


def main() -> None:
    """Fork a process for each variant."""
    model, folder, step, first = sys.argv[1:]
    path = Path(folder) / "damaged.gguf"
    # No core files of the processes that ggml ends.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    all_variants = variants(read_model(Path(model)))
    for name, content_of in itertools.islice(all_variants, int(first), None, int(step)):
        path.write_bytes(content_of())
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writing, json.dumps(outcome(path)).encode())
            os._exit(0)
        os.close(writing)
        is_over = bool(select.select([reading], [], [], PATIENCE_S)[0])
        if not is_over:
            os.kill(pid, 9)
        said = os.read(reading, 1 << 16) if is_over else b""
        os.close(reading)
        _, status, usage = os.wait4(pid, 0)
        if not is_over:
            what, details = "hung", ""
        elif not said:
            what, details = "ended", f"exit status {os.waitstatus_to_exitcode(status)}"
        else:
            what, details = json.loads(said)
        sys.stdout.write(json.dumps([name, what, details, usage.ru_maxrss >> 10]) + "\n")
    path.unlink()


main()
