"""The prompts of a document: choose the one that leaves the fewest tokens to evaluate.

A document keeps the excerpts of its last prompts, which the KV cache may still hold.  A cursor that
one of them covers is cheap.  After a jump the cursor gets a prompt that begins like a former one
or, if that does not help, a short prompt; a full one is evaluated in idle time, while the user
looks at the first suggestion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk, ShownChunks, renewed_chunks, shown_chunks
from speclsp.prompt.prompt import FimPrompt, FimText, PromptBudget, PromptExcerpt, PromptLayout

NReusable = Callable[[tuple[int, ...]], int]
"""Returns how many leading tokens of a prompt a kept KV state holds."""

N_PROMPTS: Final = 8
"""Maximum excerpts that are kept of a document."""

_N_CHEAP: Final = 16
"""A prompt with no more tokens to evaluate is taken without a search for a better one."""

_LITTLE_ROOM: Final = 0.3
"""Idle time moves the anchor if less than this share of the middle is left for typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSource:
    """The source of context from other files."""

    ranked: Callable[[], Sequence[ContextChunk]]
    """Returns the chunks for the request, the best first."""
    may_show: Callable[[str], bool] = lambda _: True
    """Returns whether chunks of a file may (still) be shown, given its path."""
    given: ShownChunks | None = None
    """The chunks that a prompt shows, instead of ranked ones and those of former prompts."""


NO_CHUNK_SOURCE: Final = ChunkSource(ranked=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQuestion:
    """What a request's prompt depends on."""

    uri: str
    layout: PromptLayout
    text: FimText
    budget: PromptBudget
    n_first: int
    """Maximum tokens that a request evaluates at a new place."""
    chunks: ChunkSource

    def renewed(self, previous: ShownChunks) -> ShownChunks:
        """Return the chunks of a new layout: those of the former one, then new ones."""
        if self.budget.n_chunks <= 0:
            return ShownChunks()
        if self.chunks.given is not None:
            return self.chunks.given
        return renewed_chunks(
            shown_chunks(previous, self.chunks.may_show),
            self.chunks.ranked(),
            self.budget.n_chunks,
            self.layout.encode_chunk,
        )

    def may_show(self, excerpt: PromptExcerpt) -> bool:
        """Whether all chunks of a former prompt may still be shown."""
        if self.chunks.given is not None:
            return excerpt.chunks == self.chunks.given
        return shown_chunks(excerpt.chunks, self.chunks.may_show) == excerpt.chunks

    def continued(self, excerpt: PromptExcerpt) -> FimPrompt | None:
        """Continue a former prompt, see :meth:`PromptLayout.continued`."""
        return self.layout.continued(self.text, self.budget, excerpt)

    def fresh(self, near: PromptExcerpt | None, chunks: ShownChunks) -> FimPrompt:
        """Lay out a new prompt, see :meth:`PromptLayout.fresh`."""
        return self.layout.fresh(self.text, self.budget, near=near, chunks=chunks)


class DocumentPrompts:
    """The prompts of one document.  A shallow copy can be used independently."""

    def __init__(self) -> None:
        self._excerpts: list[PromptExcerpt] = []
        """Those of the last prompts, the last first."""
        self._planned: PromptExcerpt | None = None

    def prompt(self, question: PromptQuestion, n_reusable: NReusable) -> FimPrompt:
        """Return the prompt for a request, and keep its excerpt.

        A new prompt leaves about ``n_first`` tokens to evaluate, if a shorter prompt can achieve
        that.  If ``n_first`` is not below the budget, the prompt is full and has new chunks; else
        these follow in idle time.
        """
        self._excerpts = [e for e in self._excerpts if question.may_show(e)]
        if self._planned is not None and not question.may_show(self._planned):
            self._planned = None
        near = self._excerpts[0] if self._excerpts else None
        former = near.chunks if near is not None else NO_CHUNKS
        if question.layout.layout == "plain":
            chunks = former if near is not None else question.renewed(former)
            prompt = question.fresh(near, chunks)
            self._excerpts = [prompt.excerpt]
            return prompt
        found = self._covering(question, n_reusable)
        if found is None and question.n_first >= question.budget.n_prompt:
            found = question.fresh(near, question.renewed(former))
        elif found is None:
            found = self._short(question, n_reusable)
        self._remember(found.excerpt)
        return found

    def plan(self, question: PromptQuestion) -> FimPrompt | None:
        """Return the prompt to evaluate in idle time; None if the current one will do.

        That is a full prompt if the current one is short, one with a nearer anchor if much was
        typed since, one with chunks if there are none, or one that shows a line that was left out.
        The plan stays the same while it covers the cursor, so that its evaluation can be
        interrupted.
        """
        if not self._excerpts or question.layout.layout == "plain":
            return None
        current = self._excerpts[0]
        prompt = question.continued(current)
        if prompt is None:
            return None
        is_full = current.n_limit >= question.budget.n_prompt
        has_room = prompt.n_room >= prompt.n_middle_max * _LITTLE_ROOM
        is_bare = not current.chunks.chunks and bool(question.renewed(NO_CHUNKS).chunks)
        if is_full and has_room and not is_bare and not prompt.hides_line:
            self._planned = None
            return None
        if self._planned is not None:
            planned = question.continued(self._planned)
            if planned is not None:
                return planned
        near = current if is_full else self._with_suffix(question)
        planned = question.fresh(near, question.renewed((near or current).chunks))
        if is_full and planned.tokens == prompt.tokens:
            return None
        self._planned = planned.excerpt
        return planned

    def adopt(self, excerpt: PromptExcerpt) -> None:
        """Replace the current prompt by the planned one, which was evaluated."""
        self._excerpts = self._excerpts[1:]
        self._planned = None
        self._remember(excerpt)

    def _covering(self, question: PromptQuestion, n_reusable: NReusable) -> FimPrompt | None:
        """Return the cheapest continuation of a former prompt up to the cursor."""
        best: FimPrompt | None = None
        n_first = question.n_first
        n_best = min(n_first, question.budget.n_prompt) + 1
        for excerpt in self._excerpts:
            if excerpt.n_limit < min(n_first, question.budget.n_prompt):
                continue
            prompt = question.continued(excerpt)
            if prompt is None:
                continue
            n_new = len(prompt.tokens) - n_reusable(prompt.tokens)
            if n_new < n_best or best is None:
                best, n_best = prompt, n_new
            if n_new <= _N_CHEAP:
                break
        return best if n_best <= n_first else None

    def _short(self, question: PromptQuestion, n_reusable: NReusable) -> FimPrompt:
        """Return a new prompt: a full one if it is cheap enough, else a short one."""
        near = self._with_suffix(question) or next(iter(self._excerpts), None)
        full = question.fresh(near, near.chunks if near else NO_CHUNKS)
        n_full = len(full.tokens) - n_reusable(full.tokens)
        if n_full <= question.n_first:
            return full
        short, n_short = full, n_full
        for chunks in dict.fromkeys((full.excerpt.chunks, NO_CHUNKS)):
            n_prompt = min(question.n_first + chunks.n_tokens, question.budget.n_prompt)
            less = replace(question, budget=replace(question.budget, n_prompt=n_prompt))
            short = less.fresh(None, chunks)
            n_short = len(short.tokens) - n_reusable(short.tokens)
            if n_short <= question.n_first:
                break  # Chunks that would have to be evaluated follow in idle time.
        return short if n_short < n_full else full

    def _with_suffix(self, question: PromptQuestion) -> PromptExcerpt | None:
        """Return the last full excerpt that shows what stands after the cursor, if any.

        Where the suffix comes first, a prompt with another one reuses nothing.
        """
        suffix, n_prompt = question.text.suffix, question.budget.n_prompt
        full = (e for e in self._excerpts if e.n_limit >= n_prompt and e.suffix.text)
        return next((e for e in full if suffix.startswith(e.suffix.text)), None)

    def _remember(self, excerpt: PromptExcerpt) -> None:
        """Put an excerpt first, in place of the one that it continues."""
        same = (excerpt.suffix.text, excerpt.prefix.text, excerpt.chunks)
        others = [e for e in self._excerpts if (e.suffix.text, e.prefix.text, e.chunks) != same]
        self._excerpts = [excerpt, *others][:N_PROMPTS]
