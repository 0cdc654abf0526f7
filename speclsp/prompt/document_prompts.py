"""Which prompt to take for a cursor: the one that leaves the least to evaluate.

A document keeps the windows of its latest prompts, which a KV cache may still hold.  A cursor that
one of them covers is cheap.  A cursor elsewhere, after a jump, gets a prompt that shares a former
one's beginning or, where that is not much, a short one: its text is laid out to the full in idle
time, while the first suggestion is being looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from speclsp.prompt.chunks import NO_CHUNKS, ChunkWindow
from speclsp.prompt.prompt import FimPrompt, FimText, PromptBudget, PromptLayout, PromptWindow

NReusable = Callable[[tuple[int, ...]], int]
"""How many leading tokens of a prompt some kept KV state holds."""

RenewChunks = Callable[[ChunkWindow], ChunkWindow]
"""Gives the chunks of a new layout, given those of the former one."""

N_PROMPTS: Final = 8
"""Prompts of a document whose windows are kept."""

_N_CHEAP: Final = 16
"""A prompt that leaves no more to evaluate is taken without looking for a better one."""

_LITTLE_ROOM: Final = 0.3
"""Share of the middle's most tokens: where less can be typed, idle time moves the anchor."""


class DocumentPrompts:
    """The prompts of one document, the one used last in front."""

    def __init__(self) -> None:
        self._windows: list[PromptWindow] = []
        self._planned: PromptWindow | None = None

    @property
    def windows(self) -> tuple[PromptWindow, ...]:
        """The remembered prompts' windows, the one used last in front."""
        return tuple(self._windows)

    def apart(self) -> DocumentPrompts:
        """Return a copy that can be used without a change to this one."""
        copied = DocumentPrompts()
        copied._windows = list(self._windows)
        copied._planned = self._planned
        return copied

    def prompt(
        self,
        layout: PromptLayout,
        text: FimText,
        budget: PromptBudget,
        n_first: int,
        n_reusable: NReusable,
        renew: RenewChunks,
    ) -> FimPrompt:
        """Return the prompt for a cursor that somebody waits at, and keep its window.

        Beyond what the KV cache holds it has about ``n_first`` tokens at the most, where a shorter
        prompt can bring that about.  With ``n_first`` no less than the budget it is never cut, and
        a new layout has new chunks; else those follow in idle time.
        """
        if layout.layout == "plain":
            near = self._windows[0] if self._windows else None
            chunks = near.chunks if near is not None else renew(NO_CHUNKS)
            prompt = layout.fresh(text, budget, near=near, chunks=chunks)
            self._windows = [prompt.window]
            return prompt
        found = self._covering(layout, text, budget, n_first, n_reusable)
        if found is None and n_first >= budget.n_prompt:
            found = self._laid_out_whole(layout, text, budget, renew)
        elif found is None:
            found = self._laid_out(layout, text, budget, n_first, n_reusable)
        self._remember(found.window)
        return found

    def plan(
        self,
        layout: PromptLayout,
        text: FimText,
        budget: PromptBudget,
        renew: RenewChunks,
    ) -> FimPrompt | None:
        """Return the prompt that the next requests should find evaluated; None where it is there.

        That is one laid out to the full where the current one was cut, one with a nearer anchor
        where much was typed since, one with chunks where there were none, and one that shows a
        line that was left out.  ``renew`` gives the chunks of a new layout.  The plan stays the
        same while it covers the cursor, so that its evaluation can be interrupted.
        """
        if not self._windows or layout.layout == "plain":
            return None
        current = self._windows[0]
        prompt = layout.continued(text, budget, current)
        if prompt is None:
            return None
        is_full = current.n_limit >= budget.n_prompt
        has_room = prompt.n_room >= prompt.n_middle_max * _LITTLE_ROOM
        is_bare = not current.chunks.chunks and bool(renew(NO_CHUNKS).chunks)
        if is_full and has_room and not is_bare and not prompt.hides_line:
            self._planned = None
            return None
        if self._planned is not None:
            planned = layout.continued(text, budget, self._planned)
            if planned is not None:
                return planned
        near = current if is_full else None
        planned = layout.fresh(text, budget, near=near, chunks=renew(current.chunks))
        if is_full and planned.tokens == prompt.tokens:
            return None
        self._planned = planned.window
        return planned

    def adopt(self, window: PromptWindow) -> None:
        """Note that a planned prompt was evaluated: it takes the current one's place."""
        if self._planned is not None and self._windows:
            del self._windows[0]
        self._planned = None
        self._remember(window)

    def without(self, renew: RenewChunks) -> None:
        """Forget the windows, and the plan, whose chunks ``renew`` changes."""
        self._windows = [w for w in self._windows if renew(w.chunks) == w.chunks]
        if self._planned is not None and renew(self._planned.chunks) != self._planned.chunks:
            self._planned = None

    def _covering(
        self,
        layout: PromptLayout,
        text: FimText,
        budget: PromptBudget,
        n_first: int,
        n_reusable: NReusable,
    ) -> FimPrompt | None:
        """The cheapest of the former prompts that go on to the cursor."""
        best: FimPrompt | None = None
        n_best = min(n_first, budget.n_prompt) + 1
        for window in self._windows:
            if window.n_limit < min(n_first, budget.n_prompt):
                continue
            prompt = layout.continued(text, budget, window)
            if prompt is None:
                continue
            n_new = len(prompt.tokens) - n_reusable(prompt.tokens)
            if n_new < n_best or best is None:
                best, n_best = prompt, n_new
            if n_new <= _N_CHEAP:
                break
        return best if n_best <= n_first else None

    def _laid_out_whole(
        self, layout: PromptLayout, text: FimText, budget: PromptBudget, renew: RenewChunks
    ) -> FimPrompt:
        near = self._windows[0] if self._windows else None
        chunks = renew(near.chunks if near is not None else NO_CHUNKS)
        return layout.fresh(text, budget, near=near, chunks=chunks)

    def _laid_out(
        self,
        layout: PromptLayout,
        text: FimText,
        budget: PromptBudget,
        n_first: int,
        n_reusable: NReusable,
    ) -> FimPrompt:
        """A new prompt: to the full where that is cheap enough, else a short one."""
        near = self._windows[0] if self._windows else None
        chunks = near.chunks if near is not None else NO_CHUNKS
        whole = layout.fresh(text, budget, near=near, chunks=chunks)
        n_reused = n_reusable(whole.tokens)
        n_whole = len(whole.tokens) - n_reused
        if n_whole <= n_first:
            return whole
        chunks = whole.window.chunks if n_reused >= whole.window.chunks.n_tokens else NO_CHUNKS
        short = replace(budget, n_prompt=min(n_first + chunks.n_tokens, budget.n_prompt))
        prompt = layout.fresh(text, short, near=None, chunks=chunks)
        n_short = len(prompt.tokens) - n_reusable(prompt.tokens)
        return prompt if n_short < n_whole else whole

    def _remember(self, window: PromptWindow) -> None:
        """Put a window in front, instead of the one that it continues."""
        same = (window.suffix.text, window.prefix.text, window.chunks)
        self._windows = [
            w for w in self._windows if (w.suffix.text, w.prefix.text, w.chunks) != same
        ]
        self._windows.insert(0, window)
        del self._windows[N_PROMPTS:]
