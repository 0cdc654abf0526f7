"""Whether a draft model speaks the target model's token ids.

The rules are llama.cpp's (``common/speculative.cpp``).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from speclsp.errors import VocabularyMismatchError
from speclsp.prompt.protocol import Vocabulary

_MAX_SIZE_DIFFERENCE = 128
_FIRST_TOKEN_COMPARED = 5
"""The first ids are special tokens that models of one family name differently."""

_REMEDY = (
    "Take a draft model of the target model's own family, leave spec_draft_model empty, or set "
    "spec_replace to draft through text."
)


@runtime_checkable
class SpelledVocabulary(Vocabulary, Protocol):
    """A vocabulary that tells what two models must agree on."""

    @property
    def type_name(self) -> str:
        """The kind of tokenizer."""

    @property
    def bos_token(self) -> int | None:
        """The beginning-of-sequence token, whether a prompt starts with it or not."""

    @property
    def eos_token(self) -> int | None:
        """The end-of-sequence token."""

    @property
    def adds_bos(self) -> bool:
        """Whether a prompt starts with the beginning-of-sequence token."""

    @property
    def adds_eos(self) -> bool:
        """Whether a prompt ends with the end-of-sequence token."""

    def text(self, token: int) -> str:
        """The token as the vocabulary spells it."""


def check_vocabularies(target: Vocabulary, draft: Vocabulary) -> None:
    """Raise :class:`VocabularyMismatchError` naming the first difference that matters."""
    if target.fingerprint == draft.fingerprint and target.bos == draft.bos:
        return
    difference = _first_difference(target, draft)
    if difference:
        raise VocabularyMismatchError(
            f"The draft model's vocabulary differs from the target model's: {difference}.",
            remedy=_REMEDY,
        )


def _first_difference(target: Vocabulary, draft: Vocabulary) -> str:
    if not (isinstance(target, SpelledVocabulary) and isinstance(draft, SpelledVocabulary)):
        return "their fingerprints are not equal"
    if target.type_name != draft.type_name:
        return f"the target's tokenizer is {target.type_name}, the draft's {draft.type_name}"
    for name, of_target, of_draft in (
        ("BOS", (target.adds_bos, target.bos_token), (draft.adds_bos, draft.bos_token)),
        ("EOS", (target.adds_eos, target.eos_token), (draft.adds_eos, draft.eos_token)),
    ):
        # The id matters only where a prompt gets the token, as upstream has it.
        if of_target[0] != of_draft[0] or (of_target[0] and of_target[1] != of_draft[1]):
            return f"the target {_use(*of_target, name)}, the draft {_use(*of_draft, name)}"
    if abs(target.n_tokens - draft.n_tokens) > _MAX_SIZE_DIFFERENCE:
        return (
            f"the target has {target.n_tokens} tokens, the draft {draft.n_tokens}, more than "
            f"{_MAX_SIZE_DIFFERENCE} apart"
        )
    for token in range(_FIRST_TOKEN_COMPARED, min(target.n_tokens, draft.n_tokens)):
        if target.text(token) != draft.text(token):
            return (
                f"token {token} is {target.text(token)!r} in the target and "
                f"{draft.text(token)!r} in the draft"
            )
    return ""


def _use(adds: bool, token: int | None, name: str) -> str:
    return f"adds {name} {token}" if adds else f"adds no {name}"
