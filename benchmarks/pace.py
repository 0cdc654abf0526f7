"""How fast a model is here, and the longest that a run may take by that."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from benchmarks.machine import loaded_models
from speclsp.backends.weights import MAX_PROMPT
from speclsp.settings import Settings

_N_PROMPT: Final = 128
_N_SINGLE: Final = 8
_MINUTE_S: Final = 60.0
_SLACK: Final = 1.25
_START_S: Final = 3.0
"""For loading and indexing before a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds that a model takes."""

    prompt_s: float
    """For a prompt of the most tokens that the settings allow."""
    text_s: float
    """For a text of ``n_predict`` tokens without drafts."""

    def bound(self, n_prompts: int, n_texts: int) -> str:
        """Say how long so many whole prompts and texts take at most."""
        seconds = _SLACK * (n_prompts * (self.prompt_s + _START_S) + n_texts * self.text_s)
        return f"at most {max(1, round(seconds / _MINUTE_S))} minutes at this machine's pace now"


def measured_pace(settings: Settings) -> Pace:
    """Load the settings' model and time a few decodes: some seconds."""
    with loaded_models(settings) as (_tokenizer, weights):
        target = weights.target
        n_prompt = min(settings.n_prompt or MAX_PROMPT, weights.max_prompt)
        n_first = min(_N_PROMPT, target.n_ctx // 4, target.n_batch)
        tokens = [1 + idx % 997 for idx in range(n_first)]
        target.truncate(0)
        target.decode(tokens[:1], 1)  # the first pass reads the weights
        started = time.perf_counter()
        target.decode(tokens[1:], 0)
        prefilled = time.perf_counter()
        for token in tokens[:_N_SINGLE]:
            target.decode([token], 1)
        ended = time.perf_counter()
    return Pace(
        prompt_s=(prefilled - started) * n_prompt / (n_first - 1),
        text_s=(ended - prefilled) * settings.n_predict / _N_SINGLE,
    )
