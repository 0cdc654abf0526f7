"""Wraps llama_cpp's low-level API in real types; nothing else imports llama_cpp.

llama.cpp's CPU threads meet at a barrier after each operation of a graph, some hundred times per
token, and OpenMP spins there by default.  While an editor, a linter or another server uses the
cores too, spinning threads keep each other from running: a token took up to 300 times as long.
Threads that sleep at once take twice as long as spinning ones if the cores are free.  So GNU's
OpenMP is set to spin for about as long as sleeping and waking takes, unless the environment sets
GOMP_SPINCOUNT or OMP_WAIT_POLICY (docs/decisions/threads.md).  It reads them when the first import
of llama_cpp loads it.

When an assertion fails, ggml runs a debugger on the process before it ends it, which took 1.6 of
2.1 s.  That is switched off, so that the engine can start again at once; the assertion is logged.
"""

import os

from speclsp.backends.params import ENVIRONMENT
from speclsp.install_llama_cpp import load_cuda_libraries

load_cuda_libraries()
for name, value in ENVIRONMENT.items():
    if not (name == "GOMP_SPINCOUNT" and "OMP_WAIT_POLICY" in os.environ):
        os.environ.setdefault(name, value)
