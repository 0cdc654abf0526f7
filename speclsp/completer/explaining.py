"""The prompt at a cursor explained: parts, windows, chunks, and what the KV cache reuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from speclsp.completer.completion import Workbench, prompt_question
from speclsp.completer.prompts import ChunkSource
from speclsp.decoding.speculate import common_prefix_length
from speclsp.engine.models import Tokenizer
from speclsp.prompt.chunks import NO_CHUNKS
from speclsp.prompt.context.candidates import Candidate, as_chunk
from speclsp.prompt.prompt import FimPrompt, FimText
from speclsp.request import PlacedRequest
from speclsp.settings import Settings

Layout = Literal["continued", "laid out anew"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedChunk:
    """A piece of another file, why it was chosen, and its tokens in the prompt (0: left out)."""

    path: str
    first_line: int
    last_line: int
    """From 1, as editors count."""
    reason: str
    detail: str
    n_tokens: int
    in_prompt: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWindow:
    """Lines ``first_line`` to ``last_line`` of the file, from 1; no tokens where it is empty."""

    name: Literal["prefix", "middle", "suffix"]
    first_line: int
    last_line: int
    n_tokens: int
    n_chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedReuse:
    """What the KV cache keeps of the prompt of one keystroke earlier."""

    layout: Layout
    n_reused: int
    n_evaluated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptExplanation:
    """A prompt and its reasons, as plain data."""

    refused: str = ""
    """Why there is no prompt here; the other fields are empty then."""
    family: str = ""
    layout: str = ""
    n_tokens: int = 0
    n_tokens_max: int = 0
    n_chunk_tokens_max: int = 0
    n_frame: int = 0
    """Special tokens and names."""
    anchor_line: int = 0
    anchor_column: int = 0
    """Where the middle begins, from 1."""
    held_back: str = ""
    """The end of the text before the cursor that the model generates again (token healing)."""
    windows: tuple[ExplainedWindow, ...] = ()
    chunks: tuple[ExplainedChunk, ...] = ()
    reuse: ExplainedReuse | None = None
    """None at the start of a file."""
    text: str = ""
    """The prompt, special tokens by their names."""


def explain_prompt(
    request: PlacedRequest, settings: Settings, bench: Workbench, candidates: Sequence[Candidate]
) -> PromptExplanation:
    """Lay out the prompt for a request as after some typing at its cursor."""
    settings = request.settings_over(settings)
    chunks = ChunkSource(ranked=lambda: [as_chunk(c) for c in candidates], gone=tuple)
    question, typed = prompt_question(request, settings, bench, chunks)
    layout, text, budget = question.layout, question.text, question.budget
    prompt, reuse = _after_a_keystroke(request, settings, bench, chunks)
    window = prompt.window
    in_prompt = {laid_out.chunk.key: len(laid_out.tokens) for laid_out in window.chunks.chunks}
    anchor_start = text.prefix.rfind("\n", 0, window.anchor) + 1
    n_parts = prompt.n_prefix + prompt.n_middle + prompt.n_suffix + window.chunks.n_tokens
    return PromptExplanation(
        family=layout.family.name,
        layout=settings.fim_layout,
        n_tokens=len(prompt.tokens),
        n_tokens_max=budget.n_prompt,
        n_chunk_tokens_max=budget.n_chunks,
        n_frame=len(prompt.tokens) - n_parts,
        anchor_line=_line(text.prefix, window.anchor),
        anchor_column=window.anchor - anchor_start + 1,
        held_back=typed,
        windows=_windows(text, prompt),
        chunks=tuple(_explained(candidate, in_prompt) for candidate in candidates),
        reuse=reuse,
        text=_as_text(prompt.tokens, bench.tokenizer),
    )


def _after_a_keystroke(
    request: PlacedRequest, settings: Settings, bench: Workbench, chunks: ChunkSource
) -> tuple[FimPrompt, ExplainedReuse | None]:
    """Return the prompt that follows the one of a keystroke earlier, and what it shares."""
    question, _ = prompt_question(request, settings, bench, chunks)
    layout, budget, window = question.layout, question.budget, question.renewed(NO_CHUNKS)
    if not request.cursor:
        return layout.fresh(question.text, budget, near=None, chunks=window), None
    without_key = request.text[: request.cursor - 1] + request.suffix
    earlier = dataclasses.replace(request, text=without_key, cursor=request.cursor - 1)
    before, _ = prompt_question(earlier, settings, bench, chunks)
    former = layout.fresh(before.text, budget, near=None, chunks=window)
    prompt = layout.continued(question.text, budget, former.window)
    how: Layout = "continued"
    if prompt is None:
        prompt = layout.fresh(question.text, budget, near=former.window, chunks=window)
        how = "laid out anew"
    # The last token is evaluated always: its logits are those of the first new one.
    n_reused = min(common_prefix_length(former.tokens, prompt.tokens), len(prompt.tokens) - 1)
    return prompt, ExplainedReuse(
        layout=how, n_reused=n_reused, n_evaluated=len(prompt.tokens) - n_reused
    )


def _windows(text: FimText, prompt: FimPrompt) -> tuple[ExplainedWindow, ...]:
    window = prompt.window
    cursor_line = _line(text.prefix, len(text.prefix))
    n_middle_chars = len(text.prefix) - window.anchor
    hidden = prompt.n_suffix_chars - len(window.suffix.text)
    suffix_line = cursor_line + text.suffix.count("\n", 0, hidden)
    return (
        ExplainedWindow(
            name="prefix",
            first_line=_line(text.prefix, window.prefix.start),
            last_line=_line(text.prefix, max(window.prefix.start, window.anchor - 1)),
            n_tokens=prompt.n_prefix,
            n_chars=window.anchor - window.prefix.start,
        ),
        ExplainedWindow(
            name="middle",
            first_line=_line(text.prefix, window.anchor),
            last_line=cursor_line,
            n_tokens=prompt.n_middle,
            n_chars=n_middle_chars,
        ),
        ExplainedWindow(
            name="suffix",
            first_line=suffix_line,
            last_line=suffix_line + window.suffix.text.rstrip("\n").count("\n"),
            n_tokens=prompt.n_suffix,
            n_chars=len(window.suffix.text),
        ),
    )


def _explained(candidate: Candidate, in_prompt: dict[str, int]) -> ExplainedChunk:
    return ExplainedChunk(
        path=candidate.path,
        first_line=candidate.first_line + 1,
        last_line=candidate.last_line + 1,
        reason=candidate.reason,
        detail=candidate.detail,
        n_tokens=in_prompt.get(candidate.key, 0),
        in_prompt=candidate.key in in_prompt,
        text=candidate.text,
    )


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _as_text(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    names = dict(tokenizer.family.names)
    if tokenizer.family.bos is not None:
        names[tokenizer.family.bos] = "<bos>"
    data = b"".join(
        tokenizer.vocabulary.piece(token) or names.get(token, f"<{token}>").encode()
        for token in tokens
    )
    return data.decode("utf-8", "replace")
