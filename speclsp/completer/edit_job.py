"""One next edit, from the request to the smallest edit: drafts, answer, filters."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np
from msgspec import structs

from speclsp.backends.http.messages import RemoteParams, RemotePrompt
from speclsp.backends.http.target import RemoteTarget
from speclsp.completer.edit_prompts import (
    LEAST_PREDICTED,
    LaidOut,
    control_ids,
    draft_regions,
    ends_line,
    lay_out,
)
from speclsp.completer.jobs import DraftSources, Job, Plan, Workbench, sampling_params
from speclsp.decoding.sampling import make_sampler
from speclsp.decoding.speculate import Generation
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.region import NAME as REGION
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.edits.analogy import LEAST_KEPT, least_probability, next_place
from speclsp.edits.edit import Hunk, departures, hunks, is_far, smallest_edit, why_withheld
from speclsp.edits.formats import EditPrompt
from speclsp.errors import EditRefusedError, SettingsError
from speclsp.reporting.session import summed
from speclsp.seam.edit import Change, Divergence, EditRequest, EditResult
from speclsp.seam.request import FinishReason, PlacedRequest
from speclsp.seam.statistics import RequestStats
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.text.plain_text import ExpectedText, PlainText

EDIT_DRAFTERS: Final = f"{REGION},{SUFFIX}"
"""The drafters of next edits, whatever ``drafters`` names."""
_GROWTH: Final = 2
"""An answer may have so many times the region's tokens."""


@dataclass(slots=True, kw_only=True, eq=False)
class EditJob(Job[EditRequest, EditResult]):
    """A request for the next edit."""

    is_edit: ClassVar[bool] = True

    has_no_place: bool = False
    """Whether there is nothing that the model could be asked about."""

    def plan(
        self,
        bench: Workbench,
        sources: DraftSources,
        clock: Callable[[], float],  # noqa: ARG002
    ) -> EditPlan | None:
        """Return the prompt of the model's format, and what the answer is drafted from."""
        try:
            laid_out = lay_out(self.request, self.settings, bench, sources)
        except (SettingsError, EditRefusedError) as error:
            bench.report(SettingsError(error.message, remedy=error.remedy))
            return None
        self.has_no_place = not laid_out.prompts
        if self.has_no_place:
            return None
        plan = self._asking(0, (), laid_out, bench, sources)
        bench.prompts.prepare(plan.context.prompt)
        return plan

    def unplanned(self) -> EditResult:
        """Return an empty answer, with its reason."""
        empty = self.request.plain.empty("stop")
        return structs.replace(empty, withheld="no-place") if self.has_no_place else empty

    def _asking(
        self,
        idx: int,
        answers: tuple[RegionAnswer, ...],
        laid_out: LaidOut,
        bench: Workbench,
        sources: DraftSources,
    ) -> EditPlan:
        """Return what is decoded for one of the regions; ``answers`` are those of others."""
        settings, vocabulary = self.settings, bench.tokenizer.vocabulary
        one, prompt = laid_out.edit_format, laid_out.prompts[idx]
        tokens = laid_out.tokens[idx]
        regions = draft_regions(one, prompt, laid_out.source, vocabulary)
        cost = bench.weights.pass_cost if settings.mode == "auto" else None
        ends = {*vocabulary.end_tokens, *control_ids(one, vocabulary).values()}
        if one.is_plain:
            ends |= bench.tokenizer.family.end_tokens
        room = bench.weights.target.n_ctx - len(tokens)
        output = PlainText(vocabulary, ends, stops=one.stops)
        if prompt.expected:
            output = ExpectedText(vocabulary, ends, stops=one.stops, expected=prompt.expected)
        return EditPlan(
            request=self.request,
            laid_out=laid_out,
            idx=idx,
            answers=answers,
            ask=partial(self._asking, laid_out=laid_out, bench=bench, sources=sources),
            changes=[change for change in sources.changes if change.path == self.request.path],
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
            output=output,
            sampler=make_sampler(sampling_params(settings)),
            scores=TokenScores(copy=() if one.is_plain else regions[0]),
            n_predict=min(_GROWTH * len(regions[0]) + LEAST_PREDICTED, room),
            piece=vocabulary.piece,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionAnswer:
    """What became of one region."""

    prompt: EditPrompt
    hunks: tuple[Hunk, ...]
    divergences: tuple[Divergence, ...]
    withheld: str
    """Why none of it is shown; empty if it is."""
    stats: RequestStats


@dataclass(slots=True, kw_only=True)
class EditPlan(Plan[EditResult]):
    """What is decoded for a region of a next edit, and how the answers become the edit."""

    request: PlacedRequest[EditRequest]
    laid_out: LaidOut
    idx: int
    """Which prompt."""
    answers: tuple[RegionAnswer, ...]
    """Those of the regions that were asked about before."""
    ask: Callable[[int, tuple[RegionAnswer, ...]], EditPlan] = field(repr=False)
    """Returns the plan for another prompt, and takes the answers until then."""
    changes: Sequence[Change]
    """The document's, also those that the prompt has no room for."""
    settings: Settings
    output: PlainText
    piece: Callable[[int], bytes] = field(repr=False)

    def remote(self, target: RemoteTarget) -> tuple[RemotePrompt, RemoteParams]:
        """Return the prompt as text, and as token ids where they are known."""
        sampling = asdict(sampling_params(self.settings))
        params = RemoteParams(n_predict=self.n_predict, wants_logprobs=True, **sampling)
        text = self.laid_out.prompts[self.idx].text
        return target.text_prompt(text, self.context.prompt), params

    def following(self, generation: Generation) -> EditPlan | None:
        """Return the plan for the next region, if there is one to ask about."""
        prompts = self.laid_out.prompts
        if self.idx + 1 >= len(prompts) or generation.finish_reason in ("cancelled", "deadline"):
            return None
        answers = (*self.answers, self._answer(generation))
        shown = [
            idx
            for idx, one in enumerate(prompts)
            if any(not answer.withheld and answer.prompt is one for answer in answers)
        ]
        regions = [(one.region.start, one.region.end) for one in prompts]
        text = self.laid_out.source.text
        idx = next_place(text, regions, self.idx + 1, shown)
        return None if idx is None else self.ask(idx, answers)

    def finish(
        self,
        generation: Generation,
        interrupted: Callable[[], FinishReason | None],  # noqa: ARG002
    ) -> EditResult:
        """Return the smallest edit, or why there is none."""
        reason, answers = generation.finish_reason, self.answers
        stats = generation.stats
        for one in answers:
            stats = summed(one.stats, stats)
        if reason not in ("cancelled", "deadline"):
            answers = (*answers, self._answer(generation))
        shown = [one for one in answers if not one.withheld]
        divergences = tuple(each for one in shown or answers for each in one.divergences)
        result = EditResult(
            completion_id=self.request.completion_id,
            finish_reason=reason,
            stats=stats,
            probability=divergences[0].probability if divergences else None,
            divergences=divergences,
        )
        if reason == "cancelled" or not answers:
            return structs.replace(result, probability=None, divergences=())
        if not shown:
            why = next((one.withheld for one in answers if one.hunks), answers[0].withheld)
            return structs.replace(result, withheld=why)
        source = self.laid_out.source
        changed = [hunk.moved(one.prompt.region.start) for one in shown for hunk in one.hunks]
        changed.sort(key=lambda one: one.start)
        far = is_far(source.text, smallest_edit(changed, source.text), source.cursor)
        return structs.replace(result, hunks=tuple(changed), is_far=far)

    def _answer(self, generation: Generation) -> RegionAnswer:
        """Return what the output makes of the region, and whether that is shown."""
        prompt, one = self.laid_out.prompts[self.idx], self.laid_out.edit_format
        old = prompt.old
        new = one.rewritten(prompt, self.output.text)
        divergences = () if new is None else self._divergences(prompt, new, generation)
        if prompt.expected and new == old and self._least < LEAST_KEPT:
            new = prompt.again
        changed = () if new is None else tuple(hunks(old, new))
        declined = set(self.request.plain.declined)
        why: str | None = "unchanged"
        if new is not None:
            why = why_withheld(
                old,
                new,
                cursor=self.laid_out.source.cursor - prompt.region.start,
                edit_format=one,
                is_whole=generation.finish_reason == "stop",
                changes=self.changes,
                declined=declined,
            )
        if why is None and any(PLACEHOLDER in hunk.old + hunk.new for hunk in changed):
            why = "secret"
        if prompt.expected:
            # The window asks elsewhere where a region is left as it is; these are all regions.
            why = "kept" if why == "unchanged" else why
            if why is None and self._least < least_probability(old, prompt.again, declined):
                why = "uncertain"
        return RegionAnswer(
            prompt=prompt,
            hunks=changed,
            divergences=divergences,
            withheld=why or "",
            stats=generation.stats,
        )

    @property
    def _least(self) -> float:
        """The least probability of the output's tokens; NaN where none is known."""
        return math.exp(min(filter(math.isfinite, self.scores.logprobs), default=math.nan))

    def _divergences(
        self, prompt: EditPrompt, new: str, generation: Generation
    ) -> tuple[Divergence, ...]:
        """Return the tokens with which the answer leaves the region as it is."""
        one = self.laid_out.edit_format
        copy = one.answer(prompt, prompt.old).rstrip("\n") + "\n"
        text = one.answer(prompt, new) if prompt.expected else self.output.text
        answer = text.rstrip("\n") + "\n"
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
