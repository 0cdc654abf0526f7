"""The model's own text, for programs: prompts as they are, or laid out around a cursor.

Nothing is learned of these texts, and other windows' drafts have nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from speclsp.answers import FinishReason, ScoredToken, TextResult
from speclsp.completer.completion_job import prompt_question
from speclsp.completer.edits import ends_line, prompt_regions
from speclsp.completer.jobs import DraftSources, Job, Plan, RunningJob, Workbench, sampling_params
from speclsp.decoding.infill_sampler import InfillSampler
from speclsp.decoding.sampling import RedrawingSampler, Sampler, make_sampler
from speclsp.decoding.speculate import Generation
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import EMPTY_TOKENS, DraftContext, HeldText, TokenArray
from speclsp.drafting.region import NAME as REGION
from speclsp.drafting.registry import KEEPS_NO_TEXT, drafter_names
from speclsp.engine.remote_target import RemoteTarget
from speclsp.errors import RequestError
from speclsp.events import TextGrew
from speclsp.prompt.chunks import NO_CHUNKS, ChunkWindow, ContextChunk, renewed_chunks
from speclsp.prompt.document_prompts import NO_CHUNK_SOURCE, PromptQuestion
from speclsp.prompt.healing import HealingSampler
from speclsp.requests import PlacedRequest, TextRequest
from speclsp.settings import Settings
from speclsp.text.plain_text import PlainText

_AFTER_CHUNKS: Final = 32
"""Tokens that a prompt may need between the context from other files and the text."""
_MOST_PROBS: Final = 100
"""Most tokens at each place of which the probabilities are told."""


@dataclass(slots=True, kw_only=True, eq=False)
class TextJob(Job[TextRequest, TextResult]):
    """A program's request for the model's own text."""

    n_told: int = 0
    """Characters that were told as the text grew."""

    def __post_init__(self) -> None:
        """Leave out the drafters that keep texts; a prompt as it is may be of a next-edit model."""
        Job.__post_init__(self)
        kept = [name for name in drafter_names(self.settings.drafters) if name in KEEPS_NO_TEXT]
        if kept and self.request.plain.prompt and REGION not in kept:
            kept.append(REGION)
        self.settings = replace(
            self.settings,
            drafters=",".join(kept),
            speculation=self.settings.speculation and bool(kept),
        )

    def plan(
        self, bench: Workbench, sources: DraftSources, clock: Callable[[], float]
    ) -> TextPlan | None:
        """Return the prompt, the drafts and what ends the text.

        Raises :class:`~speclsp.errors.RequestError` for a prompt that the model cannot continue.
        """
        request, plain, vocabulary = self.request, self.request.plain, bench.tokenizer.vocabulary
        target = bench.weights.target
        if isinstance(target, RemoteTarget):
            raise RequestError("a remote engine takes no prompts of other programs.")
        typed, ends = "", vocabulary.end_tokens
        extra: tuple[TokenArray, ...] = ()
        regions: tuple[TokenArray, ...] = ()
        if plain.prompt:
            _check(plain.prompt, vocabulary.n_tokens, target.n_ctx)
            tokens = plain.prompt
            regions = prompt_regions(tokens, vocabulary) if self.settings.speculation else ()
            before, after = np.array(tokens, dtype=np.int32), EMPTY_TOKENS
            bench.prompts.prepare(tokens)
        else:
            ends = bench.tokenizer.family.end_tokens
            room = replace(self.settings, n_predict=max(1, plain.n_predict))
            question, typed = prompt_question(request, room, bench, NO_CHUNK_SOURCE)
            given, extra = _given_chunks(plain.extra, question, bench)
            chunks = replace(NO_CHUNK_SOURCE, given=given)
            tokens = bench.prompts.prompt(replace(question, chunks=chunks)).tokens
            before, after = bench.tokens.around(request, len(typed), vocabulary.tokenize)
        others = (*extra, *bench.tokens.others(request, vocabulary.tokenize))
        cost = bench.weights.pass_cost if self.settings.mode == "auto" else None
        return TextPlan(
            request=request,
            context=DraftContext(
                prompt=tokens,
                prefix=before,
                suffix=after,
                held=HeldText(typed.encode("utf-8", "replace"), vocabulary.piece),
                end_tokens=ends,
                buffers=others,
                generated=tuple(bench.generated),
                corpora=sources.corpora,
                regions=regions,
                ends_line=ends_line(vocabulary),
                statistics=sources.statistics,
                verify_curve=cost.curve if cost is not None else None,
                single_s=cost.single_s if cost is not None else 0.0,
            ),
            remote=None,
            output=PlainText(
                vocabulary,
                ends,
                stops=plain.stops,
                n_indent=plain.n_indent,
                budget_s=plain.t_max_predict_ms / 1000,
                clock=clock,
                typed=typed,
            ),
            sampler=_sampler(plain, self.settings, bench, typed),
            scores=TokenScores(n_rivals=min(plain.n_probs, _MOST_PROBS)) if plain.n_probs else None,
            n_predict=max(1, plain.n_predict) if plain.n_predict >= 0 else target.n_ctx,
        )

    def grew(self, running: RunningJob[TextRequest, TextResult]) -> None:
        """Tell what the text has gained."""
        plain = self.request.plain
        if plain.is_streamed and (new := running.so_far[self.n_told :]):
            event = TextGrew(completion_id=plain.completion_id, start=self.n_told, text=new)
            self.n_told += len(new)
            self.window.take_event(event)


@dataclass(slots=True, kw_only=True)
class TextPlan(Plan[TextResult]):
    """What is decoded for a text."""

    request: PlacedRequest[TextRequest]
    output: PlainText

    def finish(
        self,
        generation: Generation,
        interrupted: Callable[[], FinishReason | None],  # noqa: ARG002
    ) -> TextResult:
        """Return the text, with what ended it."""
        text = self.output.finish()
        reason, stopped_by = generation.finish_reason, self.output.stopped_by
        if reason == "length" or stopped_by == "limit":
            reason, stopped_by = "length", "limit"
        return TextResult(
            completion_id=self.request.completion_id,
            finish_reason=reason,
            stats=generation.stats,
            text=text,
            tokens=generation.tokens,
            prompt=tuple(self.context.prompt),
            scores=self._scores(generation),
            stopped_by=stopped_by,
            stopping_word=self.output.stopping_word,
        )

    def _scores(self, generation: Generation) -> tuple[ScoredToken, ...]:
        if self.scores is None:
            return ()
        n_best = self.request.plain.n_probs
        best: list[list[tuple[int, float]]] = [[] for _ in generation.tokens]
        for rival in self.scores.rivals:
            best[rival.position].append((rival.token, rival.logprob))
        return tuple(
            ScoredToken(
                token=token,
                logprob=logprob,
                best=tuple(
                    sorted([(token, logprob), *others], key=lambda one: -one[1])[:n_best],
                ),
            )
            for token, logprob, others in zip(
                generation.tokens, self.scores.logprobs, best, strict=True
            )
        )


def _check(tokens: tuple[int, ...], n_vocab: int, n_ctx: int) -> None:
    if not 0 <= min(tokens) <= max(tokens) < n_vocab:
        raise RequestError("Prompt contains invalid tokens")
    if len(tokens) >= n_ctx:
        raise RequestError(
            f"request ({len(tokens)} tokens) exceeds the available context size ({n_ctx} tokens), "
            "try increasing it",
        )


def _given_chunks(
    extra: Sequence[tuple[str, str]], question: PromptQuestion, bench: Workbench
) -> tuple[ChunkWindow, tuple[TokenArray, ...]]:
    """Return what the prompt shows of the context that a program gives, and all of its tokens.

    The last ones that fit are shown, in their order.  The tokens are the last one's first.
    """

    def encode(chunk: ContextChunk) -> tuple[int, ...]:
        return bench.tokens.kept(chunk.key, lambda: question.layout.encode_chunk(chunk))

    chunks = [
        ContextChunk(path=path, text=text, key=f"{path}\0{text}") for path, text in reversed(extra)
    ]
    n_shown = max(0, question.budget.n_chunks - _AFTER_CHUNKS)
    shown = renewed_chunks(NO_CHUNKS, chunks, n_shown, encode)
    return shown, tuple(np.array(encode(chunk), dtype=np.int32) for chunk in chunks)


def _sampler(plain: TextRequest, settings: Settings, bench: Workbench, typed: str) -> Sampler:
    params, vocabulary = sampling_params(settings), bench.tokenizer.vocabulary
    sampler: RedrawingSampler = make_sampler(params)
    if plain.has_infill_sampler:
        ends = sorted(vocabulary.end_tokens)
        sampler = InfillSampler(replace(params, temperature=1.0), ends, vocabulary.piece)
    if not typed:
        return sampler
    return HealingSampler(sampler, bench.tokenizer.prefixes, vocabulary, typed)
