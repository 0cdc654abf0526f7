"""Loads a draft model for a target's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from speclsp.engine.draft_model import DraftModelDrafter, Log
from speclsp.engine.draft_translation import TranslatingDrafter, replacement_pairs
from speclsp.engine.params import draft_params
from speclsp.engine.vocabulary_check import SpelledVocabulary, check_vocabularies
from speclsp.errors import ModelLoadError, SettingsError, VocabularyMismatchError
from speclsp.prompt.protocol import Vocabulary
from speclsp.settings import Settings


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
