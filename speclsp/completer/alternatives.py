"""Alternatives to a completion: other texts for the same place, which share its prefill.

They fork from the first text where the model was least certain (see
:mod:`speclsp.decoding.forks`).  Equal requests get equal alternatives.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speclsp.answers import FinishReason, GeneratedText
from speclsp.decoding.forks import Fork, best_rivals, grow_forks
from speclsp.decoding.sampling import (
    RedrawingSampler,
    Sampler,
    SamplingParams,
    SeededSampler,
    make_sampler,
)
from speclsp.decoding.target import Target, fork_target
from speclsp.decoding.token_scores import Rival, TokenScores
from speclsp.engine.weights import Tokenizer
from speclsp.errors import DecodeError
from speclsp.prompt.healing import HealingSampler
from speclsp.requests import PlacedCompletion
from speclsp.text.confidence import TextScores, text_scores
from speclsp.text.stopping import CompletionText

N_ROUNDS = 2
"""Rounds of forks: a second one replaces forks that are empty or the same as another text."""


def n_rivals(request: PlacedCompletion) -> int:
    """Return how many other tokens to keep at each position for a request's texts."""
    return N_ROUNDS * max(0, request.plain.n_candidates - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMaker:
    """Makes the sampler and the stop rules of each text of one request."""

    tokenizer: Tokenizer
    params: SamplingParams
    typed: str
    """The typed text that the prompt leaves out; each text begins with it (token healing)."""
    new_text: Callable[[], CompletionText]

    def sampler(self) -> Sampler:
        """Return the request's own sampler."""
        return self._healing(make_sampler(self.params))

    def fork_sampler(self, fork_idx: int, tokens: Sequence[int]) -> Sampler | None:
        """Return a sampler, with draws of its own, for a text that begins with ``tokens``.

        None if the last token of ``tokens`` may not follow the others.
        """
        sampler = make_sampler(self.params)
        if isinstance(sampler, SeededSampler):
            sampler = sampler.for_fork(fork_idx)
        healing = self._healing(sampler)
        if isinstance(healing, HealingSampler):
            for token in tokens[:-1]:
                healing.take(token)
            if healing.refuses(tokens[-1]):
                return None
            healing.take(tokens[-1])
        return healing

    def scores(self, sampler: Sampler, *, n_rivals: int = 0) -> TokenScores:
        """Return the recorder of scores for a text that ``sampler`` chooses."""
        if isinstance(sampler, HealingSampler):
            return TokenScores(n_rivals=n_rivals, chosen_by=lambda: sampler.chosen_by)
        return TokenScores(n_rivals=n_rivals)

    def text_scores(self, tokens: Sequence[int], scores: TokenScores, text: str) -> TextScores:
        """Return the scores of the tokens of a finished text."""
        pieces = [self.tokenizer.vocabulary.piece(token) for token in tokens]
        return text_scores(pieces, scores.logprobs, text, typed=self.typed)

    def _healing(self, sampler: RedrawingSampler) -> Sampler:
        if not self.typed:
            return sampler
        return HealingSampler(
            sampler, self.tokenizer.prefixes, self.tokenizer.vocabulary, self.typed
        )


class Alternatives:
    """The alternatives to one request's text."""

    def __init__(
        self,
        maker: TextMaker,
        emitted: Sequence[int],
        scores: TokenScores,
        first: str,
        report: Callable[[DecodeError], None],
    ) -> None:
        """``emitted`` are the tokens of the ``first`` text, ``scores`` their scores.

        ``report`` takes a decoding failure, which ends the search for alternatives.
        """
        self._report = report
        self._maker = maker
        self._emitted = emitted
        self._scores = scores
        self._first = first
        self._n_forks = 0
        self._known = {_dense(first), ""}
        self.texts: list[GeneratedText] = []

    def grow(
        self,
        target: Target,
        n_prompt: int,
        *,
        n_wanted: int,
        n_predict: int,
        interrupted: Callable[[], FinishReason | None],
    ) -> None:
        """Generate ``n_wanted`` texts; fewer if there are no more or time is up."""
        forkable = fork_target(target)
        if forkable is None:
            return
        begun = filter(None, map(self._fork, self._fork_points()))
        for _ in range(N_ROUNDS):
            n_forks = min(n_wanted - len(self.texts), forkable.n_branches - 1)
            made = list(itertools.islice(begun, n_forks))
            if not made or interrupted() is not None:
                break
            try:
                grow_forks(
                    forkable,
                    n_prompt,
                    [fork for fork, _ in made],
                    n_predict=n_predict,
                    interrupted=interrupted,
                )
            except DecodeError as error:
                self._report(error)
                break
            for fork, text in made:
                self._take(fork, text)
        self.texts.sort(
            key=lambda text: math.inf if text.mean_logprob is None else -text.mean_logprob
        )

    def _fork_points(self) -> list[Rival]:
        rivals = self._scores.rivals
        text = self._maker.text_scores(self._emitted, self._scores, self._first)
        ends = self._maker.tokenizer.family.end_tokens
        return best_rivals(rivals, len(rivals), text.end, excluded=ends)

    def _fork(self, rival: Rival) -> tuple[Fork, CompletionText] | None:
        self._n_forks += 1
        shared = self._emitted[: rival.position]
        tokens = [*shared, rival.token]
        sampler = self._maker.fork_sampler(self._n_forks, tokens)
        if sampler is None:
            return None
        scores = self._maker.scores(sampler)
        scores.logprobs = [*self._scores.logprobs[: rival.position], rival.logprob]
        text = self._maker.new_text()
        for token in shared:
            text.feed(token)
        n_given = len(tokens)

        def stop(token: int) -> bool:
            # The text was chosen for its first own token, however unlikely that is.
            is_given = len(scores.logprobs) == n_given
            return text.feed(token, math.nan if is_given else scores.logprobs[-1])

        fork = Fork(
            tokens=tokens,
            n_shared=rival.position,
            sampler=sampler,
            stop=stop,
            scores=scores,
        )
        return fork, text

    def _take(self, fork: Fork, text: CompletionText) -> None:
        done = text.finish()
        if fork.finish in ("deadline", "cancelled"):
            # Its last line may be incomplete.
            done = text.fitted("" if done.n_replaced else done.text.rpartition("\n")[0].rstrip())
        if _dense(done.text) in self._known:
            return
        self._known.add(_dense(done.text))
        scores = self._maker.text_scores(fork.tokens, fork.scores, done.text)
        self.texts.append(
            GeneratedText(
                completion_id=uuid.uuid4().hex,
                text=done.text,
                n_replaced=done.n_replaced,
                mean_logprob=scores.mean(done.text),
            )
        )


def _dense(text: str) -> str:
    """Return a text without white space, to compare."""
    return "".join(text.split())
