"""One next edit, from the request to the smallest edit: prompt, drafts, answer, filters."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np
from msgspec import structs

from speclsp.answers import Divergence, EditResult, FinishReason
from speclsp.completer.completion_job import n_chunk_tokens
from speclsp.completer.jobs import DraftSources, Job, Plan, Workbench, sampling_params
from speclsp.decoding.sampling import make_sampler
from speclsp.decoding.speculate import Generation
from speclsp.decoding.token_scores import TokenScores
from speclsp.documents import TextEdit
from speclsp.drafting.drafter import DraftContext, TokenArray
from speclsp.drafting.region import NAME as REGION
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.edits.edit import departures, hunks, is_far, repeated, smallest_edit, why_withheld
from speclsp.edits.formats import (
    FORMATS,
    EditFormat,
    EditPrompt,
    EditSource,
    format_of,
    missing_tokens,
)
from speclsp.engine.draft_model import LoadedTarget
from speclsp.engine.remote_target import RemoteTarget
from speclsp.engine.weights import Tokenizer
from speclsp.errors import EditRefusedError, SettingsError
from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.document_prompts import ChunkSource
from speclsp.prompt.vocabulary_protocol import Vocabulary
from speclsp.remote.messages import RemoteParams, RemotePrompt
from speclsp.requests import Change, EditRequest, PlacedRequest
from speclsp.secrets.masked_text import PLACEHOLDER, masked_path
from speclsp.settings import Settings
from speclsp.text.plain_text import PlainText

EDIT_DRAFTERS: Final = f"{REGION},{SUFFIX}"
"""The drafters of next edits, whatever ``drafters`` names."""
_GROWTH: Final = 2
"""An answer may have so many times the region's tokens."""
_LEAST_PREDICTED: Final = 64
_N_SEARCHED: Final = 2048
"""Tokens at the end of a program's prompt in which a region is looked for."""


@dataclass(slots=True, kw_only=True, eq=False)
class EditJob(Job[EditRequest, EditResult]):
    """A request for the next edit."""

    is_edit: ClassVar[bool] = True

    def plan(
        self,
        bench: Workbench,
        sources: DraftSources,
        clock: Callable[[], float],  # noqa: ARG002
    ) -> EditPlan | None:
        """Return the prompt of the model's format, and what the answer is drafted from."""
        request, settings, vocabulary = self.request, self.settings, bench.tokenizer.vocabulary
        try:
            laid_out = lay_out(request, settings, bench, sources)
        except (SettingsError, EditRefusedError) as error:
            bench.report(SettingsError(error.message, remedy=error.remedy))
            return None
        one, tokens, target = laid_out.edit_format, laid_out.tokens, bench.weights.target
        regions = _regions(laid_out, vocabulary)
        bench.prompts.prepare(tokens)
        cost = bench.weights.pass_cost if settings.mode == "auto" else None
        ends = {*vocabulary.end_tokens, *_control_ids(one, vocabulary).values()}
        n_predict = min(_GROWTH * len(regions[0]) + _LEAST_PREDICTED, target.n_ctx - len(tokens))
        remote = None
        if isinstance(target, RemoteTarget):
            remote = _remote(laid_out, n_predict, settings, bench)
        return EditPlan(
            request=request,
            laid_out=laid_out,
            changes=[one for one in sources.changes if one.path == request.path],
            settings=settings,
            context=DraftContext(
                prompt=tokens,
                prefix=np.array(tokens, dtype=np.int32),
                end_tokens=frozenset(ends),
                generated=tuple(bench.generated),
                regions=regions,
                ends_line=ends_line(vocabulary),
                verify_curve=cost.curve if cost is not None else None,
                single_s=cost.single_s if cost is not None else 0.0,
            ),
            remote=remote,
            output=PlainText(vocabulary, ends, stops=one.stops),
            sampler=make_sampler(sampling_params(settings)),
            scores=TokenScores(copy=regions[0]),
            n_predict=n_predict,
            piece=vocabulary.piece,
        )


@dataclass(slots=True, kw_only=True)
class EditPlan(Plan[EditResult]):
    """What is decoded for a next edit, and how that becomes the edit."""

    request: PlacedRequest[EditRequest]
    laid_out: LaidOut
    changes: Sequence[Change]
    """The document's, also those that the prompt has no room for."""
    settings: Settings
    output: PlainText
    scores: TokenScores
    piece: Callable[[int], bytes] = field(repr=False)

    def finish(
        self,
        generation: Generation,
        interrupted: Callable[[], FinishReason | None],  # noqa: ARG002
    ) -> EditResult:
        """Return the smallest edit, or why there is none."""
        reason = generation.finish_reason
        empty = EditResult(
            completion_id=self.request.completion_id, finish_reason=reason, stats=generation.stats
        )
        if reason in ("cancelled", "deadline"):
            return empty
        laid_out, source, prompt = self.laid_out, self.laid_out.source, self.laid_out.prompt
        old, start = prompt.old, prompt.region.start
        new = laid_out.edit_format.rewritten(prompt, self.output.text)
        if new is None:
            return structs.replace(empty, withheld="unchanged")
        divergences = self._divergences(generation)
        probability = divergences[0].probability if divergences else None
        empty = structs.replace(empty, probability=probability, divergences=divergences)
        why: str | None = why_withheld(
            old,
            new,
            cursor=source.cursor - start,
            edit_format=laid_out.edit_format,
            is_whole=reason == "stop",
            changes=self.changes,
            declined=set(self.request.plain.declined),
        )
        changed = hunks(old, new)
        if why is None and any(PLACEHOLDER in hunk.old + hunk.new for hunk in changed):
            why = "secret"
        least = self.settings.min_edit_confidence
        if why is None and probability is not None and probability < least:
            why = "uncertain"
        if why is not None:
            return structs.replace(empty, withheld=why)
        edit = smallest_edit(changed, old)
        moved = TextEdit(edit.start + start, edit.end + start, edit.text)
        return structs.replace(
            empty,
            edit=moved,
            hunks=tuple(TextEdit(one.start + start, one.end + start, one.new) for one in changed),
            is_far=is_far(source.text, moved, source.cursor),
        )

    def _divergences(self, generation: Generation) -> tuple[Divergence, ...]:
        """Return the tokens with which the answer leaves the region as it is."""
        prompt = self.laid_out.prompt
        copy = self.laid_out.edit_format.answer(prompt, prompt.old).rstrip("\n") + "\n"
        answer = self.output.text.rstrip("\n") + "\n"
        ends = list(accumulate(len(self.piece(token)) for token in generation.tokens))
        found: list[Divergence] = []
        for place in departures(copy, answer):
            idx = bisect_right(ends, len(answer[:place].encode()))
            # Behind a deleted line the first tokens may be those of the deleted one.
            logprob = next(filter(math.isfinite, self.scores.logprobs[idx:]), None)
            if logprob is not None:
                start = answer.rfind("\n", 0, place) + 1
                line = answer[start:].partition("\n")[0]
                found.append(Divergence(line=line, probability=math.exp(logprob)))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """The prompt of a request for the next edit."""

    edit_format: EditFormat
    source: EditSource
    """With the changes that the prompt has room for."""
    prompt: EditPrompt
    tokens: list[int]


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
    one = edit_format(settings, bench.model_name, bench.tokenizer, target)
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
        prompt = one.prompt(source)
        tokens = edit_tokens(prompt.text, one, vocabulary)
        n_answer = len(vocabulary.tokenize(prompt.old)) + _LEAST_PREDICTED
        if len(tokens) + n_answer <= target.n_ctx:
            return LaidOut(edit_format=one, source=source, prompt=prompt, tokens=tokens)
        if not (source.files or source.changes):
            raise EditRefusedError(
                f"no next edit: the prompt has {len(tokens)} tokens, and the model's context "
                f"{target.n_ctx}.",
                remedy="Raise `n_ctx`.",
            )
        if source.files:
            source = replace(source, files=source.files[1:])
        else:
            source = replace(source, changes=source.changes[1:])


def edit_format(
    settings: Settings, model_name: str, tokenizer: Tokenizer, target: LoadedTarget
) -> EditFormat:
    """Return the format that the settings name, or that the model has.

    Raises :class:`~speclsp.errors.SettingsError` where there is none.
    """
    find_token = tokenizer.vocabulary.special
    if isinstance(target, RemoteTarget):
        if not target.takes_text:
            raise SettingsError(
                f"no next edits: {target.kind}'s API takes no prompts but prefix and suffix.",
                remedy="Name a model on this machine with `edit_model`.",
            )
        if tokenizer.is_estimate:
            # What the server does not tell is taken from the model's name.
            find_token = target.special
    if settings.edit_format == "auto":
        found = format_of(model_name, find_token)
        if found is None:
            raise SettingsError(
                "no next edits: the model is not known to propose them.",
                remedy="Choose Sweep's next-edit models or Zeta, or name the model's prompt "
                "format with `edit_format`.",
            )
        return found
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
    """Return paths and texts of similar code in other files, the best last.

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
    ids = _control_ids(one, vocabulary)
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
        for name, token in _control_ids(one, vocabulary).items()
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


def _control_ids(one: EditFormat, vocabulary: Vocabulary) -> dict[str, int]:
    found = ((name, vocabulary.special(name)) for name in (*one.control, *one.marks))
    return {name: token for name, token in found if token is not None}


def _regions(laid_out: LaidOut, vocabulary: Vocabulary) -> tuple[TokenArray, ...]:
    """Return the answer that changes nothing, and the one that repeats the latest change."""
    one, prompt = laid_out.edit_format, laid_out.prompt
    texts = [prompt.old]
    for change in laid_out.source.changes[-1:]:
        again = repeated(prompt.old, change)
        if again is not None and again.startswith(prompt.prefill):
            texts.append(again)
    answers = (edit_tokens(one.answer(prompt, text), one, vocabulary) for text in texts)
    return tuple(np.array(tokens, dtype=np.int32) for tokens in answers)


def _remote(
    laid_out: LaidOut, n_predict: int, settings: Settings, bench: Workbench
) -> tuple[RemotePrompt, RemoteParams]:
    text = laid_out.prompt.text
    known = () if bench.tokenizer.is_estimate else tuple(laid_out.tokens)
    return (
        RemotePrompt(prefix=text, suffix="", text=text, tokens=known),
        RemoteParams(
            n_predict=n_predict,
            wants_logprobs=True,
            **asdict(sampling_params(settings)),
        ),
    )
