"""The prompts of a document: choose the one that leaves the fewest tokens to evaluate.

A document keeps the windows of its last prompts, which the KV cache may still hold.  A cursor that
one of them covers is cheap.  After a jump the cursor gets a prompt that begins like a former one
or, if that does not help, a short prompt; a full one is evaluated in idle time, while the user
looks at the first suggestion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from speclsp.prompt.chunks import NO_CHUNKS, ChunkWindow
from speclsp.prompt.prompt import FimPrompt, FimText, PromptBudget, PromptLayout, PromptWindow

NReusable = Callable[[tuple[int, ...]], int]
"""Returns how many leading tokens of a prompt a kept KV state holds."""

RenewChunks = Callable[[ChunkWindow], ChunkWindow]
"""Returns the chunks of a new prompt, given those of the former one."""

N_PROMPTS: Final = 8
"""Most windows that are kept of a document."""

_N_CHEAP: Final = 16
"""A prompt with no more tokens to evaluate is taken without a search for a better one."""

_LITTLE_ROOM: Final = 0.3
"""Idle time moves the anchor if less than this share of the middle is left for typing."""


class DocumentPrompts:
    """The prompts of one document."""

    def __init__(self) -> None:
        self._windows: list[PromptWindow] = []
        self._planned: PromptWindow | None = None

    @property
    def windows(self) -> tuple[PromptWindow, ...]:
        """The windows of the last prompts, the last first."""
        return tuple(self._windows)

    def copy(self) -> DocumentPrompts:
        """Return a copy that can be changed independently."""
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
        """Return the prompt for a request, and keep its window.

        A new prompt leaves about ``n_first`` tokens to evaluate, if a shorter prompt can achieve
        that.  If ``n_first`` is not below the budget, the prompt is full and has new chunks; else
        these follow in idle time.
        """
        near = self._windows[0] if self._windows else None
        if layout.layout == "plain":
            chunks = near.chunks if near is not None else renew(NO_CHUNKS)
            prompt = layout.fresh(text, budget, near=near, chunks=chunks)
            self._windows = [prompt.window]
            return prompt
        found = self._covering(layout, text, budget, n_first, n_reusable)
        if found is None and n_first >= budget.n_prompt:
            chunks = renew(near.chunks if near is not None else NO_CHUNKS)
            found = layout.fresh(text, budget, near=near, chunks=chunks)
        elif found is None:
            found = self._short(layout, text, budget, n_first, n_reusable)
        self._remember(found.window)
        return found

    def plan(
        self,
        layout: PromptLayout,
        text: FimText,
        budget: PromptBudget,
        renew: RenewChunks,
    ) -> FimPrompt | None:
        """Return the prompt to evaluate in idle time; None if the current one will do.

        That is a full prompt if the current one is short, one with a nearer anchor if much was
        typed since, one with chunks if there are none, or one that shows a line that was left out.
        The plan stays the same while it covers the cursor, so that its evaluation can be
        interrupted.
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
        """Replace the current prompt by a planned one that was evaluated."""
        if self._planned is not None and self._windows:
            del self._windows[0]
        self._planned = None
        self._remember(window)

    def without(self, renew: RenewChunks) -> None:
        """Forget the windows and the plan whose chunks ``renew`` changes."""
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
        """Return the cheapest continuation of a former prompt up to the cursor."""
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

    def _short(
        self,
        layout: PromptLayout,
        text: FimText,
        budget: PromptBudget,
        n_first: int,
        n_reusable: NReusable,
    ) -> FimPrompt:
        """Return a new prompt: a full one if it is cheap enough, else a short one."""
        near = self._windows[0] if self._windows else None
        full = layout.fresh(text, budget, near=near, chunks=near.chunks if near else NO_CHUNKS)
        n_reused = n_reusable(full.tokens)
        n_full = len(full.tokens) - n_reused
        if n_full <= n_first:
            return full
        chunks = full.window.chunks if n_reused >= full.window.chunks.n_tokens else NO_CHUNKS
        less = replace(budget, n_prompt=min(n_first + chunks.n_tokens, budget.n_prompt))
        short = layout.fresh(text, less, near=None, chunks=chunks)
        n_short = len(short.tokens) - n_reusable(short.tokens)
        return short if n_short < n_full else full

    def _remember(self, window: PromptWindow) -> None:
        """Put a window first, in place of the one that it continues."""
        same = (window.suffix.text, window.prefix.text, window.chunks)
        self._windows = [
            w for w in self._windows if (w.suffix.text, w.prefix.text, w.chunks) != same
        ]
        self._windows.insert(0, window)
        del self._windows[N_PROMPTS:]
