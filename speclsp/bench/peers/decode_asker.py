"""Asks a server for its decoding alone: greedy, without rules about when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from speclsp.bench.asking import Answer
from speclsp.bench.cases import EditCase
from speclsp.bench.peers.infill import RESPONSE_FIELDS, Infill, JsonObject
from speclsp.bench.peers.session_sums import SessionSums
from speclsp.bench.peers.vim_buffer import local_context, vim_buffer
from speclsp.request import SessionStats


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


class DecodeAsker:
    """Asks for ``n_predict`` tokens behind the text near the cursor.

    Nothing is remembered or done ahead; the server keeps the prompt where ``keeps_prompt`` is true.
    """

    def __init__(
        self,
        infill: Infill,
        *,
        n_predict: int,
        keeps_prompt: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._infill = infill
        self._body: JsonObject = {
            "id_slot": 0,
            "input_extra": [],
            "n_predict": n_predict,
            "stream": False,
            "cache_prompt": keeps_prompt,
            "response_fields": list(RESPONSE_FIELDS),
            "temperature": 0.0,
        }
        self._clock = clock
        self._sums = SessionSums()

    def enter(self, case: EditCase) -> None:
        """Do nothing: each request has all that it needs."""

    def leave(self, case: EditCase) -> None:
        """Do nothing."""

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        """Ask behind what is typed."""
        started = self._clock()
        before = case.prefix + case.typed[:n_typed]
        context = local_context(vim_buffer(case.path, before, case.suffix))
        found = self._infill(
            {
                **self._body,
                "input_prefix": context.prefix,
                "input_suffix": context.suffix,
                "prompt": context.middle,
            }
        )
        ms = 1000 * (self._clock() - started)
        answer = Answer(text=found.text, ms=ms, stats=found.stats)
        self._sums.add_answer(answer)
        return answer

    def shown(self, answer: Answer) -> None:
        """Count it."""
        self._sums.add_shown(answer)

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Count it."""
        self._sums.add_taken(answer, n_chars)

    def rest(self) -> None:
        """Do nothing: there is no work ahead."""

    def statistics(self) -> SessionStats:
        """Return the session's sums."""
        return self._sums.statistics()
