"""One completion, from the request to the text: prompt, drafts, decoding, stop rules."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final, Protocol

import numpy as np

from speclsp.completer.alternatives import Alternatives, TextMaker, n_rivals
from speclsp.completer.document_tokens import DocumentTokens
from speclsp.completer.prompts import Prompts
from speclsp.decoding.sampling import SamplingParams
from speclsp.decoding.speculate import Generation, generate
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import (
    NO_STATISTICS,
    DraftContext,
    HeldText,
    Statistics,
    TokenArray,
    TokenCorpus,
)
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.engine.models import Tokenizer, Weights
from speclsp.engine.remote import RemoteTarget
from speclsp.errors import SpecLspError
from speclsp.prompt.document_prompts import NO_CHUNK_SOURCE, ChunkSource, PromptQuestion
from speclsp.prompt.healing import healing_prefix, word_prefix
from speclsp.prompt.prompt import FimText, PromptBudget, PromptLayout
from speclsp.prompt.protocol import Vocabulary
from speclsp.remote.protocol import RemoteParams
from speclsp.request import (
    AnyPlaced,
    CompletionResult,
    Event,
    FinishReason,
    GeneratedText,
    PlacedCompletion,
    Ranges,
)
from speclsp.secrets.masked_text import before_secret, masked_path
from speclsp.settings import Settings
from speclsp.text.confidence import is_too_uncertain
from speclsp.text.fitting import Fit
from speclsp.text.rules import StopRules, stop_rules
from speclsp.text.stopping import CompletionText

N_GENERATED: Final = 8
"""Generated texts that are drafted from: at the next key the model generates much of one again.  In
typed sessions they raise tokens per pass from 1.49 to 1.83, and 128 of them to 1.84."""
_N_BEFORE: Final = 16
"""Tokens before the cursor kept with a generated text, so that its beginning can be matched."""
_CHUNK_SHARE: Final = 0.25
"""Maximum share of a prompt for context from other files."""
_N_LINE_CHARS: Final = 4000
"""Maximum characters of the cursor's line that token healing reads."""
_N_MATCHED: Final = 3
"""Least tokens of a match whose continuation is sent as a prediction.  On five projects 1.6, 3.0
and 4.4 tokens of it were right after matches of 1, 2 and 3 tokens, and 13 after 16 or more."""


@dataclass(slots=True, kw_only=True)
class Workbench:
    """The models and caches of a completion, for the engine thread."""

    tokenizer: Tokenizer
    weights: Weights
    proposer: Proposer | None
    tokens: DocumentTokens
    prompts: Prompts
    """The documents' prompts, which change little, so that the KV cache is reused."""
    generated: deque[TokenArray]
    """The last generated texts, the latest first, each with the tokens before it."""
    report: Callable[[SpecLspError], None]
    """Takes problems that do not stop the completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSources:
    """Sources of a request's drafts and prompt beside the open buffers."""

    corpora: tuple[TokenCorpus, ...] = ()
    """The project's files."""
    accepted: tuple[TokenArray, ...] = ()
    """Texts that were accepted before."""
    statistics: Statistics = NO_STATISTICS
    chunks: ChunkSource = NO_CHUNK_SOURCE
    """Context from other files for the prompt."""


class EngineWindow(Protocol):
    """The engine's view of a window."""

    settings: Settings
    """The window's settings, under those of a request's folder and language."""
    tokens: DocumentTokens

    def sources(self, request: AnyPlaced) -> DraftSources:
        """Return the sources of a request's drafts and of the context in its prompt."""

    def grew(self, completion_id: str, text: str) -> None:
        """Take the text so far of the window's running request; empty ones when it has ended."""

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Take another vocabulary."""

    def take_event(self, event: Event) -> None:
        """Take an event of the engine."""


def is_typing(request: PlacedCompletion) -> bool:
    """Whether a keystroke in an editor made the request, so that it must be fast."""
    return request.is_editors and request.plain.trigger == "automatic"


def _is_wanted(settings: Settings, rules: StopRules) -> bool:
    """Whether the settings allow a completion here: they may exclude comments and strings."""
    scope = rules.state_before.scope
    is_wanted_in = {"comment": settings.complete_comments, "string": settings.complete_strings}
    return settings.enabled and is_wanted_in.get(scope, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunControl:
    """How a running completion is observed and stopped."""

    interrupted: Callable[[], FinishReason | None]
    """Called between decodes; returns why to stop, or None."""
    aborted: Callable[[], FinishReason | None]
    """The same, called by the backend during a decode."""
    clock: Callable[[], float]
    """In seconds."""
    watch: Callable[[CompletionText], None]
    """Takes the text before it grows."""


def run_completion(
    request: PlacedCompletion,
    settings: Settings,
    bench: Workbench,
    sources: DraftSources,
    control: RunControl,
) -> CompletionResult:
    """Complete one request on the engine thread.

    Raises :class:`~speclsp.errors.DecodeError`.
    """
    started = control.clock()
    settings = request.settings_over(settings)
    rules = stop_rules(settings, request)
    if not _is_wanted(settings, rules):
        return request.plain.empty("stop")
    question, typed = prompt_question(request, settings, bench, sources.chunks)
    prompt = bench.prompts.prompt(question)
    context = DraftContext(prompt=prompt.tokens)
    if bench.proposer is not None or _takes_prediction(bench):
        context = _draft_context(request, typed, prompt.tokens, settings, bench, sources)
        if rules.extent == "line":
            ends = context.end_tokens | bench.tokenizer.prefixes.line_ends
            context = dataclasses.replace(context, end_tokens=ends)
    maker = _text_maker(request, settings, bench, rules, typed, control.clock)
    text, sampler = maker.new_text(), maker.sampler()
    scores = maker.scores(sampler, n_rivals=n_rivals(request))
    control.watch(text)
    tokenized = control.clock()
    bench.weights.set_interrupt(lambda: control.aborted() is not None)
    try:
        if isinstance(bench.weights.target, RemoteTarget):
            generation = bench.weights.target.generate(
                prompt,
                question.text,
                remote_params(request, settings, typed, bench),
                stop=text.feed,
                interrupted=control.interrupted,
                aborted=control.aborted,
                deadline_s=settings.deadline_ms / 1000,
                clock=control.clock,
                scores=scores,
            )
        else:
            generation = generate(
                bench.weights.target,
                context,
                drafter=bench.proposer,
                sampler=sampler,
                n_predict=settings.n_predict,
                stop=text.feed,
                interrupted=control.interrupted,
                clock=control.clock,
                scores=scores,
            )
            bench.weights.pass_cost.learn(generation.pass_times)
        _keep_generated(generation.tokens, context.prefix, bench)
        done = text.finish()
        alternatives = Alternatives(maker, generation.tokens, scores, done, bench.report)
        if request.plain.n_candidates > 1 and generation.finish_reason in ("stop", "length"):
            alternatives.grow(
                bench.weights.target,
                len(prompt.tokens),
                n_wanted=request.plain.n_candidates - 1,
                n_predict=settings.n_predict,
                interrupted=control.interrupted,
            )
    finally:
        bench.weights.set_interrupt(None)
    _report_problems(generation, bench)
    text_scores = maker.text_scores(generation.tokens, scores, done.text)
    withheld = is_too_uncertain(
        done.text,
        text_scores,
        _least_logprob(request, settings),
        new_word=rules.new_word(done.text),
    )
    stats = dataclasses.replace(
        generation.stats,
        drafters=bench.proposer.stats() if bench.proposer is not None else {},
        ms_tokenize=1000 * (tokenized - started),
    )
    result = CompletionResult(
        completion_id=request.completion_id,
        text="" if withheld else done.text,
        finish_reason="deadline" if done.stopped_by == "time" else generation.finish_reason,
        stats=stats,
        n_replaced=0 if withheld else done.n_replaced,
        mean_logprob=text_scores.mean(done.text),
        alternatives=tuple(alternatives.texts),
        withheld=withheld,
    )
    if settings.mask_secrets:
        result = _cut_before_secrets(request, result, text.fitted)
    piece = bench.tokenizer.vocabulary.piece
    drafted = _drafted_ranges(generation, piece, len(typed.encode()), result.text)
    return dataclasses.replace(result, drafted=drafted)


def _text_maker(
    request: PlacedCompletion,
    settings: Settings,
    bench: Workbench,
    rules: StopRules,
    typed: str,
    clock: Callable[[], float],
) -> TextMaker:
    tokenizer, family = bench.tokenizer, bench.tokenizer.family
    # A loaded model's end tokens are ids; where it spells their names, as </s> in HTML, it is code.
    end_names = family.end_names if isinstance(bench.weights.target, RemoteTarget) else ()
    has_budget = is_typing(request) and settings.t_max_predict_ms > 0
    return TextMaker(
        tokenizer=tokenizer,
        params=SamplingParams(
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            min_p=settings.min_p,
            seed=settings.seed,
        ),
        typed=typed,
        new_text=lambda: CompletionText(
            tokenizer.vocabulary,
            rules,
            end_tokens=family.end_tokens,
            end_names=end_names,
            typed=typed,
            budget_s=settings.t_max_predict_ms / 1000 if has_budget else math.inf,
            clock=clock,
        ),
    )


def _keep_generated(generated: Sequence[int], before: TokenArray, bench: Workbench) -> None:
    """Keep a generated text, with the last tokens before it, for later drafts."""
    end_tokens, vocabulary = bench.tokenizer.family.end_tokens, bench.tokenizer.vocabulary
    text_tokens = [token for token in generated if token not in end_tokens]
    if text_tokens:
        tokens = np.array((*before[-_N_BEFORE:], *text_tokens), dtype=np.int32)
        if bench.tokenizer.is_estimate:  # the server's pieces are not the estimate's
            tokens = vocabulary.tokenize(_text_of(tokens, vocabulary))
        bench.generated.appendleft(tokens)


def _report_problems(generation: Generation, bench: Workbench) -> None:
    """Report drafters that failed, and a draft model that costs more than it saves."""
    for failure in generation.drafter_failures:
        bench.report(failure)
    draft, pass_cost = bench.weights.draft, bench.weights.pass_cost
    # The embedded pair is for trials: its speed does not matter.
    if draft is not None and not bench.weights.is_trial:
        costly = draft.costly(pass_cost.single_s)
        if costly is not None:
            bench.report(costly)


def prompt_question(
    request: PlacedCompletion, settings: Settings, bench: Workbench, chunks: ChunkSource
) -> tuple[PromptQuestion, str]:
    """Return the question for a request's prompt, and the end of the prefix that it leaves out.

    The prompt leaves room for ``n_predict`` tokens in the context, but keeps half of it at least.
    """
    tokenizer, weights, n_ctx = bench.tokenizer, bench.weights, bench.weights.target.n_ctx
    room = max(n_ctx - settings.n_predict, n_ctx // 2)
    n_prompt = min(settings.n_prompt or weights.max_prompt, room)
    n_chunks = int(n_prompt * _CHUNK_SHARE) if settings.n_context < 0 else settings.n_context
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
    question = PromptQuestion(
        uri=request.uri,
        layout=PromptLayout(
            family=tokenizer.family, vocabulary=tokenizer.vocabulary, layout=settings.fim_layout
        ),
        text=FimText(
            repo_name=request.repo_name,
            path=masked_path(request.path) if settings.mask_secrets else request.path,
            prefix=request.prefix.removesuffix(typed),
            suffix=request.suffix,
        ),
        budget=PromptBudget(n_prompt=n_prompt, n_chunks=n_chunks),
        n_first=(may_be_short and settings.n_jump) or n_prompt,
        chunks=chunks,
    )
    return question, typed


def remote_params(
    request: PlacedCompletion, settings: Settings, typed: str, bench: Workbench
) -> RemoteParams:
    """Return the parameters for a remote engine; ``typed`` is the text that the prompt omits."""
    return RemoteParams(
        n_predict=settings.n_predict,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        seed=settings.seed,
        wants_logprobs=_least_logprob(request, settings) > -math.inf,
        prediction=_prediction(request, settings, bench),
        begins_with=typed,
    )


def _prediction(request: PlacedCompletion, settings: Settings, bench: Workbench) -> str:
    """Return the most probable text after the cursor, where a remote engine takes a prediction.

    That is what followed the longest match of the text before the cursor in the open documents and
    in recent answers.  After half a word the match ends before that word.
    """
    if not _takes_prediction(bench):
        return ""
    word = word_prefix(_line_before(request))
    # Only open documents and answers may be sent.
    context = dataclasses.replace(
        _draft_context(request, word, (), settings, bench, DraftSources()), deleted=()
    )
    drafter = SuffixDrafter(n_draft=settings.n_predict)
    drafter.begin(context)
    for draft in drafter.candidates((), settings.n_predict):
        if draft.match_length >= _N_MATCHED and context.held.admits((), draft.tokens):
            return _text_of(draft.tokens, bench.tokenizer.vocabulary).removeprefix(word)
    return ""


def _takes_prediction(bench: Workbench) -> bool:
    target = bench.weights.target
    return isinstance(target, RemoteTarget) and target.drafts == "prediction"


def _text_of(tokens: Iterable[int], vocabulary: Vocabulary) -> str:
    return b"".join(map(vocabulary.piece, tokens)).decode("utf-8", "replace")


def _drafted_ranges(
    generation: Generation, piece: Callable[[int], bytes], n_typed: int, text: str
) -> Ranges:
    """Return the parts of ``text`` that accepted draft tokens gave.

    ``text`` begins as the tokens do after their first ``n_typed`` bytes; its end was fitted or cut.
    """
    pieces = [piece(token) for token in generation.tokens]
    ends = [*accumulate(map(len, pieces), initial=-n_typed)]
    generated = b"".join(pieces)[n_typed:]
    both = zip(generated.decode("utf-8", "replace"), text, strict=False)
    n_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))

    def n_chars(n_bytes: int) -> int:
        return min(len(generated[: max(0, n_bytes)].decode("utf-8", "ignore")), n_same)

    found = ((n_chars(ends[idx]), n_chars(ends[idx + 1])) for idx in generation.from_drafts)
    return tuple((start, end) for start, end in found if start < end)


def _line_before(request: PlacedCompletion) -> str:
    return request.prefix[-_N_LINE_CHARS:].replace("\r", "\n").rpartition("\n")[2]


def _least_logprob(request: PlacedCompletion, settings: Settings) -> float:
    """Return the mean log-probability below which an automatic request's text is withheld."""
    if request.plain.trigger != "automatic" or settings.min_confidence <= 0.0:
        return -math.inf
    return math.log(settings.min_confidence)


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
        end_tokens=bench.tokenizer.vocabulary.end_tokens | bench.tokenizer.family.end_tokens,
        buffers=(*bench.tokens.others(request, tokenize), *sources.accepted),
        generated=tuple(bench.generated),
        deleted=bench.tokens.deleted.tokens(tokenize),
        corpora=sources.corpora,
        statistics=sources.statistics,
        verify_curve=cost.curve if cost is not None else None,
        single_s=cost.single_s if cost is not None else 0.0,
    )


def _cut_before_secrets(
    request: PlacedCompletion, result: CompletionResult, fit: Fit
) -> CompletionResult:
    """Return a result whose texts end before the first secret or placeholder in them.

    ``fit`` fits the rest to the text around the cursor.
    """
    line_before = request.prefix[request.prefix.rfind("\n") + 1 :]
    text, n_replaced = result.text, result.n_replaced
    kept = before_secret(text, line_before, request.path)
    if kept != text:
        # The part that was cut off may have had closing brackets.
        fitted = fit(kept)
        text, n_replaced = fitted.text, fitted.n_replaced
    alternatives: list[GeneratedText] = []
    for other in result.alternatives:
        cut = before_secret(other.text, line_before, request.path)
        if cut == other.text:
            alternatives.append(other)
        elif (fitted := fit(cut)).text and fitted.text != text:
            alternatives.append(
                dataclasses.replace(other, text=fitted.text, n_replaced=fitted.n_replaced)
            )
    return dataclasses.replace(
        result, text=text, n_replaced=n_replaced, alternatives=tuple(alternatives)
    )
