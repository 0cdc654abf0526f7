"""One completion, from the request to the text: prompt, drafts, decoding, stop rules."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from speclsp.backends.http.messages import RemoteParams, RemotePrompt
from speclsp.backends.http.target import RemoteTarget
from speclsp.common_ends import common_head
from speclsp.completer.alternatives import Alternatives, TextMaker, n_rivals, row_of
from speclsp.completer.coalescing import RunningCompletion
from speclsp.completer.jobs import DraftSources, Job, Plan, Workbench, sampling_params
from speclsp.decoding.sampling import make_sampler
from speclsp.decoding.speculate import Generation
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import DraftContext, HeldText
from speclsp.prompt.document_prompts import ChunkSource, PromptQuestion
from speclsp.prompt.healing import healing_prefix, word_prefix
from speclsp.prompt.prompt import FimPrompt, FimText, PromptBudget, PromptLayout
from speclsp.seam.completion import (
    CompletionRequest,
    CompletionResult,
    GeneratedText,
    PlacedCompletion,
)
from speclsp.seam.documents import Ranges
from speclsp.seam.request import AnyPlaced, FinishReason
from speclsp.secrets.masked_text import before_secret, masked_path
from speclsp.settings import Settings
from speclsp.text.fitting import Fit
from speclsp.text.rules import StopRules, least_probability, stop_rules
from speclsp.text.stopping import CompletionText

N_JUMP: Final = 192
"""Most prompt tokens that the first request at another place evaluates; the rest follows in idle
time.  The characters that are saved do not rise with them, and the whole prompt takes 24.5 tokens
for each request instead of 9.4 (docs/decisions/appendix/prompt-tables.md)."""
_CHUNK_SHARE: Final = 0.25
"""Maximum share of a prompt for context from other files."""
_N_LINE_CHARS: Final = 4000
"""Maximum characters of the cursor's line that token healing reads."""


def is_typing(request: AnyPlaced) -> bool:
    """Whether a keystroke in an editor made the request, so that it must be fast."""
    plain = request.plain
    is_automatic = isinstance(plain, CompletionRequest) and plain.trigger == "automatic"
    return request.is_editors and is_automatic


def _is_wanted(settings: Settings, rules: StopRules) -> bool:
    """Whether the settings allow a completion here: they may exclude comments and strings."""
    scope = rules.state_before.scope
    is_wanted_in = {"comment": settings.complete_comments, "string": settings.complete_strings}
    return settings.enabled and is_wanted_in.get(scope, True)


@dataclass(slots=True, kw_only=True, eq=False)
class CompletionJob(Job[CompletionRequest, CompletionResult]):
    """A completion's request, which may join a running one, and newer ones its own."""

    def plan(
        self, bench: Workbench, sources: DraftSources, clock: Callable[[], float]
    ) -> CompletionPlan | None:
        """Return the completion's prompt, drafts and stop rules."""
        request, settings = self.request, self.settings
        rules = stop_rules(settings, request)
        if not _is_wanted(settings, rules):
            return None
        question, typed = prompt_question(request, settings, bench, sources.chunks)
        prompt = bench.prompts.prompt(question)
        context = DraftContext(prompt=prompt.tokens)
        if bench.proposer is not None:
            context = _draft_context(request, typed, prompt.tokens, settings, bench, sources)
            if rules.extent == "line":
                ends = context.end_tokens | bench.tokenizer.prefixes.line_ends
                context = dataclasses.replace(context, end_tokens=ends)
        maker = _text_maker(request, settings, bench, rules, typed, clock)
        sampler = maker.sampler()
        return CompletionPlan(
            request=request,
            settings=settings,
            bench=bench,
            maker=maker,
            prompt=prompt,
            text=question.text,
            context=context,
            output=maker.new_text(),
            sampler=sampler,
            scores=TokenScores(n_rivals=n_rivals(request), chosen_by=row_of(sampler)),
            n_predict=settings.n_predict,
        )

    def begun(self, others_wait: Callable[[], bool]) -> RunningCompletion:
        """Return the job as it runs, so that newer ones can join it."""
        return RunningCompletion(self, others_wait)


@dataclass(slots=True, kw_only=True)
class CompletionPlan(Plan[CompletionResult]):
    """What is decoded for a completion, and how that becomes its texts."""

    request: PlacedCompletion
    settings: Settings
    bench: Workbench
    maker: TextMaker[CompletionText]
    prompt: FimPrompt
    text: FimText
    """What the prompt was laid out for."""
    output: CompletionText

    def remote(self, target: RemoteTarget) -> tuple[RemotePrompt, RemoteParams]:
        """Return the prompt in the forms that servers take."""
        params = remote_params(self.request, self.settings, self.maker.typed)
        return target.remote_prompt(self.prompt, self.text), params

    def finish(
        self, generation: Generation, interrupted: Callable[[], FinishReason | None]
    ) -> CompletionResult:
        """Return the text, fitted to the cursor, and the alternatives that were asked for."""
        request, settings, bench, maker = self.request, self.settings, self.bench, self.maker
        done = self.output.finish()
        n_others = request.plain.n_candidates - 1
        alternatives = Alternatives(maker, generation.tokens, self.scores, done.text, bench.report)
        if n_others > 0 and generation.finish_reason in ("stop", "length"):
            alternatives.grow(
                bench.weights.target,
                len(self.context.prompt),
                n_wanted=n_others,
                n_predict=settings.n_predict,
                interrupted=interrupted,
            )
        text_scores = maker.text_scores(generation.tokens, self.scores, done.text)
        generated = GeneratedText(
            completion_id=request.completion_id,
            text=done.text,
            n_replaced=done.n_replaced,
            mean_logprob=text_scores.mean(done.text),
            finish_reason="deadline"
            if self.output.stopped_by == "time"
            else generation.finish_reason,
        )
        texts = [generated, *alternatives.texts]
        if settings.mask_secrets:
            texts = _cut_before_secrets(request, texts, self.output.fitted)
        piece = bench.tokenizer.vocabulary.piece
        n_typed = len(maker.typed.encode())
        drafted = _drafted_ranges(generation, piece, n_typed, texts[0].text)
        return CompletionResult(
            generated=dataclasses.replace(texts[0], drafted=drafted),
            alternatives=tuple(texts[1:]),
            stats=generation.stats,
            unsure=self.output.probability if self.output.stopped_by == "unsure" else 0.0,
        )


def _text_maker(
    request: PlacedCompletion,
    settings: Settings,
    bench: Workbench,
    rules: StopRules,
    typed: str,
    clock: Callable[[], float],
) -> TextMaker[CompletionText]:
    tokenizer, family = bench.tokenizer, bench.tokenizer.family
    # A loaded model's end tokens are ids; where it spells their names, as </s> in HTML, it is code.
    end_names = family.end_names if bench.weights.engine else ()
    has_budget = is_typing(request) and settings.t_max_predict_ms > 0
    return TextMaker(
        tokenizer=tokenizer,
        new_sampler=lambda: make_sampler(sampling_params(settings)),
        typed=typed,
        new_text=lambda: CompletionText(
            tokenizer.vocabulary,
            rules,
            end_tokens=family.end_tokens,
            end_names=end_names,
            typed=typed,
            min_probability=least_probability(request, settings),
            budget_s=settings.t_max_predict_ms / 1000 if has_budget else math.inf,
            clock=clock,
        ),
    )


def n_chunk_tokens(settings: Settings, n_prompt: int) -> int:
    """Return the most tokens of context from other files in a prompt."""
    return int(n_prompt * _CHUNK_SHARE) if settings.n_context < 0 else settings.n_context


def prompt_question(
    request: AnyPlaced, settings: Settings, bench: Workbench, chunks: ChunkSource
) -> tuple[PromptQuestion, str]:
    """Return the question for a request's prompt, and the end of the prefix that it leaves out.

    The prompt leaves room for ``n_predict`` tokens in the context, but keeps half of it at least.
    """
    tokenizer, weights, n_ctx = bench.tokenizer, bench.weights, bench.weights.target.n_ctx
    room = max(n_ctx - settings.n_predict, n_ctx // 2)
    n_prompt = min(settings.n_prompt or weights.max_prompt, room)
    n_chunks = n_chunk_tokens(settings, n_prompt)
    line_before = _line_before(request)
    typed = ""
    if settings.healing and weights.heals:
        is_known = not tokenizer.is_estimate
        typed = (
            healing_prefix(tokenizer.prefixes, line_before)
            if is_known
            else word_prefix(line_before)
        )
    # A model that cannot roll back cannot reuse a short prompt.
    may_be_short = is_typing(request) and weights.supports_rollback
    shown = masked_path if settings.mask_secrets else str
    question = PromptQuestion(
        uri=request.uri,
        layout=PromptLayout(
            family=tokenizer.family, vocabulary=tokenizer.vocabulary, layout=settings.fim_layout
        ),
        text=FimText(
            repo_name=shown(request.repo_name),
            path=shown(request.path),
            prefix=request.prefix.removesuffix(typed),
            suffix=request.suffix,
        ),
        budget=PromptBudget(n_prompt=n_prompt, n_chunks=n_chunks),
        n_first=(may_be_short and N_JUMP) or n_prompt,
        chunks=chunks,
    )
    return question, typed


def remote_params(request: PlacedCompletion, settings: Settings, typed: str) -> RemoteParams:
    """Return the parameters for a remote engine; ``typed`` is the text that the prompt omits."""
    return RemoteParams(
        n_predict=settings.n_predict,
        wants_logprobs=least_probability(request, settings) > 0.0,
        begins_with=typed,
        **dataclasses.asdict(sampling_params(settings)),
    )


def _drafted_ranges(
    generation: Generation, piece: Callable[[int], bytes], n_typed: int, text: str
) -> Ranges:
    """Return the parts of ``text`` that accepted draft tokens gave.

    ``text`` begins as the tokens do after their first ``n_typed`` bytes; its end was fitted or cut.
    """
    pieces = [piece(token) for token in generation.tokens]
    ends = [*accumulate(map(len, pieces), initial=-n_typed)]
    generated = b"".join(pieces)[n_typed:]
    n_same = common_head(generated.decode("utf-8", "replace"), text)

    def n_chars(n_bytes: int) -> int:
        return min(len(generated[: max(0, n_bytes)].decode("utf-8", "ignore")), n_same)

    found = ((n_chars(ends[idx]), n_chars(ends[idx + 1])) for idx in generation.from_drafts)
    return tuple((start, end) for start, end in found if start < end)


def _line_before(request: AnyPlaced) -> str:
    return request.prefix[-_N_LINE_CHARS:].replace("\r", "\n").rpartition("\n")[2]


def _draft_context(
    request: PlacedCompletion,
    typed: str,
    prompt: Sequence[int],
    settings: Settings,
    bench: Workbench,
    sources: DraftSources,
) -> DraftContext:
    tokenize = bench.tokenizer.vocabulary.tokenize
    before, after = bench.tokens.around(request, len(typed), tokenize)
    # In other modes the drafts do not depend on the machine's speed.
    cost = bench.weights.pass_cost if settings.mode == "auto" else None
    return DraftContext(
        prompt=prompt,
        prefix=before,
        suffix=after,
        held=HeldText(typed.encode("utf-8", "replace"), bench.tokenizer.vocabulary.piece),
        end_tokens=bench.tokenizer.family.end_tokens,
        buffers=(*bench.tokens.others(request, tokenize), *sources.accepted),
        generated=tuple(bench.generated),
        deleted=bench.tokens.deleted.tokens(tokenize),
        corpora=sources.corpora,
        statistics=sources.statistics,
        verify_curve=cost.curve if cost is not None else None,
        single_s=cost.single_s if cost is not None else 0.0,
    )


def _cut_before_secrets(
    request: PlacedCompletion, texts: list[GeneratedText], fit: Fit
) -> list[GeneratedText]:
    """Return the texts up to the first secret or placeholder in each.

    ``fit`` fits the rest to the text around the cursor.  Of the texts after the first, those are
    left out that are now empty or the first one.
    """
    line_before = request.prefix[request.prefix.rfind("\n") + 1 :]
    kept: list[GeneratedText] = []
    for whole in texts:
        cut = before_secret(whole.text, line_before, request.path)
        if cut == whole.text:
            kept.append(whole)
            continue
        # The part that was cut off may have had closing brackets.
        fitted = fit(cut)
        if not kept or fitted.text not in ("", kept[0].text):
            kept.append(dataclasses.replace(whole, text=fitted.text, n_replaced=fitted.n_replaced))
    return kept
