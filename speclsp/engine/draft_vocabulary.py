"""Draft models and the target's vocabulary: whether they agree, and translation where they do not.

Which differences matter is llama.cpp's rule (``common/speculative.cpp``).  The drafts of a model
with another vocabulary are translated through text::

    target tokens → text → draft tokens → the draft model → draft tokens → text → target tokens

Special tokens have no text: each becomes what a pair of ``spec_replace`` says, or the other
vocabulary's special token of the same name, or nothing.  Pairs whose first part is no special token
of the target are replaced in the text.  The target verifies translated drafts like any others, so a
bad translation costs time and changes nothing.

Translating for drafts goes back to llama.cpp's former ``--spec-replace``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext, ModelDrafter
from speclsp.errors import SettingsError, VocabularyMismatchError
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
    """A vocabulary with the properties that two models must agree on."""

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


class TokenDrafter(ModelDrafter, Protocol):
    """The drafter whose model has the other vocabulary."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop drafting as soon as ``predicate`` is true; None for never."""

    def close(self) -> None:
        """Free the draft model."""


class ClosableVocabulary(SpelledVocabulary, Protocol):
    """A vocabulary that can be freed."""

    def close(self) -> None:
        """Free what is native of it."""


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


class Translation:
    """Translates tokens of one vocabulary into those of another one.

    ``special`` maps the names of special tokens to their replacements; ``plain`` lists the
    replacements in the text between them.
    """

    def __init__(
        self,
        source: SpelledVocabulary,
        goal: SpelledVocabulary,
        *,
        special: dict[str, str],
        plain: Sequence[tuple[str, str]],
    ) -> None:
        self._source = source
        self._goal = goal
        self._special = special
        self._plain = plain

    def is_special(self, token: int) -> bool:
        """Whether a token of the source counts as a name, not as text."""
        return not self._source.piece(token) or self._source.text(token) in self._special

    def ends_inside_character(self, tokens: Sequence[int]) -> bool:
        """Whether the text of ``tokens`` lacks bytes of its last character."""
        last = list(itertools.takewhile(lambda token: not self.is_special(token), reversed(tokens)))
        data = b"".join(map(self._source.piece, reversed(last)))
        return len(_leading_text(data).encode()) < len(data)

    def tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the goal's tokens.  Bytes that are no text become replacement characters."""
        translated: list[int] = []
        for is_special, run in itertools.groupby(tokens, self.is_special):
            if is_special:
                translated += itertools.chain.from_iterable(map(self._special_tokens, run))
            else:
                data = b"".join(map(self._source.piece, run))
                translated += self._text_tokens(data.decode("utf-8", "replace"))
        return translated

    def whole_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the goal's tokens up to the first bytes that are no text.

        They end before a special token that has no counterpart, too: nothing that the goal's model
        writes would follow in its place.
        """
        translated: list[int] = []
        for is_special, run in itertools.groupby(tokens, self.is_special):
            if is_special:
                for token in run:
                    special = self._special_tokens(token)
                    if not special:
                        return translated
                    translated += special
                continue
            data = b"".join(map(self._source.piece, run))
            text = _leading_text(data)
            translated += self._text_tokens(text)
            if len(text.encode()) < len(data):
                break
        return translated

    def _special_tokens(self, special: int) -> list[int]:
        name = self._source.text(special)
        replacement = self._special.get(name, name)
        token = self._goal.special(replacement)
        if token is not None:
            return [token]
        if name not in self._special:
            return []
        plain: list[int] = self._goal.tokenize(replacement).tolist()
        return plain

    def _text_tokens(self, text: str) -> list[int]:
        for old, new in self._plain:
            text = text.replace(old, new)
        tokens: list[int] = self._goal.tokenize(text).tolist()
        return tokens


class TranslatingDrafter:
    """A :class:`Drafter` for the target around ``inner``, which drafts in its model's own tokens.

    The prompt up to its last special token is translated once per request.  What follows it, a
    line's beginning and the generated text, is translated for each draft, since tokens depend on
    what follows them.
    """

    def __init__(
        self,
        inner: TokenDrafter,
        *,
        target: SpelledVocabulary,
        draft: ClosableVocabulary,
        pairs: Sequence[tuple[str, str]],
    ) -> None:
        self.name = inner.name
        self._inner = inner
        self._draft_vocabulary = draft
        special = [pair for pair in pairs if target.special(pair[0]) is not None]
        plain = [pair for pair in pairs if target.special(pair[0]) is None]
        self._there = Translation(target, draft, special=dict(special), plain=plain)
        self._back = Translation(
            draft,
            target,
            # Where several stand for one, the first comes back.
            special={new: old for old, new in reversed(special)},
            plain=[(new, old) for old, new in plain],
        )
        self._bos = draft.bos
        self._context = DraftContext(prompt=())
        self._head: list[int] = []
        self._tail: list[int] = []

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside the draft model's decode since it was loaded."""
        return self._inner.ns_native

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop drafting as soon as ``predicate`` is true; None for never."""
        self._inner.set_interrupt(predicate)

    def begin(self, context: DraftContext) -> None:
        """Translate the request's prompt."""
        self._context = context
        prompt = list(context.prompt)
        n_head = len(prompt)
        while n_head and not self._there.is_special(prompt[n_head - 1]):
            n_head -= 1
        # Without any special token the prompt is one long text, and only the rest is open.
        n_head = n_head or len(prompt)
        self._head = self._there.tokens(prompt[:n_head])
        if self._bos is not None and self._head[:1] != [self._bos]:
            self._head.insert(0, self._bos)
        self._tail = prompt[n_head:]

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Propose what the draft model finds most probable, in the target's tokens."""
        written = [*self._tail, *generated]
        if self._there.ends_inside_character(written):
            return NO_DRAFT
        tail = self._there.tokens(written)
        self._inner.begin(
            DraftContext(
                prompt=[*self._head, *tail],
                verify_curve=self._context.verify_curve,
                single_s=self._context.single_s,
            )
        )
        draft = self._inner.draft([], n_max)
        tokens = self._back.whole_tokens(draft.tokens)[: max(n_max, 0)]
        return Draft(tuple(tokens), draft.source) if tokens else NO_DRAFT

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Nothing to do: what was right is found in the draft model's cache."""

    def close(self) -> None:
        """Free the draft model and its vocabulary."""
        self._inner.close()
        self._draft_vocabulary.close()


def replacement_pairs(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Split ``TARGET DRAFT`` at white space.

    Raises :class:`SettingsError` for what is no pair, and for two pairs of one target string.
    """
    pairs: list[tuple[str, str]] = []
    for line in lines:
        match line.split():
            case [old, new]:
                pairs.append((old, new))
            case _:
                raise SettingsError(
                    f"setting spec_replace: {line!r} is no pair of two strings.",
                    remedy="Write `TARGET DRAFT`, for example `<|fim_prefix|> <PRE>`.",
                )
    names = [old for old, _ in pairs]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise SettingsError(
            f"setting spec_replace: there are two pairs for {double!r}.",
            remedy="Keep one of them.",
        )
    return pairs


def _leading_text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data[: error.start].decode("utf-8")
