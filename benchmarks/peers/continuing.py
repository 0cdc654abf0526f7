"""Has a server continue tokens: its decoding alone, without anybody's prompts and rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.asking import Answer
from benchmarks.peers.infill import RESPONSE_FIELDS, Infill


def continued(
    complete: Infill,
    prompt: Sequence[int],
    n_predict: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Answer:
    """Have a server continue ``prompt`` greedily; no rule but the end token ends the text."""
    started = clock()
    found = complete(
        {
            "id_slot": 0,
            "prompt": list(prompt),
            "n_predict": n_predict,
            "stream": False,
            "cache_prompt": True,
            "response_fields": list(RESPONSE_FIELDS),
            "temperature": 0.0,
        }
    )
    return Answer(text=found.text, ms=1000 * (clock() - started), stats=found.stats)
