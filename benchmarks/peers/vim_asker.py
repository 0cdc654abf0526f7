"""llama.vim in a replay: the human's keys move its cursor, and pauses let it work ahead."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from benchmarks.askers import Answer
from benchmarks.cases import EditCase
from benchmarks.peers.infill import Infill
from benchmarks.peers.llama_vim import LlamaVim
from benchmarks.peers.vim_buffer import VimBuffer, vim_buffer
from speclsp.reporting.session import summed
from speclsp.seam.statistics import RequestStats, SessionStats

_SEED: Final = 1
_JUMP_S: Final = 3
"""Seconds that going to another file takes, in each of which a chunk gets into the ring."""


class VimAsker:
    """Asks as llama.vim does.

    Going to another file writes the one that is left, as most users have it, and takes some
    seconds, in which the ring advances; both is done before the key whose answer is waited for.
    The plugin starts a process for each request, which is left out here.
    """

    def __init__(
        self,
        infill: Infill,
        *,
        n_predict: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._infill = infill
        self._n_predict = n_predict
        self._clock = clock
        self._own_work = SessionStats(state="ready")
        self._vim = self._new_editor()
        self._project: object = None
        self._here: tuple[str, VimBuffer] | None = None
        """The case's id and the buffer where the cursor was last."""

    def enter(self, case: EditCase) -> None:
        """Open a case's file; another project is opened in a new editor."""
        if case.project != self._project:
            self._add_background()
            self._vim, self._here, self._project = self._new_editor(), None, case.project

    def leave(self, case: EditCase) -> None:
        """Write and close a case's file."""
        if self._here is not None and self._here[0] == case.id:
            self._leave_buffer(self._here[1])
            self._here = None

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        """Move the cursor behind what is typed, and return what is shown."""
        text = case.prefix + case.typed[:n_typed]
        if self._here is None or self._here[0] != case.id:
            self._go_to(vim_buffer(case.path, text, case.suffix))
        started = self._clock()
        buffer = vim_buffer(case.path, text, case.suffix)
        suggestion = self._vim.moved(buffer)
        ms = 1000 * (self._clock() - started)
        self._here = case.id, buffer
        ends = "\r\n" if "\r\n" in text or "\r\n" in case.suffix else "\n"
        return Answer(
            text=suggestion.text.replace("\n", ends),
            source=suggestion.source,
            ms=ms,
            stats=suggestion.answer.stats if suggestion.answer is not None else RequestStats(),
        )

    def shown(self, answer: Answer) -> None:
        """Do nothing: the plugin has shown it."""

    def taken(self, answer: Answer, n_chars: int) -> None:
        """Do nothing: the plugin has no more to do than at any other move."""

    def rest(self) -> None:
        """Let requests in the background be answered."""
        self._vim.work_in_background()

    def statistics(self) -> SessionStats:
        """Return what was done ahead and in idle time; the replay counts requests itself."""
        self._add_background()
        return self._own_work

    def _new_editor(self) -> LlamaVim:
        return LlamaVim(self._infill, n_predict=self._n_predict, seed=_SEED)

    def _go_to(self, buffer: VimBuffer) -> None:
        if self._here is not None:
            self._leave_buffer(self._here[1])
        self._vim.ring.pick_around(buffer)
        for _ in range(_JUMP_S):
            self._vim.advance_ring()

    def _leave_buffer(self, buffer: VimBuffer) -> None:
        # Once for writing the file and once for leaving it: each draws other lines.
        self._vim.ring.pick_around(buffer)
        self._vim.ring.pick_around(buffer)

    def _add_background(self) -> None:
        ahead = (answer.stats for answer in self._vim.ahead)
        n_warmed_up = sum(answer.stats.n_prompt_evaluated for answer in self._vim.warm_ups)
        self._own_work = replace(
            self._own_work,
            prefetch=functools.reduce(summed, ahead, self._own_work.prefetch),
            n_idle_evaluated=self._own_work.n_idle_evaluated + n_warmed_up,
        )
        self._vim.ahead.clear()
        self._vim.warm_ups.clear()
