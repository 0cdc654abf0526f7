"""Drafts with a small model of the target's family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from speclsp.decoding.protocol import Logits, Target
from speclsp.decoding.sampling import LogitRow
from speclsp.drafting.distribution import Distribution, DraftSampling
from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext
from speclsp.engine.draft_translation import TranslatingDrafter, replacement_pairs
from speclsp.engine.kv_states import KvStates
from speclsp.engine.params import draft_params
from speclsp.engine.vocabulary_check import SpelledVocabulary, check_vocabularies
from speclsp.errors import DecodeError, ModelLoadError, SettingsError, VocabularyMismatchError
from speclsp.fim.protocol import Vocabulary
from speclsp.request import LogLevel
from speclsp.settings import DraftSamplingMode, Settings

Log = Callable[[LogLevel, str], None]

_N_CANDIDATES = 10
"""A draft token's probability is taken among this many best ones, as llama.cpp does."""


def _never() -> bool:
    return False


class DraftTarget(Target, Protocol):
    """The draft model's context."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop a running decode as soon as ``predicate`` is true."""

    def close(self) -> None:
        """Free the model."""


class DraftModelDrafter:
    """Implements :class:`speclsp.drafting.protocol.Drafter`: drafts of a small model.

    With ``sampling`` ``argmax`` it drafts what it finds most probable; with ``sampled`` it draws,
    where the request does, and its drafts say from what.  Then nothing that was drawn is left out
    for what it is, since that would change the output's law: ``n_min`` counts no drawn tokens.

    Its KV cache follows the request: what it shares with the last one, and the draft tokens that
    were accepted, are never evaluated again; other documents' prompts are saved in
    ``n_state_bytes`` at most.
    """

    name = "draft"

    def __init__(
        self,
        model: DraftTarget,
        *,
        n_max: int,
        n_min: int,
        p_min: float,
        n_target_vocab: int,
        end_tokens: frozenset[int] = frozenset(),
        sampling: DraftSamplingMode = "argmax",
        log: Log | None = None,
        n_state_bytes: int = 0,
    ) -> None:
        self._model = model
        self._states = KvStates(model, n_state_bytes)
        self._draws = sampling == "sampled"
        self._sampling: DraftSampling | None = None
        self._n_max = n_max
        self._n_min = n_min
        self._p_min = p_min
        # Ids that only one of the two models has must reach neither the other nor the draft.
        self._n_ids = min(n_target_vocab, model.n_vocab)
        self._end_tokens = end_tokens
        self._log = log
        self._interrupted: Callable[[], bool] = _never
        self._text: list[int] = []
        self._n_prompt = 0
        # So many tokens of the text are known to be the first ones of the model's cache.
        self._n_in_step = 0

    @property
    def model(self) -> DraftTarget:
        """The draft model's context."""
        return self._model

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside the model's decode since it was loaded."""
        return self._model.ns_native

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop drafting as soon as ``predicate`` is true; None for never.

        It is asked between decodes, and on another thread while one runs.
        """
        self._interrupted = predicate or _never
        self._model.set_interrupt(predicate)

    def begin(self, context: DraftContext) -> None:
        """A request starts.  Nothing is evaluated before the first draft is wanted."""
        self._text = list(context.prompt)
        self._sampling = context.sampling if self._draws else None
        self._n_prompt = len(self._text)
        self._n_in_step = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Propose what the draft model finds most probable, or what it draws.

        Nothing where the text does not fit its context, holds ids that it does not know, or
        where it was interrupted.
        """
        text = self._text
        text.extend(generated[len(text) - self._n_prompt :])
        # The last draft token is never evaluated, so it needs no room in the context.
        n_room = self._model.n_ctx - len(text) + 1
        n_tokens = min(n_max, self._n_max, n_room)
        if n_tokens <= 0 or n_tokens < self._n_min or not text:
            return NO_DRAFT
        try:
            draft = self._propose(text, n_tokens)
        except DecodeError as error:  # an interrupt, or a failure that the target need not share
            self._n_in_step = 0
            if self._log is not None and not self._interrupted():
                self._log("warning", f"the draft model drafted nothing: {error}")
            return NO_DRAFT
        if len(draft.tokens) < self._n_min and not draft.distributions:
            return NO_DRAFT
        return draft

    def accept(self, n_accepted: int) -> None:
        """Of the last draft ``n_accepted`` tokens became output.

        Nothing to do: they are in the cache, and the next draft finds them there.
        """

    def close(self) -> None:
        """Free the draft model."""
        self._model.close()

    def _propose(self, text: list[int], n_tokens: int) -> Draft:
        logits = self._catch_up(text)
        tokens: list[int] = []
        distributions: list[Distribution] = []
        while logits is not None:
            row = logits[-1, : self._n_ids]
            token = self._pick(row)
            if token is None:
                break
            if self._sampling is not None:
                token, distribution = self._sampling.draw(row)
                distributions.append(distribution)
            tokens.append(token)
            if len(tokens) == n_tokens or token in self._end_tokens or self._interrupted():
                break
            logits = self._model.decode([token], 1)
        if not tokens:
            return NO_DRAFT
        return Draft(tuple(tokens), source="draft", distributions=tuple(distributions))

    def _catch_up(self, text: list[int]) -> Logits | None:
        """Bring the cache to ``text`` and return its last row of logits; None if interrupted."""
        model = self._model
        if any(token >= self._n_ids for token in text[self._n_in_step :]):
            return None
        if self._n_in_step == 0:
            self._states.prepare(text[: self._n_prompt])
        n_kept = self._n_in_step
        for cached, wanted in zip(model.cached[n_kept:], text[n_kept:], strict=False):
            if cached != wanted:
                break
            n_kept += 1
        # The last token is evaluated in any case: its logits are wanted.
        n_kept = min(n_kept, len(text) - 1)
        model.truncate(n_kept)
        self._n_in_step = n_kept
        logits: Logits | None = None
        while self._n_in_step < len(text):
            if self._interrupted():
                return None
            piece = text[self._n_in_step : self._n_in_step + model.n_ubatch]
            n_done = self._n_in_step + len(piece)
            logits = model.decode(piece, 1 if n_done == len(text) else 0)
            self._n_in_step = n_done
        return logits

    def _pick(self, row: LogitRow) -> int | None:
        """Return the most probable token; None where it is less probable than ``p_min``."""
        token = int(row.argmax())
        if self._p_min > 0.0:
            n_best = min(_N_CANDIDATES, len(row))
            best = np.partition(row, len(row) - n_best)[-n_best:].astype(np.float64)
            # softmax of the best: p = 1 / sum(exp(logit - best logit))
            if 1.0 / float(np.exp(best - float(row[token])).sum()) < self._p_min:
                return None
        return token if math.isfinite(float(row[token])) else None


def load_draft_model(
    path: Path, settings: Settings, vocabulary: Vocabulary, n_ctx_target: int, log: Log
) -> DraftModelDrafter | TranslatingDrafter:
    """Load a draft model for the target model with ``vocabulary`` and ``n_ctx_target`` positions.

    One with another vocabulary drafts through text where the settings have ``spec_replace``.
    Raises :class:`~speclsp.errors.ModelNotFoundError`, :class:`~speclsp.errors.ModelLoadError`,
    or :class:`~speclsp.errors.VocabularyMismatchError`.
    """
    # Imported here, so that this module's drafter can be used without llama.cpp.
    from speclsp.engine.llama.loading import load_target  # noqa: PLC0415
    from speclsp.engine.llama.vocabulary import load_vocabulary  # noqa: PLC0415

    own_vocabulary = load_vocabulary(path)
    try:
        pairs = replacement_pairs(settings.spec_replace)
        model_params, context_params = draft_params(
            settings, n_ctx_target, model_bytes=path.stat().st_size
        )
    except SettingsError as error:
        # A draft model that cannot be used stops nothing else.
        raise ModelLoadError(error.message, remedy=error.remedy) from error
    translated_for = _translated_for(vocabulary, own_vocabulary, pairs)
    model = load_target(
        path,
        model_params,
        context_params,
        fit=settings.fit,
        progress=lambda _share: True,
        log=log,
    )
    if not model.supports_rollback:
        model.close()
        raise ModelLoadError(
            f"The model {path} cannot take tokens back, so it cannot draft.",
            remedy="Take a draft model without recurrent layers.",
        )
    drafter = DraftModelDrafter(
        model,
        n_max=settings.spec_draft_n_max,
        n_min=settings.spec_draft_n_min,
        p_min=settings.spec_draft_p_min,
        n_target_vocab=model.n_vocab if translated_for else vocabulary.n_tokens,
        end_tokens=own_vocabulary.end_tokens if translated_for else vocabulary.end_tokens,
        sampling=settings.draft_sampling,
        log=log,
        n_state_bytes=settings.cache_ram << 20,
    )
    if translated_for is None:
        own_vocabulary.close()
        return drafter
    log("info", "the draft model has another vocabulary: its drafts are translated through text")
    return TranslatingDrafter(drafter, target=translated_for, draft=own_vocabulary, pairs=pairs)


def _translated_for(
    target: Vocabulary, draft: Vocabulary, pairs: Sequence[tuple[str, str]]
) -> SpelledVocabulary | None:
    """Return the target's vocabulary where drafts need translating into it, and None where not.

    Raises :class:`~speclsp.errors.VocabularyMismatchError` where they need it and no pair is set.
    """
    try:
        check_vocabularies(target, draft)
    except VocabularyMismatchError:
        if not pairs or not isinstance(target, SpelledVocabulary):
            raise
        return target
    return None
