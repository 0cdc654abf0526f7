"""Drafts of a model with another vocabulary than the target's: translated through text.

    target tokens → text → draft tokens → the draft model → draft tokens → text → target tokens

Special tokens have no text: each becomes what a pair of ``spec_replace`` says, or the other
vocabulary's special token of the same name, or nothing.  Pairs whose first part is no special token
of the target are replaced in the text.  What comes back are proposals like any others: the target
verifies them, so a bad translation costs time and changes nothing.

Translating for drafts goes back to llama.cpp's former ``--spec-replace``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from speclsp.drafting.protocol import NO_DRAFT, Draft, DraftContext, PromptedDrafter
from speclsp.engine.vocabulary_check import SpelledVocabulary
from speclsp.errors import SettingsError


class TokenDrafter(PromptedDrafter, Protocol):
    """The drafter of the model with the other vocabulary."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop drafting as soon as ``predicate`` is true; None for never."""

    def close(self) -> None:
        """Free the draft model."""


class ClosableVocabulary(SpelledVocabulary, Protocol):
    """A vocabulary that can be freed."""

    def close(self) -> None:
        """Free what is native of it."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of a token sequence: plain text, or one special token, known by its name."""

    data: bytes
    is_special: bool


class Translation:
    """Translates tokens of one vocabulary into those of another one.

    ``special`` maps the names of special tokens to what stands for them; ``plain`` lists what is
    replaced in the text between them.
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
        pieces = self._pieces(tokens)
        if not pieces or pieces[-1].is_special:
            return False
        data = pieces[-1].data
        return len(_leading_text(data).encode()) < len(data)

    def tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the goal's tokens.  Bytes that are no text become replacement characters."""
        translated: list[int] = []
        for piece in self._pieces(tokens):
            if piece.is_special:
                translated += self._special_tokens(piece.data.decode("utf-8", "replace"))
            else:
                translated += self._text_tokens(piece.data.decode("utf-8", "replace"))
        return translated

    def whole_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the goal's tokens up to the first bytes that are no text.

        It stops before a special token that has no counterpart, too: nothing that the goal's
        model writes would follow in its place.
        """
        translated: list[int] = []
        for piece in self._pieces(tokens):
            if piece.is_special:
                special = self._special_tokens(piece.data.decode("utf-8", "replace"))
                if not special:
                    break
                translated += special
                continue
            text = _leading_text(piece.data)
            translated += self._text_tokens(text)
            if len(text.encode()) < len(piece.data):
                break
        return translated

    def _pieces(self, tokens: Sequence[int]) -> list[_Piece]:
        pieces: list[_Piece] = []
        plain: list[bytes] = []
        for token in tokens:
            if not self.is_special(token):
                plain.append(self._source.piece(token))
                continue
            if plain:
                pieces.append(_Piece(b"".join(plain), is_special=False))
                plain = []
            pieces.append(_Piece(self._source.text(token).encode(), is_special=True))
        if plain:
            pieces.append(_Piece(b"".join(plain), is_special=False))
        return pieces

    def _special_tokens(self, name: str) -> list[int]:
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
    """A :class:`Drafter` for the target whose ``inner`` one thinks in the draft model's tokens.

    The prompt up to its last special token is translated once per request; what comes after it, a
    line's beginning and the generated text, anew for each draft, since tokens depend on what
    follows them.
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

    def n_unseen(self, generated: Sequence[int]) -> int:  # noqa: ARG002 - they are few
        """Return about how many tokens the draft model must evaluate before the next draft."""
        self._inner.begin(DraftContext(prompt=self._head))
        return self._inner.n_unseen([])

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

    def accept(self, n_accepted: int) -> None:
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
