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
from typing import Generic, TypeVar

from speclsp.backends.weights import Tokenizer
from speclsp.completer.jobs import GrowingOutput
from speclsp.decoding.forks import Fork, best_rivals, grow_forks
from speclsp.decoding.sampling import LogitRow, RedrawingSampler, Sampler, SeededSampler
from speclsp.decoding.target import Target, fork_target
from speclsp.decoding.token_scores import Rival, TokenScores
from speclsp.errors import DecodeError
from speclsp.prompt.healing import HealingSampler
from speclsp.seam.completion import GeneratedText, PlacedCompletion
from speclsp.seam.request import FinishReason
from speclsp.text.confidence import TextScores, text_scores
from speclsp.text.stopping import CompletionText

N_ROUNDS = 2
"""Rounds of forks: a second one replaces forks that are empty or the same as another text."""


def n_rivals(request: PlacedCompletion) -> int:
    """Return how many other tokens to keep at each position for a request's texts."""
    return N_ROUNDS * max(0, request.plain.n_candidates - 1)


_Text = TypeVar("_Text", bound=GrowingOutput)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMaker(Generic[_Text]):
    """Makes the sampler and the stop rules of each text of one request."""

    tokenizer: Tokenizer
    new_sampler: Callable[[], RedrawingSampler]
    typed: str
    """The typed text that the prompt leaves out; each text begins with it (token healing)."""
    new_text: Callable[[], _Text]

    def sampler(self, fork_idx: int = 0) -> Sampler:
        """Return the sampler of the first text, or of a further one: its draws are its own."""
        sampler, tokenizer = self.new_sampler(), self.tokenizer
        if fork_idx and isinstance(sampler, SeededSampler):
            sampler = sampler.for_fork(fork_idx)
        if not self.typed:
            return sampler
        return HealingSampler(sampler, tokenizer.prefixes, tokenizer.vocabulary, self.typed)

    def fork(
        self,
        idx: int,
        first: Sequence[int],
        scores: TokenScores,
        own: Rival,
        text: _Text,
        *,
        n_rivals: int = 0,
    ) -> Fork | None:
        """Return the ``idx``-th further text, ``text``, which begins as the ``first`` one does.

        ``own`` follows, and ``scores`` are those of the first text.  ``n_rivals`` are kept for each
        place.  None where what was typed does not allow its own token.
        """
        shared = first[: own.position]
        sampler = self.sampler(idx)
        if isinstance(sampler, HealingSampler):
            for token in shared:
                sampler.take(token)
            if sampler.refuses(own.token):
                return None
            sampler.take(own.token)
        for token in shared:
            text.feed(token)
        own_scores = TokenScores(n_rivals=n_rivals, chosen_by=row_of(sampler))
        own_scores.logprobs = [*scores.logprobs[: own.position], own.logprob]
        n_given = own.position + 1

        def stop(token: int) -> bool:
            # The text was chosen for its first own token, however unlikely that is.
            is_given = len(own_scores.logprobs) == n_given
            return text.feed(token, math.nan if is_given else own_scores.logprobs[-1])

        return Fork(
            tokens=[*shared, own.token],
            n_shared=own.position,
            sampler=sampler,
            stop=stop,
            scores=own_scores,
        )

    def text_scores(self, tokens: Sequence[int], scores: TokenScores, text: str) -> TextScores:
        """Return the scores of the tokens of a finished text."""
        pieces = [self.tokenizer.vocabulary.piece(token) for token in tokens]
        return text_scores(pieces, scores.logprobs, text, typed=self.typed)


def row_of(sampler: Sampler) -> Callable[[], LogitRow | None]:
    """Return what tells the logits that a sampler chose by, None for the model's own."""
    return lambda: sampler.chosen_by if isinstance(sampler, HealingSampler) else None


class Alternatives:
    """The alternatives to one request's text."""

    def __init__(
        self,
        maker: TextMaker[CompletionText],
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
        text = self._maker.new_text()
        fork = self._maker.fork(self._n_forks, self._emitted, self._scores, rival, text)
        return None if fork is None else (fork, text)

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
