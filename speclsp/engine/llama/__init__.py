"""Wraps llama_cpp's low-level API in real types; nothing else imports llama_cpp.

llama.cpp's CPU threads meet at a barrier after each operation of a graph, some hundred times per
token, and OpenMP spins there by default.  While an editor, a linter or another server uses the
cores too, spinning threads keep each other from running: on two busy cores a token of the embedded
model took 0.23 ms at the median but 48 ms on average (427 ms at the 95th percentile), and 0.89 ms
on average (0.93 ms) with threads that sleep at barriers.  So they sleep, unless the environment
sets OMP_WAIT_POLICY.  OpenMP reads it when the first import of llama_cpp loads it.

Where an assertion fails, ggml runs a debugger on the process before it ends it, which took 1.6 of
2.1 s; it is told not to, so that the engine can start again at once.  The assertion is logged.
"""

import os

from speclsp.engine.params import ENVIRONMENT
from speclsp.install_llama_cpp import load_cuda_libraries

load_cuda_libraries()
for name, value in ENVIRONMENT.items():
    os.environ.setdefault(name, value)
