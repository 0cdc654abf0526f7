"""What ``speclsp explain`` shows: a prompt's parts, its chunks, and what the KV cache reuses."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import msgspec

from speclsp.backends.http.messages import RemoteParams
from speclsp.backends.http.target import remote_target
from speclsp.common_ends import common_head
from speclsp.completer.completion_job import prompt_question, remote_params
from speclsp.completer.edit_prompts import lay_out
from speclsp.completer.jobs import DraftSources, Workbench
from speclsp.errors import EditRefusedError, SettingsError
from speclsp.prompt.chunks import NO_CHUNKS
from speclsp.prompt.document_prompts import ChunkSource, PromptQuestion
from speclsp.prompt.families import prompt_text
from speclsp.prompt.prompt import FimPrompt, FimText
from speclsp.seam.completion import PlacedCompletion
from speclsp.seam.edit import Change, EditRequest
from speclsp.seam.request import PlacedRequest
from speclsp.settings import Settings


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
class ExplainedExcerpt:
    """Lines ``first_line`` to ``last_line`` of the file, from 1; no tokens where it is empty."""

    name: Literal["prefix", "middle", "suffix"]
    first_line: int
    last_line: int
    n_tokens: int
    n_chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedReuse:
    """What the KV cache keeps of the prompt of one keystroke earlier."""

    layout: Literal["continued", "laid out anew"]
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
    excerpts: tuple[ExplainedExcerpt, ...] = ()
    chunks: tuple[ExplainedChunk, ...] = ()
    reuse: ExplainedReuse | None = None
    """None at the start of a file."""
    text: str = ""
    """The prompt, special tokens by their names."""
    request: str = ""
    """What a remote engine would be sent, as its path and JSON; empty for a model here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditExplanation:
    """The prompt of a request for the next edit, as plain data."""

    refused: str = ""
    """Why there is no prompt here; the other fields are empty then."""
    edit_format: str = ""
    model: str = ""
    n_tokens: int = 0
    n_tokens_max: int = 0
    """The model's context, which the answer needs a part of."""
    first_line: int = 0
    last_line: int = 0
    """The lines that the model writes anew, from 1."""
    changes: tuple[Change, ...] = ()
    """The earlier changes that the prompt has room for, the oldest first."""
    files: tuple[str, ...] = ()
    """The paths of the files whose code is shown as context."""
    text: str = ""


def explain_edit(
    request: PlacedRequest[EditRequest],
    settings: Settings,
    bench: Workbench,
    sources: DraftSources,
) -> EditExplanation:
    """Lay out the prompt for the next edit."""
    try:
        laid_out = lay_out(request, request.settings_over(settings), bench, sources)
    except (SettingsError, EditRefusedError) as error:
        return EditExplanation(refused=str(error))
    if not laid_out.prompts:
        return EditExplanation(refused="nothing in this file is like what was edited last.")
    prompt, tokens = laid_out.prompts[0], laid_out.tokens[0]
    region = prompt.region
    first_line = request.text.count("\n", 0, region.start) + 1
    return EditExplanation(
        edit_format=laid_out.edit_format.name,
        model=bench.weights.description,
        n_tokens=len(tokens),
        n_tokens_max=bench.weights.target.n_ctx,
        first_line=first_line,
        last_line=first_line + prompt.old.removesuffix("\n").count("\n"),
        changes=tuple(laid_out.source.changes),
        files=tuple(path for path, _ in laid_out.source.files),
        text=prompt.text,
    )


def explain_prompt(
    request: PlacedCompletion, settings: Settings, bench: Workbench, sources: DraftSources
) -> PromptExplanation:
    """Lay out the prompt for a request as after some typing at its cursor."""
    settings = request.settings_over(settings)
    candidates = sources.chunks.ranked()
    chunks = ChunkSource(ranked=lambda: candidates)
    question, held_back = prompt_question(request, settings, bench, chunks)
    prompt, reuse = _after_a_keystroke(request, question, settings, bench, chunks)
    text, excerpt = question.text, prompt.excerpt
    in_prompt = {laid_out.chunk.key: len(laid_out.tokens) for laid_out in excerpt.chunks.chunks}
    n_parts = prompt.n_prefix + prompt.n_middle + prompt.n_suffix + excerpt.chunks.n_tokens
    cursor = len(text.prefix)
    end = cursor + prompt.n_suffix_chars
    whole = text.prefix + text.suffix
    return PromptExplanation(
        family=question.layout.family.name,
        layout=settings.fim_layout,
        n_tokens=len(prompt.tokens),
        n_tokens_max=question.budget.n_prompt,
        n_chunk_tokens_max=question.budget.n_chunks,
        n_frame=len(prompt.tokens) - n_parts,
        anchor_line=whole.count("\n", 0, excerpt.anchor) + 1,
        anchor_column=excerpt.anchor - whole.rfind("\n", 0, excerpt.anchor),
        held_back=held_back,
        excerpts=(
            _excerpt("prefix", whole, excerpt.prefix.start, excerpt.anchor, prompt.n_prefix),
            _excerpt("middle", whole, excerpt.anchor, cursor, prompt.n_middle),
            _excerpt("suffix", whole, end - len(excerpt.suffix.text), end, prompt.n_suffix),
        ),
        chunks=tuple(
            ExplainedChunk(
                path=candidate.path,
                first_line=candidate.first_line + 1,
                last_line=candidate.last_line + 1,
                reason=candidate.reason,
                detail=candidate.detail,
                n_tokens=in_prompt.get(candidate.key, 0),
                in_prompt=candidate.key in in_prompt,
                text=candidate.text,
            )
            for candidate in candidates
        ),
        reuse=reuse,
        text=prompt_text(
            prompt.tokens, bench.tokenizer.vocabulary, bench.tokenizer.family, bos="<bos>"
        ),
        request=_request(prompt, text, remote_params(request, settings, held_back), bench),
    )


def _after_a_keystroke(
    request: PlacedCompletion,
    question: PromptQuestion,
    settings: Settings,
    bench: Workbench,
    chunks: ChunkSource,
) -> tuple[FimPrompt, ExplainedReuse | None]:
    """Return the prompt as it follows that of one keystroke earlier, and the tokens reused."""
    ranked = question.renewed(NO_CHUNKS)
    if not request.cursor:
        return question.fresh(None, ranked), None
    without_key = request.text[: request.cursor - 1] + request.suffix
    earlier = dataclasses.replace(request, text=without_key, cursor=request.cursor - 1)
    before, _ = prompt_question(earlier, settings, bench, chunks)
    former = before.fresh(None, ranked)
    continued = question.continued(former.excerpt)
    prompt = continued or question.fresh(former.excerpt, ranked)
    # The last token is evaluated always: its logits are those of the first new one.
    n_reused = min(common_head(former.tokens, prompt.tokens), len(prompt.tokens) - 1)
    return prompt, ExplainedReuse(
        layout="laid out anew" if continued is None else "continued",
        n_reused=n_reused,
        n_evaluated=len(prompt.tokens) - n_reused,
    )


def _request(prompt: FimPrompt, text: FimText, params: RemoteParams, bench: Workbench) -> str:
    """Return what a remote engine would be sent; empty where the target is here."""
    if (remote := remote_target(bench.weights.target)) is None:
        return ""
    path, body = remote.request(prompt, text, params)
    return f"POST {path}\n{msgspec.json.format(msgspec.json.encode(body), indent=2).decode()}"


def _excerpt(
    name: Literal["prefix", "middle", "suffix"], text: str, start: int, end: int, n_tokens: int
) -> ExplainedExcerpt:
    first_line = text.count("\n", 0, start) + 1
    return ExplainedExcerpt(
        name=name,
        first_line=first_line,
        last_line=first_line + text[start:end].removesuffix("\n").count("\n"),
        n_tokens=n_tokens,
        n_chars=end - start,
    )
