"""The model's own text, for programs: prompts as they are, or laid out around a cursor.

Nothing is learned of these texts, and other windows' drafts have nothing of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from secrets import randbelow
from typing import Any, Final

import numpy as np
from msgspec import structs

from speclsp.completer.alternatives import TextMaker, row_of
from speclsp.completer.completion_job import prompt_question
from speclsp.completer.edit_prompts import ends_line, prompt_regions
from speclsp.completer.jobs import DraftSources, Job, Plan, RunningJob, Workbench, sampling_params
from speclsp.decoding.forks import Fork, grow_forks
from speclsp.decoding.infill_sampler import InfillSampler
from speclsp.decoding.sampling import (
    LogitRow,
    RedrawingSampler,
    Sampler,
    SamplingParams,
    make_sampler,
)
from speclsp.decoding.speculate import Generation
from speclsp.decoding.target import fork_target
from speclsp.decoding.token_scores import Rival, TokenScores
from speclsp.drafting.drafter import EMPTY_TOKENS, DraftContext, HeldText, TokenArray
from speclsp.drafting.region import NAME as REGION
from speclsp.drafting.registry import drafter_names
from speclsp.errors import DecodeError, RequestError
from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk, ShownChunks, renewed_chunks
from speclsp.prompt.document_prompts import NO_CHUNK_SOURCE, PromptQuestion
from speclsp.seam.events import TextGrew
from speclsp.seam.request import FinishReason, PlacedRequest
from speclsp.seam.statistics import RequestStats
from speclsp.seam.text import ScoredToken, TextRequest, TextResult
from speclsp.settings import DRAFTERS
from speclsp.text.fitted_text import FittedText
from speclsp.text.plain_text import PlainText
from speclsp.text.rules import StopRules, stop_rules
from speclsp.vocabulary_protocol import Vocabulary

_N_SEEDS: Final = 1 << 32
_AFTER_CHUNKS: Final = 32
"""Tokens that a prompt may need between the context from other files and the text."""
_MOST_PROBS: Final = 100
"""Most tokens at each place of which the probabilities are told."""
_LEAST_PROBABILITY: Final = 0.1
"""Less likely tokens begin no further text."""
_LEAST_FORK: Final = 16
"""Tokens that a further text for an editor may have; or as many as the first one has."""
_N_RIVALS: Final = 9
"""So many others can be that likely beside the first one."""


@dataclass(slots=True, kw_only=True, eq=False)
class TextJob(Job[TextRequest, TextResult]):
    """A program's request for the model's own text."""

    n_told: int = 0
    """Characters that were told as the text grew."""

    def __post_init__(self) -> None:
        """Leave out the drafters that keep texts; a prompt as it is may be of a next-edit model.

        A seed is drawn where none is given: a text that runs again, after an editor's, is the same.
        """
        Job.__post_init__(self)
        named = drafter_names(self.settings.drafters)
        kept = [name for name in named if name in DRAFTERS and not DRAFTERS[name].keeps_text]
        if kept and self.request.plain.prompt and REGION not in kept:
            kept.append(REGION)
        seed = self.settings.seed
        self.settings = replace(
            self.settings,
            seed=seed if seed >= 0 else randbelow(_N_SEEDS),
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
        n_ctx = bench.weights.target.n_ctx
        if bench.weights.engine:
            raise RequestError("a remote engine takes no prompts of other programs.")
        typed, ends, rules = "", vocabulary.end_tokens, None
        n_predict = plain.n_predict
        extra: tuple[TokenArray, ...] = ()
        regions: tuple[TokenArray, ...] = ()
        if plain.prompt:
            _check(plain.prompt, vocabulary.n_tokens, n_ctx)
            tokens = plain.prompt
            regions = prompt_regions(tokens, vocabulary) if self.settings.speculation else ()
            before, after = np.array(tokens, dtype=np.int32), EMPTY_TOKENS
            bench.prompts.prepare(tokens)
        else:
            ends = bench.tokenizer.family.end_tokens
            if plain.is_fitted:
                rules = stop_rules(self.settings, request)
                n_predict = n_predict if n_predict >= 0 else self.settings.n_predict
            room = replace(self.settings, n_predict=max(1, plain.n_predict))
            question, typed = prompt_question(request, room, bench, NO_CHUNK_SOURCE)
            given, extra = _given_chunks(plain.extra, question, bench)
            chunks = replace(NO_CHUNK_SOURCE, given=given)
            tokens = bench.prompts.prompt(replace(question, chunks=chunks)).tokens
            before, after = bench.tokens.around(request, len(typed), vocabulary.tokenize)
        cost = bench.weights.pass_cost if self.settings.mode == "auto" else None
        maker = self._maker(bench, typed, ends, rules, clock)
        output, sampler = maker.new_text(), maker.sampler()
        return TextPlan(
            request=request,
            bench=bench,
            maker=maker,
            is_fitted=rules is not None,
            context=DraftContext(
                prompt=tokens,
                prefix=before,
                suffix=after,
                held=HeldText(typed.encode("utf-8", "replace"), vocabulary.piece),
                end_tokens=ends,
                buffers=(*extra, *bench.tokens.others(request, vocabulary.tokenize)),
                generated=tuple(bench.generated),
                corpora=sources.corpora,
                regions=regions,
                ends_line=ends_line(vocabulary),
                statistics=sources.statistics,
                verify_curve=cost.curve if cost is not None else None,
                single_s=cost.single_s if cost is not None else 0.0,
            ),
            output=output,
            sampler=sampler,
            scores=_scores(plain, sampler, output),
            n_predict=max(1, n_predict) if n_predict >= 0 else n_ctx,
        )

    def _maker(
        self,
        bench: Workbench,
        typed: str,
        ends: frozenset[int],
        rules: StopRules | None,
        clock: Callable[[], float],
    ) -> TextMaker[PlainText]:
        """Return what makes the texts; ``rules`` are the cursor's where they are fitted to it."""
        plain, vocabulary = self.request.plain, bench.tokenizer.vocabulary
        limits: dict[str, Any] = {
            "stops": plain.stops,
            "n_indent": plain.n_indent,
            "budget_s": plain.t_max_predict_ms / 1000,
            "clock": clock,
            "typed": typed,
        }
        new_text: Callable[[], PlainText] = partial(PlainText, vocabulary, ends, **limits)
        if rules is not None:
            limits |= {"rules": rules, "min_probability": self.settings.min_probability}
            new_text = partial(FittedText, vocabulary, ends, **limits)
        return TextMaker(
            tokenizer=bench.tokenizer,
            new_sampler=partial(_new_sampler, plain, sampling_params(self.settings), vocabulary),
            typed=typed,
            new_text=new_text,
        )

    def grew(self, running: RunningJob[TextRequest, TextResult]) -> None:
        """Tell what the text has gained."""
        plain = self.request.plain
        if plain.is_streamed and (new := running.so_far[self.n_told :]):
            event = TextGrew(completion_id=plain.completion_id, start=self.n_told, text=new)
            self.n_told += len(new)
            self.window.receive_event(event)


class _FirstRivals(TokenScores):
    """Scores that keep rivals until the text begins: what else it might have begun with."""

    def __init__(
        self, output: PlainText, n_rivals: int, chosen_by: Callable[[], LogitRow | None]
    ) -> None:
        super().__init__(n_rivals=n_rivals, chosen_by=chosen_by)
        self._output = output

    def observe(self, token: int, row: LogitRow) -> None:
        """Take the next token, which the output does not have yet."""
        if self._output.text:
            self._n_rivals = 0
        super().observe(token, row)


def _new_sampler(
    plain: TextRequest, params: SamplingParams, vocabulary: Vocabulary
) -> RedrawingSampler:
    if not plain.has_infill_sampler:
        return make_sampler(params)
    ends = sorted(vocabulary.end_tokens)
    return InfillSampler(replace(params, temperature=1.0), ends, vocabulary.piece)


def _scores(plain: TextRequest, sampler: Sampler, output: PlainText) -> TokenScores:
    n_rivals = max(min(plain.n_probs, _MOST_PROBS), _N_RIVALS if plain.n_texts > 1 else 0)
    if plain.n_probs:
        return TokenScores(n_rivals=n_rivals, chosen_by=row_of(sampler))
    return _FirstRivals(output, n_rivals, row_of(sampler))


@dataclass(slots=True, kw_only=True)
class TextPlan(Plan[TextResult]):
    """What is decoded for a text."""

    request: PlacedRequest[TextRequest]
    bench: Workbench
    maker: TextMaker[PlainText]
    is_fitted: bool
    """Whether the texts are fitted to the cursor."""
    output: PlainText

    def finish(
        self, generation: Generation, interrupted: Callable[[], FinishReason | None]
    ) -> TextResult:
        """Return the text with what ended it, and others that begin with other tokens."""
        result = self._result(
            generation.tokens, generation.finish_reason, self.output, self.scores, generation.stats
        )
        if self.request.plain.n_texts == 1 or generation.finish_reason not in ("stop", "length"):
            return result
        try:
            return structs.replace(result, others=self._others(result, interrupted))
        except DecodeError as error:
            self.bench.report(error)
            return result

    def _others(
        self, first: TextResult, interrupted: Callable[[], FinishReason | None]
    ) -> tuple[TextResult, ...]:
        """Write the texts that begin with another token of at least ``_LEAST_PROBABILITY``."""
        target = fork_target(self.bench.weights.target)
        if target is None:
            return ()
        n_most = min(self.request.plain.n_texts, target.n_branches) - 1
        n_rivals = min(self.request.plain.n_probs, _MOST_PROBS)
        made: list[tuple[Fork, PlainText]] = []
        for idx, own in enumerate(self._beginnings(first), 1):
            if len(made) >= n_most:
                break
            output = self.maker.new_text()
            output.began_at = self.output.began_at
            fork = self.maker.fork(idx, first.tokens, self.scores, own, output, n_rivals=n_rivals)
            if fork is not None:
                made.append((fork, output))
        if not made:
            return ()
        forks = [fork for fork, _ in made]
        n_predict, n_prompt = self.n_predict, len(self.context.prompt)
        if self.is_fitted:  # an editor waits, and whole lines are kept of the rest
            n_predict = min(n_predict, max(len(first.tokens), _LEAST_FORK))
        grow_forks(target, n_prompt, forks, n_predict=n_predict, interrupted=interrupted)
        known, others = {"", first.text}, []
        for fork, output in made:
            if fork.finish not in ("stop", "length"):
                continue
            n_own = len(fork.tokens) - fork.n_shared
            stats = RequestStats(n_prompt=n_prompt, n_predicted=n_own)
            other = self._result(tuple(fork.tokens), fork.finish, output, fork.scores, stats)
            if other.text not in known:
                known.add(other.text)
                others.append(other)
        return tuple(others)

    def _beginnings(self, first: TextResult) -> list[Rival]:
        """Return what other texts begin with instead, the likeliest first."""
        n_typed = len(self.maker.typed.encode("utf-8", "replace"))
        piece = self.bench.tokenizer.vocabulary.piece
        ends = accumulate(len(piece(token)) for token in first.tokens)
        place = next((idx for idx, end in enumerate(ends) if end > n_typed), len(first.tokens))
        rivals = [
            rival
            for rival in self.scores.rivals
            if rival.position <= place
            and rival.logprob > math.log(_LEAST_PROBABILITY)
            and rival.token not in self.context.end_tokens
        ]
        return sorted(rivals, key=lambda rival: -rival.logprob)

    def _result(
        self,
        tokens: tuple[int, ...],
        reason: FinishReason,
        output: PlainText,
        scores: TokenScores,
        stats: RequestStats,
    ) -> TextResult:
        stopped_by = output.stopped_by
        if reason == "length" or stopped_by == "limit":
            reason, stopped_by = "length", "limit"
        n_best = self.request.plain.n_probs
        return TextResult(
            completion_id=self.request.completion_id,
            finish_reason=reason,
            stats=stats,
            text=output.finish(),
            tokens=tokens,
            prompt=tuple(self.context.prompt),
            scores=_scored(tokens, scores, n_best) if n_best else (),
            stopped_by=stopped_by,
            stopping_word=output.stopping_word,
        )


def _scored(tokens: Sequence[int], scores: TokenScores, n_best: int) -> tuple[ScoredToken, ...]:
    best: list[list[tuple[int, float]]] = [[] for _ in tokens]
    for rival in scores.rivals:
        best[rival.position].append((rival.token, rival.logprob))
    return tuple(
        ScoredToken(
            token=token,
            logprob=logprob,
            best=tuple(
                sorted([(token, logprob), *others], key=lambda one: -one[1])[:n_best],
            ),
        )
        for token, logprob, others in zip(tokens, scores.logprobs, best, strict=True)
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
) -> tuple[ShownChunks, tuple[TokenArray, ...]]:
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
