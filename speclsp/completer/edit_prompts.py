"""The prompt of a next edit: its format, the regions, the files beside them, and the tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from speclsp.backends.weights import Tokenizer, Weights
from speclsp.completer.completion_job import n_chunk_tokens
from speclsp.completer.jobs import DraftSources, Workbench
from speclsp.drafting.drafter import TokenArray
from speclsp.edits.edit import repeated
from speclsp.edits.formats import (
    FORMATS,
    Analogy,
    EditFormat,
    EditPrompt,
    EditSource,
    format_of,
    missing_tokens,
)
from speclsp.errors import EditRefusedError, SettingsError
from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.document_prompts import ChunkSource
from speclsp.seam.edit import EditRequest
from speclsp.seam.request import PlacedRequest
from speclsp.secrets.masked_text import masked_path
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import Vocabulary

LEAST_PREDICTED: Final = 64
"""Tokens of an answer that there is always room for."""
_N_PLACE_TOKENS: Final = 64
"""Tokens of a place's lines, of which few have more than three."""
_MOST_PLACE_MS: Final = 300.0
"""Milliseconds that asking about a place may take for analogy to be the default: as long as editors
wait after the last key.  A bound that was chosen, not found."""
_N_TIMED: Final = 8
"""Tokens of a pass from which on its time tells that of a pass over a place."""
_N_SEARCHED: Final = 2048
"""Tokens at the end of a program's prompt in which a region is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """The prompt of a request for the next edit."""

    edit_format: EditFormat
    source: EditSource
    """With the changes that the prompt has room for."""
    prompts: Sequence[EditPrompt]
    """Of the regions that may be asked about, in turn; none where nothing can be."""
    tokens: Sequence[list[int]]
    """Those of each prompt."""


def _analogy(weights: Weights) -> EditFormat:
    """Return the format for models that were not trained for next edits, where it is the default.

    That is where the model is on this machine and asking it about a place takes at most 300 ms: a
    pass over the place's lines, and one for the word that follows.  It is asked until that is known
    from its passes.
    """
    cost, what = weights.pass_cost, "the model is not known to propose them"
    if not (weights.is_trial or weights.engine):
        is_known = any(n_tokens >= _N_TIMED for n_tokens, _ in cost.milliseconds)
        place_ms = 1000 * cost.single_s * (cost.curve.ratio(_N_PLACE_TOKENS) + 1.0)
        if not is_known or place_ms <= _MOST_PLACE_MS:
            return FORMATS[Analogy.name]
        what += f", and by analogy a place would take more than {_MOST_PLACE_MS:.0f} ms"
    raise SettingsError(
        f"no next edits: {what}.",
        remedy="Choose Sweep's next-edit models or Zeta, or set `edit_format`, to analogy for a "
        "model that was not trained for them.",
    )


def lay_out(
    request: PlacedRequest[EditRequest],
    settings: Settings,
    bench: Workbench,
    sources: DraftSources,
) -> LaidOut:
    """Write the prompt of the model's format.

    Raises :class:`~speclsp.errors.SettingsError` where the model has no format, and
    :class:`~speclsp.errors.EditRefusedError` where the text cannot be in a prompt.
    """
    target = bench.weights.target
    one = edit_format(settings, bench.model_name, bench.tokenizer, bench.weights)
    shown_path = masked_path if settings.mask_secrets else str
    changes = (replace(change, path=shown_path(change.path)) for change in sources.changes)
    source = EditSource(
        path=shown_path(request.path),
        text=request.text,
        cursor=request.cursor,
        changes=[change for change in changes if not one.mark_in(*change.texts)],
        files=_files(request, settings, bench, sources.chunks, one) if one.shows_files else (),
    )
    vocabulary = bench.tokenizer.vocabulary
    while True:
        prompts = one.prompts(source)
        tokens = [
            _begun(edit_tokens(prompt.text, one, vocabulary), one, bench.tokenizer)
            for prompt in prompts
        ]
        n_needed = max(
            (
                len(its_tokens) + len(vocabulary.tokenize(prompt.old)) + LEAST_PREDICTED
                for prompt, its_tokens in zip(prompts, tokens, strict=True)
            ),
            default=0,
        )
        if n_needed <= target.n_ctx:
            return LaidOut(edit_format=one, source=source, prompts=prompts, tokens=tokens)
        if not (source.files or source.changes):
            raise EditRefusedError(
                f"no next edit: prompt and answer need {n_needed} tokens, and the model's context "
                f"{target.n_ctx}.",
                remedy="Raise `ctx_size`, or the context of the server that runs the model.",
            )
        if source.files:
            source = replace(source, files=source.files[1:])
        else:
            source = replace(source, changes=source.changes[1:])


def edit_format(
    settings: Settings, model_name: str, tokenizer: Tokenizer, weights: Weights
) -> EditFormat:
    """Return the format that the settings name, that the model has, or else by analogy.

    Raises :class:`~speclsp.errors.SettingsError` where there is none.
    """
    if weights.fields_only:
        raise SettingsError(
            f"no next edits: {weights.fields_only}'s API takes no prompts but prefix and suffix.",
            remedy="Name a model on this machine with `edit_model`.",
        )
    find_token = weights.find_token or tokenizer.vocabulary.special
    if settings.edit_format == "auto":
        found = format_of(model_name, find_token)
        return found if found is not None else _analogy(weights)
    named = FORMATS[settings.edit_format]
    if missing := missing_tokens(named, find_token):
        raise SettingsError(
            f"no next edits: the model's vocabulary lacks {', '.join(missing)}, which "
            f"edit_format {named.name} needs.",
            remedy="Choose a next-edit model, or set `edit_format` to auto.",
        )
    return named


def _files(
    request: PlacedRequest[EditRequest],
    settings: Settings,
    bench: Workbench,
    chunks: ChunkSource,
    one: EditFormat,
) -> tuple[tuple[str, str], ...]:
    """Return paths and texts of definitions in other files, the best last.

    Changes are in the prompt as such.
    """
    n_prompt = min(settings.n_prompt or bench.weights.max_prompt, bench.weights.target.n_ctx)
    tokenize = bench.tokenizer.vocabulary.tokenize

    def ranked() -> list[ContextChunk]:
        return [
            chunk
            for chunk in chunks.ranked()
            if chunk.reason != "edit"
            and chunk.path != request.path
            and not one.mark_in(chunk.path, chunk.text)
        ]

    shown = bench.prompts.edit_chunks(
        request.uri,
        replace(chunks, ranked=ranked),
        n_chunk_tokens(settings, n_prompt),
        lambda chunk: tuple(tokenize(f"{chunk.path}\n{chunk.text}\n").tolist()),
    )
    return tuple((chunk.path, chunk.text) for chunk in shown)


def edit_tokens(text: str, one: EditFormat, vocabulary: Vocabulary) -> list[int]:
    """Tokenise a prompt or an answer: the format's special tokens are single tokens."""
    ids = control_ids(one, vocabulary)
    tokens: list[int] = []
    parts = re.split(f"({'|'.join(map(re.escape, ids))})", text) if ids else [text]
    for part in parts:
        if part in ids:
            tokens.append(ids[part])
        elif part:
            tokens += vocabulary.tokenize(part).tolist()
    return tokens


def prompt_regions(tokens: Sequence[int], vocabulary: Vocabulary) -> tuple[TokenArray, ...]:
    """Return the answer that changes nothing, where a program's prompt is of a known format."""
    names = {
        token: name
        for one in FORMATS.values()
        for name, token in control_ids(one, vocabulary).items()
    }
    pieces = (
        vocabulary.piece(token) or names.get(token, "").encode() for token in tokens[-_N_SEARCHED:]
    )
    text = b"".join(pieces).decode("utf-8", "replace")
    for one in FORMATS.values():
        answer = one.unchanged(text)
        if answer:
            return (np.array(edit_tokens(answer, one, vocabulary), dtype=np.int32),)
    return ()


def ends_line(vocabulary: Vocabulary) -> Callable[[int], bool]:
    """Return what says whether a token ends a line."""
    return lambda token: vocabulary.piece(token).endswith(b"\n")


def control_ids(one: EditFormat, vocabulary: Vocabulary) -> dict[str, int]:
    """Return the tokens of a format's control strings and marks."""
    found = ((name, vocabulary.special(name)) for name in (*one.control, *one.marks))
    return {name: token for name, token in found if token is not None}


def _begun(tokens: list[int], one: EditFormat, tokenizer: Tokenizer) -> list[int]:
    """Return a prompt's tokens behind the one that begins a text, where the format wants it."""
    bos = tokenizer.family.bos
    return tokens if bos is None or not one.is_plain else [bos, *tokens]


def draft_regions(
    one: EditFormat, prompt: EditPrompt, source: EditSource, vocabulary: Vocabulary
) -> tuple[TokenArray, ...]:
    """Return the answer that changes nothing, and the one that repeats the latest change.

    Of an answer that is only compared with what is expected, that is all.
    """
    if prompt.expected:
        texts = [prompt.expected]
    else:
        regions = [prompt.old]
        for change in source.changes[-1:]:
            again = repeated(prompt.old, change)
            if again is not None and again.startswith(prompt.prefill):
                regions.append(again)
        texts = [one.answer(prompt, region) for region in regions]
    answers = (edit_tokens(text, one, vocabulary) for text in texts)
    return tuple(np.array(tokens, dtype=np.int32) for tokens in answers)
