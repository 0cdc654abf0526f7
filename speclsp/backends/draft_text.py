"""Text between the vocabularies of a target and of a draft model.

::

    target tokens → text, replaced → draft tokens → the draft model → draft tokens → text → target

llama.cpp had the same (``--spec-replace``), and drafts so where vocabularies differ.  A special
token has no text: it becomes the draft model's token of the same role in fill-in-the-middle
prompts, or of the same name, or what a pair says, or nothing.  The target verifies these drafts as
it does all others, so a bad one costs time and changes nothing.

A prompt's pieces between special tokens are tokenised once.  Of the text behind the last special
token, all lines but the last two are settled: a step of decoding tokenises these two again, since a
token depends on the text after it.
"""

from __future__ import annotations

import codecs
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import astuple
from itertools import accumulate
from typing import Final, Protocol

from speclsp.errors import SettingsError
from speclsp.vocabulary_protocol import Vocabulary

_N_PIECES: Final = 32
"""Latest pieces of prompts whose tokens are kept: two requests differ in the last piece."""


class SpelledVocabulary(Vocabulary, Protocol):
    """A vocabulary that tells how a token is spelled."""

    def text(self, token: int) -> str:
        """Return the token as the vocabulary spells it."""


class TextCrossing:
    """A request's prompt and output in the draft model's tokens, and its drafts in the target's."""

    def __init__(
        self,
        target: SpelledVocabulary,
        draft: SpelledVocabulary,
        pairs: Sequence[tuple[str, str]] = (),
    ) -> None:
        """``pairs`` are strings of the target and what replaces them for the draft model."""
        self._target = target
        self._draft = draft
        self._named = {old: new for old, new in pairs if target.special(old) is not None}
        self._replaced = [(old, new) for old, new in pairs if old not in self._named]
        roles = zip(astuple(target.fim), astuple(draft.fim), strict=True)
        self._roles = {mine: its for mine, its in roles if mine is not None and its is not None}
        self._special: dict[int, tuple[int, ...] | None] = {}
        self._ending: dict[int, tuple[int, ...]] = {}
        self._pieces: OrderedDict[bytes, list[int]] = OrderedDict()
        self._settled: list[int] = []
        """The draft model's tokens of the text but for :attr:`_open`."""
        self._open = b""
        """The text whose tokens may still change."""
        self._n_generated = 0

    @property
    def fills_in(self) -> bool:
        """Whether the draft model has a token for the place where the middle begins."""
        middle = self._target.fim.middle
        return middle is None or bool(self._special_tokens(middle))

    def begin(self, prompt: Sequence[int]) -> list[int]:
        """Start a request; return the draft model's tokens of its prompt."""
        self._settled = [] if self._draft.bos is None else [self._draft.bos]
        self._open = b""
        self._n_generated = 0
        self._append(prompt)
        return [*self._settled, *self._tokens_of(self._open)]

    def follow(self, text: list[int], generated: Sequence[int]) -> int | None:
        """Bring ``text``, the draft model's tokens so far, up to the target's ``generated`` ones.

        Returns how many leading tokens are the same for certain; None if the text ends inside a
        character, which the draft model cannot be told.
        """
        n_same = len(self._settled)
        self._append(generated[self._n_generated :])
        self._n_generated = len(generated)
        del text[n_same:]
        text += self._settled[n_same:]
        if _ends_inside_character(self._open):
            return None
        text += self._tokens_of(self._open)
        return n_same

    def ends(self, token: int, end_tokens: frozenset[int]) -> bool:
        """Whether a draft ends before a token of the draft model.

        It does before special tokens, and where the target's output would end.
        """
        if token not in self._ending:
            piece = self._draft.piece(token)
            of_target = self._target.tokenize(piece.decode("utf-8", "ignore")).tolist()
            self._ending[token] = tuple(of_target) if piece else (-1,)
        ending = self._ending[token]
        return ending == (-1,) or not end_tokens.isdisjoint(ending)

    def back(
        self, tokens: Sequence[int], probabilities: Sequence[float]
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return a draft in the target's tokens, with their probabilities.

        It ends before the first bytes that are no text.  A token has the product of the
        probabilities of the draft model's tokens that begin in it; none has one if text was
        replaced.
        """
        pieces = [self._draft.piece(token) for token in tokens]
        whole = _leading_text(b"".join(pieces))
        text = whole
        for old, new in self._replaced:
            text = text.replace(new, old)
        found: list[int] = self._target.tokenize(text).tolist()
        if text != whole:
            return tuple(found), ()
        starts = [*accumulate(map(len, pieces), initial=0)]
        shares: list[float] = []
        start = 0
        for token in found:
            end = start + len(self._target.piece(token))
            inside = (p for p, at in zip(probabilities, starts, strict=False) if start <= at < end)
            shares.append(math.prod(inside))
            start = end
        return tuple(found), tuple(shares)

    def _append(self, tokens: Sequence[int]) -> None:
        """Append tokens of the target to the text, and settle what does not change any more."""
        run = bytearray(self._open)
        for token in tokens:
            special = self._special_tokens(token)
            if special is None:
                run += self._target.piece(token)
                continue
            if run:
                self._settled += self._tokens_of_piece(bytes(run))
                run.clear()
            self._settled += special
        n_settled = run.rfind(b"\n", 0, max(0, run.rfind(b"\n"))) + 1
        if n_settled:
            self._settled += self._tokens_of(bytes(run[:n_settled]))
        self._open = bytes(run[n_settled:])

    def _special_tokens(self, token: int) -> tuple[int, ...] | None:
        """Return what stands for a special token of the target; None for tokens of text."""
        if token not in self._special:
            self._special[token] = self._found_special_tokens(token)
        return self._special[token]

    def _found_special_tokens(self, token: int) -> tuple[int, ...] | None:
        name = self._target.text(token)
        if name in self._named:
            replacement = self._named[name]
            special = self._draft.special(replacement)
            plain = self._draft.tokenize(replacement).tolist()
            return tuple(plain) if special is None else (special,)
        if token in self._roles:
            return (self._roles[token],)
        if self._target.piece(token):
            return None
        same = self._draft.special(name)
        # BOS stands before the text already.
        return () if same is None or same == self._draft.bos else (same,)

    def _tokens_of_piece(self, data: bytes) -> list[int]:
        """Return the tokens of the text between two special tokens, and keep them."""
        tokens = self._pieces.pop(data, None)
        self._pieces[data] = tokens = self._tokens_of(data) if tokens is None else tokens
        if len(self._pieces) > _N_PIECES:
            self._pieces.popitem(last=False)
        return tokens

    def _tokens_of(self, data: bytes) -> list[int]:
        """Return the draft model's tokens of a text; bytes that are none are replaced."""
        text = data.decode("utf-8", "replace")
        for old, new in self._replaced:
            text = text.replace(old, new)
        tokens: list[int] = self._draft.tokenize(text).tolist()
        return tokens


def replacement_pairs(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Split each line ``TARGET DRAFT`` at white space.  Raises SettingsError for other lines."""
    pairs: list[tuple[str, str]] = []
    for line in lines:
        match line.split():
            case [old, new]:
                pairs.append((old, new))
            case _:
                raise SettingsError(
                    f"spec_replace {line!r} is not a pair of two strings.",
                    remedy='Write "TARGET DRAFT", for example "<|fim_prefix|> <PRE>".',
                )
    return pairs


def _leading_text(data: bytes) -> str:
    """Return the text up to the first bytes that are none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()


def _ends_inside_character(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    decoder.decode(data)
    return bool(decoder.getstate()[0])
