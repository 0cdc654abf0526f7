"""Requests to llama-server's ``/infill`` and ``/completion``, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.askers import Answer
from speclsp.seam.statistics import RequestStats

_CONTENT: Final = "content"
_TIMINGS: Final = (
    "cache_n", "prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "draft_n",
    "draft_n_accepted",
)  # fmt: skip
PROBABILITIES: Final = "completion_probabilities"
"""The field of a response to a request with ``n_probs``."""
RESPONSE_FIELDS: Final = (_CONTENT, *(f"timings/{name}" for name in _TIMINGS))
"""The plugin asks for fewer: how many draft tokens there were is for the comparison."""

JsonObject = dict[str, Any]
"""What is sent, and what comes back: values of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillAnswer:
    """A server's answer: its text, and what it cost."""

    text: str
    stats: RequestStats = field(default_factory=RequestStats)
    tokens: tuple[tuple[bytes, float], ...] = ()
    """Each token's bytes and log-probability, where the request asks for ``n_probs``."""


Infill = Callable[[JsonObject], InfillAnswer]
"""Sends a request and waits.  Raises :class:`~speclsp.errors.SpecLspError` where that fails."""


def infill_answer(response: JsonObject) -> InfillAnswer:
    """Read a response that has ``RESPONSE_FIELDS``.

    The first token comes from the prompt's last pass; each later pass gives a token, and the
    drafts that it accepts.
    """
    count = {name: _number(response, name) for name in _TIMINGS}
    n_predicted, n_accepted = int(count["predicted_n"]), int(count["draft_n_accepted"])
    n_passes = max(1, n_predicted - n_accepted) if n_predicted else 0
    text = response.get(_CONTENT, "")
    return InfillAnswer(
        text=text if isinstance(text, str) else "",
        stats=RequestStats(
            n_prompt=int(count["cache_n"] + count["prompt_n"]),
            n_prompt_evaluated=int(count["prompt_n"]),
            n_predicted=n_predicted,
            n_target_passes=n_passes,
            n_decode_passes=max(0, n_passes - 1),
            n_drafted=int(count["draft_n"]),
            n_accepted=n_accepted,
            ms_prompt=count["prompt_ms"],
            ms_predict=count["predicted_ms"],
        ),
        tokens=tuple(
            (bytes(one["bytes"]), float(one["logprob"])) for one in response.get(PROBABILITIES, ())
        ),
    )


def _number(response: JsonObject, name: str) -> float:
    value = response.get(f"timings/{name}", 0)
    return float(value) if isinstance(value, int | float) else 0.0


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
