"""The only importer of llama_cpp: its low-level API behind real types.

llama.cpp's CPU threads meet at a barrier after each operation of a graph, some hundred times per
token, and OpenMP's default is to spin there.  While an editor, a linter or another server uses the
cores as well, the spinning threads keep each other off them: on two busy cores a token of the
embedded model took 0.23 ms at the median but 48 ms on average (427 ms at the 95th percentile), and
0.89 ms on average (0.93 ms) with threads that sleep at barriers.  So they sleep, unless the user
says otherwise.  OpenMP reads this when it is loaded, which the first import of llama_cpp does.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
